"""The workload as files: Criteo-shaped TSV, Parquet, and the slot text that Paddle's dataset reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.workload import DATA_FOLDER, ListSamples, Samples, Workload

PARTS = 8  # files of a folder, so that processes can share them


def tsv(workload: Workload, samples: int, folder: Path = DATA_FOLDER) -> Path:
    """Label, counts, then tokens as eight hexadecimal digits, tab-separated, no header: the Criteo layout."""

    def write(path: Path) -> None:
        path.mkdir()
        for number, part in enumerate(_parts(workload, samples)):
            with (path / f"part-{number}.tsv").open("w") as out:
                out.writelines(_tsv_lines(workload, part))

    return _once(folder / f"{workload.name}-n{samples}-tsv", write)


def _parts(workload: Workload, samples: int) -> Iterator[Samples]:
    """The samples cut into as many parts as there will be files."""
    made = workload.generate(samples)
    for number in range(PARTS):
        yield made.rows(number * samples // PARTS, (number + 1) * samples // PARTS)


def _tsv_lines(workload: Workload, part: Samples) -> list[str]:
    line = "\t".join(["%d"] * (1 + workload.dense) + ["%08x"] * workload.slots) + "\n"
    columns = (part.label.astype(np.int64)[:, None], part.counts, workload.tokens(part.index))
    return [line % tuple(row) for row in np.concatenate(columns, axis=1).tolist()]


def parquet(workload: Workload, samples: int, folder: Path = DATA_FOLDER) -> Path:
    """Columns ``label``, ``I1``.., ``C1``.. (tokens as integers)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(path: Path) -> None:
        path.mkdir()
        for number, part in enumerate(_parts(workload, samples)):
            pq.write_table(pa.table(_columns(workload, part)), path / f"part-{number}.parquet")

    return _once(folder / f"{workload.name}-n{samples}-parquet", write)


def _columns(workload: Workload, part: Samples) -> dict[str, np.ndarray]:
    tokens = workload.tokens(part.index).astype(np.int64)
    columns = {"label": part.label.astype(np.int8)}
    columns |= {f"I{i + 1}": part.counts[:, i] for i in range(workload.dense)}
    return columns | {f"C{i + 1}": tokens[:, i] for i in range(workload.slots)}


def slot_text(workload: Workload, part: Samples, path: Path) -> Path:
    """Paddle's MultiSlot lines: per slot its number of values, then the values; ids of all slots in one space."""
    ids = part.index.astype(np.int64) + np.arange(workload.single) * workload.ids
    line = f"1 %d {workload.dense} " + " ".join(["%.5f"] * workload.dense)
    line += f" {workload.single} " + " ".join(["%d"] * workload.single) + "%s\n"

    def write(partial: Path) -> None:
        rows = zip(
            part.label.astype(int).tolist(), part.dense.tolist(), ids.tolist(), _lists(workload, part), strict=True
        )
        with partial.open("w") as out:
            out.writelines(line % (label, *dense, *row, lists) for label, dense, row, lists in rows)

    return _once(path, write)


def _lists(workload: Workload, part: Samples) -> Iterator[str]:
    """What stands behind the slots with one id: the lists of each sample."""
    if not isinstance(part, ListSamples):
        yield from [""] * len(part)
        return
    ids = (part.listed + (workload.single + part.slot_of_listed()) * workload.ids).tolist()
    at = 0
    for lengths in part.lengths.tolist():
        text = ""
        for n in lengths:
            text += f" {n} " + " ".join(map(str, ids[at : at + n]))
            at += n
        yield text


def _once(path: Path, write: Callable[[Path], None]) -> Path:
    """Write under a temporary name, then rename: a file that is there is whole."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        write(partial)
        partial.rename(path)
    return path
