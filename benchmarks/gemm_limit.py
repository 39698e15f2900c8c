"""The matrix-multiplication limit: only the GEMMs of the model's dense layers, with NumPy's BLAS, two threads in all.

Forward, gradient of the input (where one is needed) and gradient of the weights, on batches that are already there. A
trainer with the same BLAS can approach this rate but not pass it. Variants: ``2x1`` (two threads, each its own batch)
and ``1x2`` (one batch, BLAS with two threads).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.serve import Settings, serve, settings


class Layer:
    """Buffers and GEMMs of one dense layer."""

    def __init__(self, batch: int, inputs: int, outputs: int, first: bool, rng: np.random.Generator) -> None:
        self.x = rng.standard_normal((batch, inputs), np.float32)
        self.w = rng.standard_normal((inputs, outputs), np.float32) * np.float32(0.05)
        self.dy = rng.standard_normal((batch, outputs), np.float32)
        self.y, self.gw = np.empty_like(self.dy), np.empty_like(self.w)
        self.dx = None if first else np.empty_like(self.x)

    def run(self) -> None:
        """Multiply what a training step multiplies."""
        np.dot(self.x, self.w, out=self.y)
        np.dot(self.x.T, self.dy, out=self.gw)
        if self.dx is not None:
            np.dot(self.dy, self.w.T, out=self.dx)


class Limit:
    """Runs the GEMMs of whole batches on some threads."""

    def __init__(self, chosen: Settings) -> None:
        self.batch = chosen.batch
        lanes, blas = (1, 2) if chosen.variant == "1x2" else (2, 1)
        self.limits = threadpool_limits(blas, user_api="blas")
        self.lanes = [self._layers(chosen, seed) for seed in range(lanes)]
        self.pool = ThreadPoolExecutor(lanes)

    @staticmethod
    def _layers(chosen: Settings, seed: int) -> list[Layer]:
        rng = np.random.default_rng(seed)
        towers = chosen.shape.layers(chosen.model)
        # Inputs of every tower but the last are data: nothing flows back into them.
        return [
            Layer(chosen.batch, a, b, first=tower is not towers[-1] and depth == 0, rng=rng)
            for tower in towers
            for depth, (a, b) in enumerate(tower)
        ]

    def window(self, seconds: float) -> tuple[int, float]:
        """Multiply for about that long."""
        began = time.perf_counter()

        def lane(layers: list[Layer]) -> int:
            done = 0
            while time.perf_counter() - began < seconds:
                for layer in layers:
                    layer.run()
                done += 1
            return done

        batches = sum(self.pool.map(lane, self.lanes))
        return batches * self.batch, time.perf_counter() - began

    def learn(self, samples: int) -> tuple[int, float]:
        """Nothing is learned here."""
        raise NotImplementedError("the limit multiplies matrices; it does not train")

    def score(self) -> float:
        """Nothing is learned here."""
        raise NotImplementedError("the limit multiplies matrices; it does not train")


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: Limit(chosen))
