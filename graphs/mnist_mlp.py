"""A small MLP over pixels, as parameter-server tutorials train it."""

import heterps as hps
from heterps import ops


def mnist_mlp(pixels: int = 784, hidden: tuple[int, ...] = (256, 128), classes: int = 10) -> hps.Graph:
    h, y = ops.input("x", shape=(pixels,)), ops.input("y", dtype="int64")
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
    return hps.Graph(loss=ops.softmax_cross_entropy(ops.dense(h, classes, name="out"), y, name="loss"))
