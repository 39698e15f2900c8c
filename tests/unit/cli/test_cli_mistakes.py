"""What a user may get wrong on the command line: one message that names it, no traceback, nothing begun."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from heterps import Graph, Plan, launch, ops
from heterps.cli import main
from heterps.errors import ClusterError, GraphError, OutputError, PlanError
from heterps.planner import MaxThroughput
from heterps.runtime.cluster.launcher import Launch
from heterps.runtime.cluster.many_hosts import many_hosts
from heterps.screen import Screen
from heterps.stages import layers_of

MODEL = """
from heterps import Graph, ops


def model(name="h", fail=None):
    if fail == "exit":
        raise SystemExit(3)
    if fail == "divide":
        1 / 0
    x, y = ops.input("x", (4,)), ops.input("y")
    width = 0 if fail == "width" else 1
    return Graph(ops.logloss(ops.dense(ops.relu(x, name=name), width), y))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    return file


def heterps(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def refused(*words: object) -> str:
    result = heterps(*words)
    assert result.exit_code in (1, 2), result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("name", ["a[b]", "[bold]x", "[/]", "x\x1b[2Jy", ":smile:", "[i]y[/i]"])
def test_names_are_printed_as_they_are(name: str, model: Path) -> None:
    result = heterps("graph", model, "--set", f"name={json.dumps(name)}", "--set", "fail=null")
    assert result.exit_code == 0, result.output
    assert name.replace("\x1b", "\\x1b") in result.output


def test_long_tables_hold_every_op(tmp_path: Path) -> None:
    x = ops.input("x", (2,))
    for i in range(400):
        x = ops.relu(x, name=f"step[{i}]")
    Graph(ops.logloss(ops.dense(x, 1), ops.input("y"))).save(tmp_path / "long.json")
    out = heterps("graph", tmp_path / "long.json").output
    assert all(f"step[{i}] " in out for i in range(400))


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        ("exit", "model.py:7: model() cannot be run: SystemExit: 3"),
        ("divide", "model.py:9: model() cannot be run: ZeroDivisionError: division by zero"),
        ("width", "model.py:12 in model(): dense: width is 0, expected a whole number of at least 1"),
    ],
)
def test_a_model_that_fails_is_named_with_its_line(model: Path, fail: str, message: str) -> None:
    assert message in refused("graph", model, "--set", f"fail={fail}")


def test_what_nobody_foresaw_is_one_line_and_a_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> None:
        raise RuntimeError("lost\nmy way")

    monkeypatch.setattr("heterps.cli.graph.layers_of", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    message = refused("graph", model)
    (file,) = tmp_path.glob("heterps-error-*.txt")
    assert f"Error: RuntimeError: lost my way. This is a mistake of heterps, please report it with {file}" == message
    assert "in broken" in file.read_text()


def test_paths_that_cannot_be_opened_are_named(model: Path, tmp_path: Path) -> None:
    assert "no file nowhere.py" in refused("graph", "nowhere.py")
    assert "is not a Python file" in refused("graph", tmp_path)
    (tmp_path / "binary.py").write_bytes(b"\xff\x00\xfe")
    assert "binary.py" in refused("graph", tmp_path / "binary.py")
    assert "cannot be read" in refused("plan", model, "--hardware", tmp_path / "none.toml")
    assert "cannot be read" in refused("plan", model, "--profile", tmp_path / "none.json")
    no_file = refused("plan", tmp_path / "none.json", "--objective", "max-load")
    assert "none.json: cannot be read (No such file or directory)" in no_file
    assert "cannot be read" in refused("plan", "diff", tmp_path / "a.json", tmp_path / "b.json")


@pytest.mark.parametrize(
    "words",
    [
        ("graph", "MODEL", "--svg", "TARGET"),
        ("plan", "MODEL", "--out", "TARGET"),
        ("plan", "MODEL", "--html", "TARGET"),
        ("profile", "MODEL", "--out", "TARGET"),
        ("train", "MODEL", "--data", "nowhere.csv", "--out", "TARGET"),
        ("train", "MODEL", "--data", "nowhere.csv", "--checkpoint", "TARGET"),
        ("train", "MODEL", "--data", "nowhere.csv", "--profile-svg", "TARGET"),
        ("predict", "nowhere", "--data", "nowhere.csv", "--out", "TARGET"),
        ("discover", "tcp://127.0.0.1:1", "--out", "TARGET"),
        ("launch", "--logs", "TARGET"),
    ],
    ids=lambda words: f"{words[0]} {words[-2]}",
)
def test_targets_are_tried_before_the_work(words: tuple[str, ...], model: Path, monkeypatch: Any) -> None:
    """Everything else is wrong too, so that only what comes first can be named."""
    monkeypatch.setattr("heterps.cli._models._function", lambda *args: pytest.fail("the model was built first"))
    target = model / "below-a-file" / "x"
    message = refused(*({"MODEL": model, "TARGET": target}.get(word, word) for word in words))
    assert "cannot write" in message, message


@pytest.mark.parametrize(
    ("words", "name", "known"),
    [
        (("predict", "nowhere", "--data", "nowhere.csv"), "p.xlsx", ".parquet or .csv"),
        (("neighbours", "search", "nowhere", "nowhere.parquet"), "near.csv", ".parquet"),
    ],
)
def test_names_that_say_otherwise_than_the_file_are_refused(words: tuple[str, ...], name: str, known: str) -> None:
    ending = Path(name).suffix
    assert f"cannot write {name}: files end in {known}, not in {ending}" in refused(*words, "--out", name)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("launch", "--servers", "-1", "--io", "0"), "--servers"),
        (("launch", "--io", "-2"), "--io"),
        (("launch", "--gpus", "-2"), "--gpus"),
        (("launch", "--threads", "0"), "--threads"),
        (("graph", "x.py", "--batch-size", "0"), "--batch-size"),
        (("graph", "x.py", "--unique-fraction", "1.5"), "--unique-fraction"),
        (("train", "x.py", "--data", "x", "--batch-size", "0"), "--batch-size"),
        (("train", "x.py", "--data", "x", "--seed", str(2**64)), "--seed"),
        (("train", "x.py", "--data", "x", "--seed", "-1"), "--seed"),
        (("simulate", "--seeds", "0"), "--seeds"),
    ],
)
def test_numbers_out_of_range_are_named(words: tuple[str, ...], name: str) -> None:
    assert f"Invalid value for '{name}'" in refused(*words)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("fc", "--parameters takes PATTERN=WAY, got 'fc'"),
        ("fc=table,fc=geo:3", "--parameters names 'fc' twice, as table and as geo:3"),
        ("nothing*=table", "'nothing*' matches nothing"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "train"])
def test_ways_that_cannot_be_read_are_named(command: str, given: str, message: str, model: Path) -> None:
    table = model.with_suffix(".csv")
    table.write_text("y,x\n1,2\n")
    data = ("--data", table) if command == "train" else ()
    assert message in refused(command, model, *data, "--parameters", given)


@pytest.mark.parametrize("rate", ["-0.1", "NaN", "Infinity", "-Infinity", '"x"', "1" * 5000])
def test_learning_rates_out_of_range_are_named(rate: str, model: Path) -> None:
    message = refused("train", model, "--data", "adult:train", "--sparse", f"Adam:lr={rate}")
    assert "lr is" in message or "is not a number" in message


def test_values_refuse_what_the_command_line_refuses() -> None:
    graph = Graph(ops.logloss(ops.dense(ops.input("x", (2,)), 1), ops.input("y")))
    for seed in (-1, 2**64, 1.5, "7"):
        with pytest.raises(GraphError, match="model: seed is"):
            launch(Plan.fused(graph, batch_size=8), engine="inline", seed=seed)  # type: ignore[arg-type]
    for batch_size in (0, -1, 1.5):
        with pytest.raises((PlanError, GraphError), match="batch_size is"):
            Plan.fused(graph, batch_size=batch_size)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="batch_size is 0"):
        layers_of(graph, batch_size=0)
    with pytest.raises(ClusterError, match=r"launch: pools\.server is -1, expected a whole number of at least 0"):
        Launch({"server": -1, "io": 0})
    with pytest.raises(ClusterError, match=r"launch: pools\.server is -1"):
        many_hosts("127.0.0.1", {"server": -1})
    for price in (-1.0, 0.0, float("nan")):
        with pytest.raises(PlanError, match="price_per_hour is"):
            MaxThroughput(price)
    with pytest.raises(OutputError, match="cannot write"):
        launch(Plan.fused(graph, batch_size=8), engine="inline", checkpoint=os.devnull)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "tcp://127.0.0.1:99999", "bogus://x:1", "tcp://"])
def test_discover_of_a_wrong_address_ends_soon(address: str) -> None:
    begin = time.monotonic()
    message = refused("discover", address)
    assert address in message
    assert "please report" not in message
    assert time.monotonic() - begin < 5 + 10 * os.getloadavg()[0] / (os.cpu_count() or 1)


def test_a_screen_takes_nothing_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(width=80).print("[red]x[/red] :+1:", "\x07")
    assert capsys.readouterr().out == "[red]x[/red] :+1: \\x07\n"
