"""What Paddle's launcher starts in every server and trainer process of the Paddle peer.

Servers serve. Trainers load their file into memory, call back to `peer_paddle` on a socket and train when told to.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle.distributed import fleet

from benchmarks import workload
from benchmarks.serve import DENSE_LR, ROW_RANGE, Settings

GEO_STEPS = 100


def raise_message_limit() -> None:
    """Let brpc send more than 64 MB: a geo pull of a hundred steps is larger and would abort the trainer."""
    library = ctypes.CDLL(str(Path(paddle.__file__).parent / "base" / "libpaddle.so"))
    ctypes.c_uint64.in_dll(library, "_ZN4brpc5fLU6419FLAGS_max_body_sizeE").value = 2 << 30


class Model:
    """The static graph: inputs, logit, loss."""

    def __init__(self, chosen: Settings) -> None:
        shape = chosen.shape
        self.chosen, self.width = chosen, shape.dim + (chosen.model in ("wide_deep", "deepfm"))
        self.label = paddle.static.data("label", [None, 1], "int64")
        self.x = paddle.static.data("x", [None, shape.dense], "float32")
        self.ids = paddle.static.data("ids", [None, shape.single], "int64")
        self.lists = [paddle.static.data(f"list{k}", [None, 1], "int64", lod_level=1) for k in range(shape.lists)]
        rows = self.rows(self.ids.reshape([-1, 1])).reshape([-1, shape.single, self.width])
        self.logit = self.joined(rows)
        self.score = paddle.nn.functional.sigmoid(self.logit)
        target = paddle.cast(self.label, "float32")
        self.loss = paddle.nn.functional.binary_cross_entropy_with_logits(self.logit, target)

    @property
    def inputs(self) -> list[Any]:
        """What a line of the files has, in order."""
        return [self.label, self.x, self.ids, *self.lists]

    def joined(self, rows: Any) -> Any:
        """The logit of rows ``[batch, slots with one id, width]``, and of lists where there are any."""
        if self.chosen.model == "dlrm":
            return self.interact(rows)
        return self.add_up(rows) if self.lists else self.concatenate(rows)

    def add_up(self, rows: Any) -> Any:
        """A tower over rows and sums of lists."""
        shape = self.chosen.shape
        sums = [paddle.static.nn.sequence_pool(self.rows(some), "sum") for some in self.lists]
        h = paddle.concat([self.x, rows.reshape([-1, shape.single * shape.dim]), *sums], axis=1)
        return self.tower(h, shape.layers(self.chosen.model)[-1], last_relu=False)

    def rows(self, ids: Any) -> Any:
        """Look rows up: at the server, or in the trainer's own copy that geo keeps near it."""
        start = paddle.nn.initializer.Uniform(-ROW_RANGE, ROW_RANGE)
        attr = paddle.ParamAttr(name="rows", initializer=start)
        size = [self.chosen.shape.slots * self.chosen.ids, self.width]
        if self.chosen.variant == "geo":
            return paddle.static.nn.embedding(ids, size=size, is_sparse=True, param_attr=attr)
        return paddle.static.nn.sparse_embedding(ids, size=size, param_attr=attr)

    def tower(self, h: Any, widths: list[tuple[int, int]], last_relu: bool) -> Any:
        """Dense layers with ReLU between them."""
        for depth, (_, outputs) in enumerate(widths):
            relu = last_relu or depth < len(widths) - 1
            h = paddle.static.nn.fc(h, outputs, activation="relu" if relu else None)
        return h

    def concatenate(self, rows: Any) -> Any:
        """Wide & Deep or DeepFM."""
        shape = self.chosen.shape
        deep, wide = rows[:, :, : shape.dim], rows[:, :, shape.dim]
        h = paddle.concat([self.x, deep.reshape([-1, shape.slots * shape.dim])], axis=1)
        logit = self.tower(h, shape.layers(self.chosen.model)[-1], last_relu=False)
        logit = logit + paddle.sum(wide, axis=1, keepdim=True)
        if self.chosen.model == "deepfm":
            total, squares = paddle.sum(deep, axis=1), paddle.sum(deep * deep, axis=1)
            logit = logit + 0.5 * paddle.sum(total * total - squares, axis=1, keepdim=True)
        return logit

    def interact(self, rows: Any) -> Any:
        """DLRM: dot products of every pair of vectors."""
        shape, vectors = self.chosen.shape, self.chosen.shape.slots + 1
        bottom, top = shape.layers("dlrm")
        below = self.tower(self.x, bottom, last_relu=True)
        stacked = paddle.concat([below.reshape([-1, 1, shape.dim]), rows], axis=1)
        products = paddle.matmul(stacked, stacked, transpose_y=True).reshape([-1, vectors * vectors])
        low = np.tril_indices(vectors, -1)
        pairs = paddle.index_select(products, paddle.assign((low[0] * vectors + low[1]).astype("int32")), axis=1)
        return self.tower(paddle.concat([below, pairs], axis=1), top, last_relu=False)


def strategy(chosen: Settings) -> Any:
    """Asynchronous or geo, with the row rule that was asked for."""
    made = fleet.DistributedStrategy()
    made.a_sync = True
    if chosen.variant == "geo":
        made.a_sync_configs = {"k_steps": GEO_STEPS, "launch_barrier": True}
        return made
    adagrad = chosen.rule == "adagrad"
    # Left alone, this release updates sparse rows by Adam whatever the optimiser; and it multiplies their gradients by
    # the first dimension of the ids, which SGD has to undo.
    lr = chosen.lr if adagrad else chosen.lr / (chosen.batch * chosen.shape.slots)
    rule, part = ("SparseAdaGradSGDRule", "adagrad") if adagrad else ("SparseNaiveSGDRule", "naive")
    table = "table_parameters.rows."
    config: dict[str, Any] = {
        table + "table_class": "MemorySparseTable",
        table + "shard_num": 16,
        table + "accessor.accessor_class": "SparseAccessor",
    }
    for column in ("embed_sgd_param", "embedx_sgd_param"):
        prefix = f"{table}accessor.{column}."
        config |= {prefix + "name": rule, f"{prefix}{part}.learning_rate": lr}
        config |= {f"{prefix}{part}.initial_range": ROW_RANGE}
        config |= {f"{prefix}{part}.initial_g2sum": 0.1} if adagrad else {}
    made.sparse_table_configs = {"rows": config}
    return made


class Trainer:
    """One trainer process: its samples in memory, passes over them when told to."""

    def __init__(self, chosen: Settings, model: Model) -> None:
        self.chosen, self.model = chosen, model
        self.run = paddle.static.Executor(paddle.CPUPlace())
        self.run.run(paddle.static.default_startup_program())
        fleet.init_worker()
        self.program = paddle.static.default_main_program()
        self.files = json.loads(os.environ["HETERPS_PADDLE_FILES"])[fleet.worker_index()]
        self.held: dict[str, tuple[Any, int]] = {}

    def dataset(self, path: str) -> tuple[Any, int]:
        """A file's samples in memory and their number (which Paddle tells before the first pass only)."""
        if path not in self.held:
            made = paddle.distributed.InMemoryDataset()
            made.init(use_var=self.model.inputs, pipe_command="cat", batch_size=self.chosen.batch, thread_num=1)
            made.set_filelist([path])
            made.load_into_memory()
            self.held[path] = made, made.get_memory_data_size()
        return self.held[path]

    def passes(self, seconds: float) -> tuple[int, float, float]:
        """Whole passes over the short file until the time is up: samples, when begun, when ended."""
        (data, size), done = self.dataset(self.files["window"]), 0
        began = time.time()
        while time.time() - began < seconds:
            self.run.train_from_dataset(self.program, data, thread=1)
            done += size
        return done, began, time.time()

    def learn(self) -> tuple[int, float, float]:
        """One pass over this trainer's share of the training samples."""
        data, size = self.dataset(self.files["learn"])
        began = time.time()
        self.run.train_from_dataset(self.program, data, thread=1)
        return size, began, time.time()

    def scores(self) -> np.ndarray:
        """Predictions for the held-out samples, each made before the program trains on its batch."""
        test, shape, size = self.chosen.read_test(), self.chosen.shape, self.chosen.batch
        ids = test.index.astype(np.int64) + np.arange(shape.slots) * shape.ids
        out = []
        for i in range(0, len(test), size):
            part = slice(i, i + size)
            feed = {"label": test.label[part].astype(np.int64)[:, None], "x": test.dense[part], "ids": ids[part]}
            out.append(self.run.run(self.program, feed=feed, fetch_list=[self.model.score])[0].ravel())
        return np.concatenate(out)

    def serve(self, pipe: Connection) -> None:
        """Obey the driver until it says stop."""
        pipe.send("ready")
        while (order := pipe.recv()) is not None:
            command, number = order
            if command == "score":
                pipe.send(workload.auc(self.scores(), self.chosen.read_test().label))
            else:
                pipe.send(self.passes(number) if command == "go" else self.learn())


def main() -> None:
    chosen = Settings(**json.loads(os.environ["HETERPS_PADDLE_SETTINGS"]))
    paddle.enable_static()
    paddle.seed(chosen.seed)
    raise_message_limit()
    fleet.init(is_collective=False)
    model = Model(chosen)
    fleet.distributed_optimizer(paddle.optimizer.SGD(DENSE_LR), strategy(chosen)).minimize(model.loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    trainer = Trainer(chosen, model)
    with Client(os.environ["HETERPS_PADDLE_SOCKET"], "AF_UNIX") as pipe:
        pipe.send(fleet.worker_index())
        trainer.serve(pipe)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
