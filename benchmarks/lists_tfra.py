"""TensorFlow with recommenders-addons on slots with lists of ids: unique keys, dynamic embeddings, segment sums."""

from __future__ import annotations

import numpy as np

from benchmarks.peer_tfra import embeddings, row_update, rules, tf, tower
from benchmarks.serve import DENSE_LR, ROW_RANGE, Settings, Stepwise, serve, settings
from benchmarks.workload import ListSamples, Samples


def batches(samples: Samples, ids: int, size: int) -> list[tuple[tf.Tensor, ...]]:
    """Dense features, ids, the bag of each id, and labels of each batch, as constants."""
    assert isinstance(samples, ListSamples)
    out = []
    for i in range(0, len(samples), size):
        part = samples.rows(i, i + size)
        sizes = part.bag_sizes().ravel()
        bags = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        out.append(tuple(map(tf.constant, (part.dense, part.by_sample(ids)[0], bags, part.label))))
    return out


def build(chosen: Settings) -> Stepwise:
    tf.config.threading.set_intra_op_parallelism_threads(chosen.threads)
    tf.config.threading.set_inter_op_parallelism_threads(chosen.threads)
    tf.random.set_seed(chosen.seed)
    shape, test, held = chosen.shape, chosen.read_test(), batches(chosen.read_train(), chosen.ids, chosen.batch)
    net, width = tower(shape.layers(chosen.model)[-1], False), shape.slots * shape.dim
    table = embeddings.get_variable(
        "rows",
        key_dtype=tf.int64,
        dim=shape.dim,
        devices=["/CPU:0"],
        initializer=tf.random_uniform_initializer(-ROW_RANGE, ROW_RANGE),
        init_size=shape.slots * chosen.ids,
    )
    shadow = embeddings.shadow_ops.ShadowVariable(table, name="looked_up")
    row_rule, dense_rule = embeddings.DynamicEmbeddingOptimizer(row_update(chosen)), rules.SGD(DENSE_LR)

    def logits(x: tf.Tensor, keys: tf.Tensor, bags: tf.Tensor) -> tf.Tensor:
        unique, inverse = tf.unique(keys)
        rows = tf.gather(embeddings.shadow_ops.embedding_lookup(shadow, unique), inverse)
        pooled = tf.reshape(tf.math.segment_sum(rows, bags), [-1, width])
        return net(tf.concat([x, pooled], 1))[:, 0]

    @tf.function(reduce_retracing=True)
    def train_step(x: tf.Tensor, keys: tf.Tensor, bags: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits(x, keys, bags)))
        *dense, sparse = tape.gradient(loss, [*net.trainable_variables, shadow])
        dense_rule.apply_gradients(zip(dense, net.trainable_variables, strict=True))
        row_rule.apply_gradients([(sparse, shadow)])

    forward = tf.function(logits, reduce_retracing=True)

    def predict() -> np.ndarray:
        return np.concatenate([forward(*features).numpy() for *features, _ in batches(test, chosen.ids, chosen.batch)])

    return Stepwise(chosen.batch, len(held), lambda i: train_step(*held[i]), predict, test.label)


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: build(chosen))
