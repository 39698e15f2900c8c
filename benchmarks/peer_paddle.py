"""PaddlePaddle 2.6.2 in parameter-server mode: one server and two trainers, ``async`` or ``geo``.

Paddle's launcher owns the processes, so this driver talks to the trainers over a socket in a temporary folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from benchmarks import files
from benchmarks.serve import Settings, serve, settings
from benchmarks.workload import DATA_FOLDER

TRAINERS = 2
# Samples of one pass of one trainer in a window: short, so that both trainers end it at about the same time.
WINDOW_SAMPLES = 32_768


class Paddle:
    """The launcher's processes, driven through one pipe per trainer."""

    def __init__(self, chosen: Settings) -> None:
        self.home = tempfile.TemporaryDirectory(prefix="paddle-")
        address = str(Path(self.home.name) / "socket")
        with Listener(address, "AF_UNIX", backlog=TRAINERS) as listener:
            self.process = self._launch(chosen, address)
            pipes = sorted((self._accept(listener) for _ in range(TRAINERS)), key=lambda pair: pair[0])
        self.pipes = [pipe for _, pipe in pipes]
        for pipe in self.pipes:
            pipe.recv()

    @staticmethod
    def _accept(listener: Listener) -> tuple[int, Connection]:
        pipe = listener.accept()
        return pipe.recv(), pipe

    def _launch(self, chosen: Settings, address: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "HETERPS_PADDLE_SOCKET": address,
            "HETERPS_PADDLE_SETTINGS": json.dumps(dataclasses.asdict(chosen)),
            "HETERPS_PADDLE_FILES": json.dumps(shares(chosen)),
            "OMP_NUM_THREADS": "1",
        }
        script = str(Path(__file__).with_name("paddle_trainer.py"))
        launch = ["-m", "paddle.distributed.launch", "--server_num=1", f"--trainer_num={TRAINERS}"]
        return subprocess.Popen(
            [sys.executable, *launch, f"--log_dir={self.home.name}/log", script],
            cwd=self.home.name,
            env=environment,
            stdin=subprocess.DEVNULL,
        )

    def _all(self, order: tuple[str, float]) -> tuple[int, float]:
        for pipe in self.pipes:
            pipe.send(order)
        told = [pipe.recv() for pipe in self.pipes]
        return sum(t[0] for t in told), max(t[2] for t in told) - min(t[1] for t in told)

    def window(self, seconds: float) -> tuple[int, float]:
        """Both trainers run passes for about that long."""
        return self._all(("go", seconds))

    def learn(self, samples: int) -> tuple[int, float]:
        """Both trainers run one pass over their share."""
        return self._all(("learn", samples))

    def score(self) -> float:
        """AUC as the first trainer sees the model."""
        self.pipes[0].send(("score", 0.0))
        return float(self.pipes[0].recv())


def shares(chosen: Settings) -> list[dict[str, str]]:
    """Per trainer: the file of a window's pass and the file of its share of the training samples."""
    train, shape, out = chosen.read_train(), chosen.shape, []
    for number in range(TRAINERS):
        share = train.rows(number * len(train) // TRAINERS, (number + 1) * len(train) // TRAINERS)
        stem = f"{shape.name}-n{len(train)}-paddle{number}"
        short = share.rows(0, WINDOW_SAMPLES)
        paths = {
            "window": files.slot_text(shape, short, DATA_FOLDER / f"{stem}-window.txt"),
            "learn": files.slot_text(shape, share, DATA_FOLDER / f"{stem}.txt"),
        }
        out.append({name: str(path) for name, path in paths.items()})
    return out


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: Paddle(chosen))
