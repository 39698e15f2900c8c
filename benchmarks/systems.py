"""Which systems take part in which case."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.contender import Entry

OURS = "HeterPS"
INLINE = "HeterPS inline"
TCP = "HeterPS TCP"
LIMIT = "GEMM limit"
HOGWILD = "PyTorch Hogwild"


@dataclass(frozen=True)
class Case:
    """One workload that all systems train in turn."""

    model: str
    rule: str
    batch: int
    source: str = "memory"

    @property
    def title(self) -> str:
        """How reports call it."""
        return f"{self.model}, {self.rule}, batch {self.batch}" + _FROM[self.source]


_FROM = {"memory": "", "tsv": ", from TSV files", "parquet": ", from Parquet files"}
CASES = (
    Case("wide_deep", "sgd", 1024),
    Case("wide_deep", "sgd", 4096),
    Case("wide_deep", "adagrad", 1024),
    Case("wide_deep", "adagrad", 4096),
    Case("wide_deep", "rowwise", 1024),
    Case("deepfm", "sgd", 1024),
    Case("dlrm", "sgd", 1024),
    Case("wide_deep", "sgd", 1024, "tsv"),
    Case("wide_deep", "sgd", 1024, "parquet"),
    Case("sparse_heavy", "sgd", 1024),
)


def entries(case: Case) -> list[Entry]:
    """The systems that can train this case."""
    ours = [
        Entry(LIMIT, "benchmarks.gemm_limit", arguments={"variant": "2x1"}),
        Entry(OURS, "benchmarks.ours", pause=False),
        Entry(INLINE, "benchmarks.ours", arguments={"variant": "inline"}),
    ]
    if case.model == "sparse_heavy":
        return [*ours, *_with_lists()]
    if case.rule == "rowwise":  # nobody else has it
        return [*ours, Entry("FBGEMM", "benchmarks.peer_fbgemm", "fbgemm")]
    torch = [Entry("PyTorch", "benchmarks.peer_torch", "torch")]
    if case.rule == "sgd":  # AdaGrad's state under Hogwild would need locks
        torch.insert(0, Entry(HOGWILD, "benchmarks.peer_hogwild", "torch"))
    return ours + torch + (_others(case) if case.source == "memory" else [])


def _with_lists() -> list[Entry]:
    """Peers on the workload where slots have lists of ids."""
    return [
        Entry("PyTorch", "benchmarks.lists_torch", "torch"),
        Entry("FBGEMM", "benchmarks.lists_fbgemm", "fbgemm"),
        Entry("TFRA", "benchmarks.lists_tfra", "tfra"),
        Entry("Paddle async", "benchmarks.peer_paddle", "paddle", {"variant": "async"}),
    ]


def _others(case: Case) -> list[Entry]:
    """Peers that read arrays, or a format of their own, only."""
    found = [
        Entry("FBGEMM", "benchmarks.peer_fbgemm", "fbgemm"),
        Entry("TFRA", "benchmarks.peer_tfra", "tfra"),
        Entry("Paddle async", "benchmarks.peer_paddle", "paddle", {"variant": "async"}),
    ]
    if case.rule == "sgd":  # geo sends deltas: it has no row rule
        found.append(Entry("Paddle geo", "benchmarks.peer_paddle", "paddle", {"variant": "geo"}))
    if case.model == "wide_deep":
        found.append(Entry(TCP, "benchmarks.ours", arguments={"variant": "tcp"}))
    if case == CASES[0]:
        found += [
            Entry("PyTorch 1 thread", "benchmarks.peer_torch", "torch", {"threads": 1}),
            Entry("FBGEMM 1 thread", "benchmarks.peer_fbgemm", "fbgemm", {"threads": 1}),
            Entry(f"{LIMIT} 1x2", "benchmarks.gemm_limit", arguments={"variant": "1x2"}),
        ]
    return found
