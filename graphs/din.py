"""DIN: what a user has seen, weighted by how it suits the candidate (Zhou et al., 2018)."""

from collections.abc import Callable

import heterps as hps
from heterps import ops


def din(
    user_slots: int = 4,
    dim: int = 16,
    attention: tuple[int, ...] = (36,),
    hidden: tuple[int, ...] = (64, 32),
    activation: str = "dice",
    mean_history: float = 20.0,
) -> hps.Graph:
    """Columns ``user`` (ids), ``item`` (one id), ``history`` (ragged item ids) and ``y``; activation dice or prelu."""
    user, item = ops.input("user", (user_slots,), "uint64"), ops.input("item", dtype="uint64")
    history = ops.input("history", dtype="uint64", ragged=True, mean_length=mean_history)
    candidate = ops.lookup(item, table="items", dim=dim, name="candidate")
    seen = ops.lookup(history, table="items", dim=dim, name="seen")
    interest = ops.attention(candidate, seen, hidden=attention, normalise=True, name="interest")
    both = ops.mul(candidate, interest, name="match")
    people = ops.lookup(user, table="users", dim=dim, name="people")
    h = ops.concat(people, candidate, interest, both, name="features")
    bends: dict[str, Callable[..., ops.Tensor]] = {"dice": ops.dice, "prelu": ops.prelu}
    for i, width in enumerate(hidden):
        h = bends[activation](ops.dense(h, width, name=f"fc{i}"), name=f"{activation}{i}")
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y"), name="loss"))
