"""Benchmarks: ours beside the peers, interleaved in one run, reported as ratios."""
