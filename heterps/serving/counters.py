"""What a server has done, as Prometheus reads it."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter

__all__ = ["ServerCounters"]

_EDGES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerCounters:
    """Requests by path and answer, rows, seconds, reloads. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds = [0] * (len(_EDGES) + 1)
        self._total_s = 0.0
        self._rows = 0
        self._reloads: Counter[str] = Counter()

    def answered(self, path: str, code: int, seconds: float, rows: int = 0) -> None:
        """Count an answer."""
        with self._lock:
            self._requests[path, code] += 1
            if path == "/predict":
                self._seconds[bisect_left(_EDGES, seconds)] += 1
                self._total_s += seconds
                self._rows += rows

    def reloaded(self, outcome: str) -> None:
        """Count a reload: ``changed``, ``same`` or ``failed``."""
        with self._lock:
            self._reloads[outcome] += 1

    def text(self, version: str, waiting: int, computing: int) -> str:
        """Return everything as Prometheus text."""
        with self._lock:
            requests, seconds = sorted(self._requests.items()), list(self._seconds)
            total_s, rows, reloads = self._total_s, self._rows, sorted(self._reloads.items())
        lines = ["# TYPE heterps_requests_total counter"]
        lines += [f'heterps_requests_total{{path="{path}",code="{code}"}} {n}' for (path, code), n in requests]
        lines += ["# TYPE heterps_predict_seconds histogram", *_histogram(seconds, total_s)]
        lines += ["# TYPE heterps_rows_total counter", f"heterps_rows_total {rows}"]
        lines += ["# TYPE heterps_reloads_total counter"]
        lines += [f'heterps_reloads_total{{outcome="{outcome}"}} {n}' for outcome, n in reloads]
        lines += ["# TYPE heterps_waiting gauge", f"heterps_waiting {waiting}"]
        lines += ["# TYPE heterps_computing gauge", f"heterps_computing {computing}"]
        lines += ["# TYPE heterps_model_info gauge", f'heterps_model_info{{version="{version}"}} 1', ""]
        return "\n".join(lines)


def _histogram(counts: list[int], total_s: float) -> list[str]:
    lines, below = [], 0
    for edge, count in zip((*map(str, _EDGES), "+Inf"), counts, strict=True):
        below += count
        lines.append(f'heterps_predict_seconds_bucket{{le="{edge}"}} {below}')
    return [*lines, f"heterps_predict_seconds_sum {total_s:.6f}", f"heterps_predict_seconds_count {below}"]
