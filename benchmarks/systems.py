"""Which systems take part in which case, and the ratio of ours to each that the project wants."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.contender import Entry

OURS = "HeterPS"
INLINE = "HeterPS inline"
LIMIT = "GEMM limit"
# The least ratio ours / theirs in throughput that counts as reached, by case rule.
WANTED = {
    "sgd": {
        "PyTorch": 1.25,
        "PyTorch Hogwild": 1.25,
        "FBGEMM": 1.25,
        "TFRA": 1.7,
        "Paddle async": 3.0,
        "Paddle geo": 3.0,
        LIMIT: 0.75,
    },
    "adagrad": {"FBGEMM": 2.0, "TFRA": 1.7, "Paddle async": 3.0, LIMIT: 0.75},
}


@dataclass(frozen=True)
class Case:
    """One workload that all systems train in turn."""

    model: str
    rule: str
    batch: int

    @property
    def title(self) -> str:
        """How reports call it."""
        return f"{self.model}, {self.rule}, batch {self.batch}"


CASES = (
    Case("wide_deep", "sgd", 1024),
    Case("wide_deep", "sgd", 4096),
    Case("wide_deep", "adagrad", 1024),
    Case("wide_deep", "adagrad", 4096),
    Case("deepfm", "sgd", 1024),
    Case("dlrm", "sgd", 1024),
)


def entries(case: Case) -> list[Entry]:
    """The systems that can train this case."""
    found = [
        Entry(LIMIT, "benchmarks.gemm_limit", arguments={"variant": "2x1"}),
        Entry(f"{LIMIT} 1x2", "benchmarks.gemm_limit", arguments={"variant": "1x2"}),
        Entry(OURS, "benchmarks.ours", pause=False),
        Entry(INLINE, "benchmarks.ours", arguments={"variant": "inline"}),
        Entry("PyTorch", "benchmarks.peer_torch", "torch"),
        Entry("PyTorch 1 thread", "benchmarks.peer_torch", "torch", {"threads": 1}),
        Entry("FBGEMM", "benchmarks.peer_fbgemm", "fbgemm"),
        Entry("FBGEMM 1 thread", "benchmarks.peer_fbgemm", "fbgemm", {"threads": 1}),
        Entry("TFRA", "benchmarks.peer_tfra", "tfra"),
        Entry("Paddle async", "benchmarks.peer_paddle", "paddle", {"variant": "async"}),
    ]
    if case.rule == "sgd":
        # Geo sends deltas: it has no row rule. AdaGrad's state under Hogwild would need locks.
        found.insert(3, Entry("PyTorch Hogwild", "benchmarks.peer_hogwild", "torch"))
        found.append(Entry("Paddle geo", "benchmarks.peer_paddle", "paddle", {"variant": "geo"}))
    return found
