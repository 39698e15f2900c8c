"""TensorFlow with recommenders-addons: dynamic (hash-table) embeddings on the CPU, one compiled step function."""

from __future__ import annotations

import os

os.environ.update(TF_USE_LEGACY_KERAS="1", TF_CPP_MIN_LOG_LEVEL="3")

import numpy as np
import tensorflow as tf
import tensorflow_recommenders_addons as tfra
import tf_keras

from benchmarks.serve import DENSE_LR, ROW_RANGE, Settings, Stepwise, serve, settings
from benchmarks.workload import Samples, Workload

embeddings = tfra.dynamic_embedding
rules = tf_keras.optimizers.legacy


def tower(widths: list[tuple[int, int]], last_relu: bool) -> tf_keras.Sequential:
    dense = tf_keras.layers.Dense
    out = [dense(b, "relu" if last_relu or depth < len(widths) - 1 else None) for depth, (_, b) in enumerate(widths)]
    made = tf_keras.Sequential(out)
    made.build((None, widths[0][0]))
    return made


class Net:
    """The dense part of a model: features and looked-up rows to logits."""

    def __init__(self, shape: Workload, model: str) -> None:
        self.shape, self.model = shape, model
        towers = shape.layers(model)
        self.bottom = tower(towers[0], True) if model == "dlrm" else None
        self.top = tower(towers[-1], False)
        vectors = shape.slots + 1
        low = np.tril_indices(vectors, -1)
        self.pairs = tf.constant(low[0] * vectors + low[1], tf.int32)
        self.width = shape.dim + (model != "dlrm")

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything trained densely."""
        return self.top.trainable_variables + (self.bottom.trainable_variables if self.bottom else [])

    def __call__(self, x: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Logits of a batch."""
        dim, slots = self.shape.dim, self.shape.slots
        deep = rows[:, :, :dim]
        if self.bottom is not None:
            below = self.bottom(x)
            vectors = tf.concat([below[:, None], deep], 1)
            products = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [-1, (slots + 1) ** 2])
            return self.top(tf.concat([below, tf.gather(products, self.pairs, axis=1)], 1))[:, 0]
        logit = self.top(tf.concat([x, tf.reshape(deep, [-1, slots * dim])], 1))[:, 0]
        logit += tf.reduce_sum(rows[:, :, dim], 1)
        if self.model == "deepfm":
            total, squares = tf.reduce_sum(deep, 1), tf.reduce_sum(deep * deep, 1)
            logit += 0.5 * tf.reduce_sum(total * total - squares, 1)
        return logit


def tensors(samples: Samples, ids: int, size: int) -> list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """Whole batches as constants, so that no window pays for conversion."""
    keys = samples.index.astype(np.int64) + np.arange(samples.index.shape[1]) * ids
    columns = (samples.dense, keys, samples.label)
    return [tuple(tf.constant(c[i : i + size]) for c in columns) for i in range(0, len(samples), size)]


def row_update(chosen: Settings) -> rules.Optimizer:
    """AdaGrad from an empty sum, as PyTorch's; Keras would begin at 0.1."""
    if chosen.rule == "sgd":
        return rules.SGD(chosen.lr)
    return rules.Adagrad(chosen.lr, initial_accumulator_value=0.0, epsilon=1e-10)


def build(chosen: Settings) -> Stepwise:
    tf.config.threading.set_intra_op_parallelism_threads(chosen.threads)
    tf.config.threading.set_inter_op_parallelism_threads(chosen.threads)
    tf.random.set_seed(chosen.seed)
    train, test, slots = chosen.read_train(), chosen.read_test(), chosen.shape.slots
    batches = tensors(train, chosen.ids, chosen.batch)
    net = Net(chosen.shape, chosen.model)
    table = embeddings.get_variable(
        "rows",
        key_dtype=tf.int64,
        dim=net.width,
        devices=["/CPU:0"],
        initializer=tf.random_uniform_initializer(-ROW_RANGE, ROW_RANGE),
        init_size=slots * chosen.ids,
    )
    shadow = embeddings.shadow_ops.ShadowVariable(table, name="looked_up")
    row_rule = embeddings.DynamicEmbeddingOptimizer(row_update(chosen))
    dense_rule = rules.SGD(DENSE_LR)

    def lookup(keys: tf.Tensor) -> tf.Tensor:
        unique, inverse = tf.unique(tf.reshape(keys, [-1]))
        found = embeddings.shadow_ops.embedding_lookup(shadow, unique)
        return tf.reshape(tf.gather(found, inverse), [-1, slots, net.width])

    @tf.function
    def train_step(x: tf.Tensor, keys: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            logit = net(x, lookup(keys))
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logit))
        *dense, sparse = tape.gradient(loss, [*net.variables, shadow])
        dense_rule.apply_gradients(zip(dense, net.variables, strict=True))
        row_rule.apply_gradients([(sparse, shadow)])

    @tf.function
    def forward(x: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        return net(x, lookup(keys))

    def predict() -> np.ndarray:
        return np.concatenate([forward(x, keys).numpy() for x, keys, _ in tensors(test, chosen.ids, chosen.batch)])

    return Stepwise(chosen.batch, len(batches), lambda i: train_step(*batches[i]), predict, test.label)


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: build(chosen))
