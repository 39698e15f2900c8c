"""MATCHNET: a user tower and an item tower that meet in a dot product, trained against the batch's other items."""

import heterps as hps
from heterps import ops


def tower(h: ops.Tensor, widths: tuple[int, ...], name: str) -> ops.Tensor:
    for i, width in enumerate(widths[:-1]):
        h = ops.relu(ops.dense(h, width, name=f"{name}{i}"), name=f"{name}{i}_relu")
    return ops.l2_normalize(ops.dense(h, widths[-1], name=f"{name}_out"), name=f"{name}_vector")


def matchnet(
    user_slots: int = 4,
    item_slots: int = 1,
    dim: int = 32,
    hidden: tuple[int, ...] = (64,),
    width: int = 32,
    temperature: float = 0.1,
    mean_history: float = 20.0,
) -> hps.Graph:
    """Columns: ``user`` and ``item`` features, ``history`` (ragged ids), ``item_id`` and ``log_share`` for the loss."""
    user, item = ops.input("user", (user_slots,), "uint64"), ops.input("item", (item_slots,), "uint64")
    history = ops.input("history", dtype="uint64", ragged=True, mean_length=mean_history)
    seen = ops.sequence_mean(ops.lookup(history, table="history", dim=dim, name="seen"), name="interest")
    left = tower(
        ops.concat(ops.lookup(user, table="users", dim=dim), seen, name="about_user"), (*hidden, width), "user"
    )
    about = ops.concat(ops.lookup(item, table="items", dim=dim), name="about_item")
    right = tower(about, (*hidden, width), "item")
    item_id, log_share = ops.input("item_id", dtype="uint64"), ops.input("log_share")
    loss = ops.in_batch_softmax(left, right, item_id, log_share, temperature=temperature, name="loss")
    return hps.Graph(loss=loss, outputs={"user_vector": left, "item_vector": right})
