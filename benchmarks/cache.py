"""An embedding cache where links are slow: scheduler, two servers and two workers, each behind a link of its own.

    python -m benchmarks.cache [--seconds 15] [--rate 100] [--staleness 64] [--quality] [PERCENT ...]

Clicks with 26 ids each by Zipf 1.1 out of 520,000; caches of 1, 5 and 20 % of the rows against none. Prints samples/s,
bytes per sample on the workers' links, hit rate, CPU. With ``--quality`` all samples (``HETERPS_SAMPLES``) are trained
on once, in this process's cluster without limits on links, and the model is judged by AUC on held out clicks.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from time import monotonic

from benchmarks.geo_links import judged, run
from benchmarks.machine import describe
from benchmarks.netlab import Link

DRIVER = "benchmarks.cache_driver"


def quality(percent: float, staleness: int) -> dict[str, float]:
    """Train on all samples in this process's cluster and judge the model."""
    return judged(DRIVER, [str(percent), str(staleness)], "auc")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("percents", nargs="*", type=float, default=[0.0, 1.0, 5.0, 20.0])
    parser.add_argument("--rate", type=float, action="append", help="Mbit/s of every link")
    parser.add_argument("--staleness", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--quality", action="store_true")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab is taken down
    print(f"{describe()['processor']}; load {os.getloadavg()[0]:.1f}; staleness {chosen.staleness}")
    for percent in chosen.percents if chosen.quality else ():
        began = monotonic()
        print(f"{percent:g} %: {quality(percent, chosen.staleness)} ({monotonic() - began:.0f} s)", flush=True)
    for rate in () if chosen.quality else chosen.rate or [1000.0, 100.0]:
        first: dict[str, float] = {}
        for percent in chosen.percents:
            found = run(DRIVER, [str(percent), str(chosen.staleness), str(chosen.seconds)], Link(rate))
            first = first or found
            figures = ", ".join(f"{name} {value:,.4g}" for name, value in found.items())
            ratios = [found["samples/s"] / first["samples/s"], first["bytes/sample"] / found["bytes/sample"]]
            print(f"{percent:g} % of rows, {Link(rate)}: {figures}", flush=True)
            print(f"    {ratios[0]:.2f} times the samples/s, {ratios[1]:.2f} times fewer bytes", flush=True)


if __name__ == "__main__":
    main()
