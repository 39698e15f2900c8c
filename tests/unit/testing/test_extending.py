"""examples/extending: parts written outside the package pass the contracts, and reach processes that never saw them."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import heterps as hps
from heterps.cli import main
from heterps.data import Dataset, Schema, dense, label, ragged
from heterps.data.sources.chunked import Chunked
from heterps.device import register_namespace
from heterps.errors import DataError, GraphError, HardwareError, TableError, UnknownKindError
from heterps.graph import OpKind, kind, register_kind
from heterps.kernels import Kernel, kernel, register_kernel
from heterps.runtime.batch.own_parts import OwnParts
from heterps.tables import ACCESSORS, RULES, Accessor, CtrAccessor, Rule
from heterps.testing import AccessorContract, DeviceContract, OpContract, ReaderContract, RuleContract
from heterps.testing.op_cases import unary

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "extending"
PARTS = ("own_accessor", "own_device", "own_op", "own_reader", "own_rule")


@pytest.fixture(scope="module", autouse=True)
def _beside() -> Iterator[None]:
    """As a program in that folder imports them."""
    sys.path.insert(0, str(FOLDER))
    for name in PARTS:
        importlib.import_module(name)
    yield
    sys.path.remove(str(FOLDER))


def part(name: str) -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


@pytest.mark.full
class TestHalfLife(AccessorContract):
    accessors = (part("own_accessor").HalfLife(keep=3.0), part("own_accessor").HalfLife(days=1.0, embed=2))


class TestCtrAccessor(AccessorContract):
    accessors = (CtrAccessor(embed=3, delete_threshold=4.0, base_threshold=6.0),)


class TestNpz(ReaderContract):
    def dataset(self, folder: Path) -> Dataset:
        for n in range(5):
            np.savez(folder / f"{n}.npz", **columns(n))
        data: Dataset = part("own_reader").npz(folder, split_cost=1)
        return data

    def expected(self) -> Sequence[tuple[Any, ...]]:
        rows = ([columns(n)[name].tolist() for name in ("ids", "x", "y")] for n in range(5))
        return [row for each in rows for row in zip(*each, strict=True)]

    def damaged(self, folder: Path) -> tuple[Dataset, int]:
        made = columns(0)
        made["x"][3, 0] = np.inf
        made["y"][7] = np.nan
        np.savez(folder / "bad.npz", **made)
        return part("own_reader").npz(folder), 2


def columns(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(40, 2)).astype(np.float32)
    return {"ids": np.arange(40 * n, 40 * n + 40)[:, None], "x": x, "y": rng.integers(0, 2, 40).astype(np.float32)}


@pytest.mark.full
class TestSoftplus(OpContract):
    cases = {"softplus": unary("softplus", low=1)}  # noqa: RUF012


@pytest.mark.full
class TestLion(RuleContract):
    @staticmethod
    def formula(w: Any, state: dict[str, Any], g: Any, shows: float) -> Any:
        m = state.get("m", np.zeros_like(g))
        state["m"] = 0.99 * m + 0.01 * g
        return w - 0.02 * (np.sign(0.9 * m + 0.1 * g) + 0.1 * w)

    rules = ((part("own_rule").Lion(lr=0.02, decay=0.1), formula),)


@pytest.mark.full
class TestMetered(DeviceContract):
    device = "metered"


class Chunk(Chunked):
    """Rows that a test gives."""

    made: dict[str, Any] = {}  # noqa: RUF012

    @property
    def schema(self) -> Schema:
        return Schema.of(dense("x", shape=(2,)), ragged("tags"), label("y"))

    def pieces(self, grain: int) -> Any:
        from heterps.data import Piece

        return (Piece("somewhere", 0, -1, 1),)

    def chunks(self, piece: Any) -> Any:
        yield self.made


GOOD = {"x": np.zeros((2, 2)), "tags": hps.Ragged.from_lists([[1], [2, 3]]), "y": np.ones(2)}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"y": None}, "somewhere: a chunk lacks the column 'y'; it has x, tags"),
        ({"x": np.zeros((2, 3))}, r"column 'x' has the shape \(2, 3\), expected"),
        ({"y": np.ones(3)}, "different numbers of rows: {'x': 2, 'tags': 2, 'y': 3}"),
        ({"tags": np.ones(2)}, "column 'tags' is ragged: give a heterps.Ragged"),
        ({"tags": hps.Ragged(np.array([-1]), np.array([0, 0, 1]))}, "negative id -1"),
    ],
    ids=["lacks one", "shape", "lengths", "no lists", "negative"],
)
def test_what_a_reader_gives_wrongly_is_named(change: dict[str, Any], told: str) -> None:
    data = Chunk()
    object.__setattr__(data, "made", {n: v for n, v in (GOOD | change).items() if v is not None})
    with pytest.raises(DataError, match=told):
        next(iter(data.read(data.splits()[0], batch_size=4)))


def test_a_cell_that_is_run_again_replaces_its_parts_and_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # as a notebook does: other functions and classes under the same names
        register_kind(OpKind("tests.again", lambda attrs, inputs: inputs[0]))
        register_kernel("tests.again", Kernel(lambda work: None, lambda c: None))  # type: ignore[arg-type,return-value]
        register_namespace("tests.again", lambda: np)
        importlib.reload(part("own_rule"))
    assert RULES["Lion"] is part("own_rule").Lion
    with pytest.raises(GraphError, match="'relu' is registered already"):
        register_kind(OpKind("relu", lambda attrs, inputs: inputs[0]))
    with pytest.raises(GraphError, match="'relu' has a kernel already"):
        register_kernel("relu", Kernel(lambda work: None, lambda c: None))  # type: ignore[arg-type,return-value]
    with pytest.raises(HardwareError, match="'cpu' is registered already"):
        register_namespace("cpu", lambda: np)
    with pytest.raises(TableError, match="a rule is called 'SGD' already"):
        RULES.add(type("SGD", (Rule,), {"__module__": __name__, "__dataclass_fields__": {}}))
    with pytest.raises(DataError, match="a data format is called 'csv' already"):
        part("own_reader").register_reader("csv", part("own_reader").npz)
    with pytest.raises(DataError, match=r"end in \.parquet are of the format 'parquet' already"):
        part("own_reader").register_reader("mine", part("own_reader").npz, ["parquet"])


def test_a_score_of_its_own_is_refused() -> None:
    with pytest.raises(TableError, match="accessor Louder has a score"):
        type("Louder", (Accessor,), {"score": lambda self, show, click: show})


RECEIVER = """
import pickle, sys
job, data = pickle.loads(open(sys.argv[1], "rb").read())
from heterps.data import BadBook
from heterps.device import registered_devices
from heterps.graph import kind
from heterps.kernels import kernel
from heterps.tables import ACCESSORS, RULES
assert not [name for name in sys.modules if name.startswith("own_")], "code travels, modules do not"
table = job.model.groups[0].tables[0]
assert RULES["Lion"] is type(table.rule) and ACCESSORS["HalfLife"] is type(table.accessor)
assert "metered" in registered_devices() and kernel("softplus").forward
batch = next(iter(data.read(data.splits()[0], batch_size=8)))
print(table.rule, job.device_here(0), kind("softplus").doc, batch["y"].shape)
"""


def test_parts_reach_a_process_that_cannot_import_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of another machine: the files lie beside the program that was started, and nowhere else."""
    monkeypatch.chdir(FOLDER)
    train = importlib.import_module("train")
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", ids=np.ones((9, 2), int), x=np.ones((9, 3)), y=np.ones(9))
    plan = hps.Plan.fused(train.model(), batch_size=8)
    with hps.launch(plan, engine="inline", device="metered") as session:
        sent = pickle.dumps((session.job, part("own_reader").npz(tmp_path / "data")))
    (tmp_path / "sent").write_bytes(sent)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, "-c", RECEIVER, str(tmp_path / "sent")]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Lion("), done.stdout
    assert "metered, emulated (asked for) log(1 + exp(slope x)) (8,)" in done.stdout


def test_what_comes_from_a_job_replaces_what_came_with_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kind("softplus"), kernel("softplus"), RULES["Lion"]
    parts = OwnParts(((before[0], before[1]),), (before[2],), None, process="elsewhere")
    RULES.take_over(type("Lion", (Rule,), {}))
    parts.install()
    assert (kind("softplus"), kernel("softplus"), RULES["Lion"]) == before


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", ["in one process", "on processes"])
def test_the_program_that_uses_them_all(where: str, tmp_path: Path) -> None:
    before = [] if where == "in one process" else ["-m", "heterps", "launch", "--servers", "1", "--io", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, *before, str(FOLDER / "train.py")]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    first, trained, loaded, *asked = done.stdout.splitlines()
    assert first.startswith("24000 samples, ")
    assert 0 < int(first.split()[2]) < 300
    assert float(trained.split()[-1]) > 0.8
    assert loaded.removeprefix("loaded") == trained.removeprefix("trained")
    assert bool(asked) == (where == "in one process")


def test_the_command_line_imports_parts_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    np.savez(tmp_path / "clicks.npz", ids=np.arange(60)[:, None] % 6, x=np.ones((60, 1)), y=np.arange(60) % 2)
    reader = str(FOLDER / "own_reader.py")
    words = ["--data", "clicks.npz", "--engine", "inline"]
    made = run("--parts", "mine.py", "--parts", reader, "train", "mine.py:model", *words, "--out", "model")
    assert made.exit_code == 0, made.output
    monkeypatch.delitem(ACCESSORS._kinds, "Forgetting")
    lost = run("--parts", reader, "evaluate", "model", *words)
    assert lost.exit_code == 1
    assert "no accessor is called 'Forgetting'" in lost.output
    assert "heterps --parts FILE" in lost.output
    found = run("--parts", reader, "--parts", "mine.py", "evaluate", "model", *words)
    assert found.exit_code == 0, found.output


MINE = """
from __future__ import annotations
from dataclasses import dataclass
import heterps as hps
from heterps import ops
from heterps.tables import ACCESSORS, Accessor

@ACCESSORS.add
@dataclass(frozen=True, kw_only=True)
class Forgetting(Accessor):
    days: float = 2.0

def model():
    rows = ops.lookup(ops.input("ids", shape=(1,), dtype="uint64"), table="t", dim=1, accessor=Forgetting())
    return hps.Graph(ops.logloss(ops.sum(rows), ops.input("y")))
"""


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("gone.py", "--parts gone.py: there is no such file"),
        ("no_such_module", "cannot be imported (ModuleNotFoundError"),
        ("wrong.py", "wrong.py:2: the file cannot be run: ZeroDivisionError"),
    ],
)
def test_parts_that_cannot_be_imported_are_named(
    named: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text("\n1 / 0\n")
    done = run("--parts", named, "schema", "adult:train")
    assert (done.exit_code, told in done.output) == (1, True), done.output


def run(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


def test_an_unknown_name_says_what_to_do() -> None:
    for unknown in (lambda: kind("tests.nobodys"), lambda: RULES["Nobodys"], lambda: hps.csv and open_nobodys()):
        with pytest.raises(UnknownKindError, match="has to be imported first"):
            unknown()


def open_nobodys() -> Any:
    from heterps.data import open_dataset

    return open_dataset("x.bin", "nobodys")
