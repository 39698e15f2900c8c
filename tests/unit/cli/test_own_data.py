"""The commands on a user's own data: columns, built-in models, settings, signals, what was saved."""

import importlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from heterps.cli import main
from heterps.cli._models import load_graph, parse_settings
from heterps.errors import GraphError

TRAIN: Any = importlib.import_module("heterps.cli.train")


def heterps(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def good(*words: object) -> str:
    result = heterps(*words)
    assert result.exit_code == 0, result.output
    return result.output


def bad(*words: object) -> str:
    result = heterps(*words)
    assert result.exit_code != 0
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def clicks(rows: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    user, city = rng.integers(5000, 5200, rows), rng.integers(0, 4, rows)
    age = rng.integers(18, 80, rows)
    bought = np.where((user % 2 + city + (age > 40)) % 2 == 1, "yes", "no")
    names = np.array(["Oslo", "Rome", "Bern", "Kyiv"])[city]
    return pd.DataFrame(
        {"user": user, "city": names, "age": age, "w": rng.random(rows).round(3) + 0.5, "bought": bought}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("own")
    clicks().to_csv(made / "clicks.csv")
    clicks()[["bought", "city", "user"]].to_csv(made / "ids.csv", index=False)
    return made


SMALL = ("--set", "hidden=8,4", "--set", "dim=4", "--batch-size", 64, "--engine", "inline")


@pytest.fixture(scope="module")
def trained(folder: Path) -> tuple[Path, str]:
    words = ("train", "wide_deep", "--data", folder / "clicks.csv", "--label", "bought", "--weight", "w")
    out = good(*words, "--epochs", 3, "--out", folder / "model", *SMALL)
    return folder / "model", out


def test_a_model_by_name_takes_its_shape_from_the_data(trained: tuple[Path, str]) -> None:
    model, out = trained
    assert "'': ignored (it has no name: the index of a frame)" in out
    assert "'user': a category (integers of" in out
    assert "'age': a number (standardised)" in out
    assert "'bought': the label (1 where it is 'yes')" in out
    graph = json.loads((model / "model.json").read_text())["graph"]
    shapes = {op["name"]: op["attrs"].get("shape") for op in graph["ops"] if op["kind"] == "input"}
    assert {name: tuple(shape) for name, shape in shapes.items()} == {"ids": (2,), "x": (1,), "y": (), "weight": ()}


def test_there_is_a_line_for_each_epoch(trained: tuple[Path, str]) -> None:
    lines = [line for line in trained[1].splitlines() if line.startswith("epoch ")]
    assert [line[:9] for line in lines] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert [line.split(" | ")[1] for line in lines] == ["600 samples", "1,200 samples", "1,800 samples"]
    assert all("auc" in line for line in lines)


def test_columns_of_the_data_come_beside_predictions(folder: Path, trained: tuple[Path, str]) -> None:
    frame = clicks().drop(columns=["bought", "w"])[["age", "user", "city"]]
    frame.to_parquet(folder / "new.parquet")
    words = ("predict", trained[0], "--data", folder / "new.parquet", "--engine", "inline")
    good(*words, "--fetch", "user,prediction", "--out", folder / "p.parquet")
    found = pq.read_table(folder / "p.parquet")
    assert found["user"].to_pylist() == frame["user"].to_list()
    assert found["prediction"].null_count == 0


def test_predictions_as_csv(folder: Path, trained: tuple[Path, str]) -> None:
    words = ("predict", trained[0], "--data", folder / "clicks.csv", "--engine", "inline", "--out", folder / "p.csv")
    assert "600 rows to" in good(*words, "--fetch", "prediction,city")
    found = pd.read_csv(folder / "p.csv")
    assert found["city"].to_list() == clicks()["city"].to_list()
    assert found["prediction"].between(0, 1).all()
    assert "'relu0' has several values a row" in bad(*words, "--fetch", "relu0")


def test_columns_are_named_where_no_header_does(folder: Path) -> None:
    clicks()[["bought", "city", "user"]].to_csv(folder / "bare.csv", index=False, header=False)
    named = ("schema", folder / "bare.csv", "--columns", "y,city,user")
    assert "batches have ids (sparse 2), y (label)" in good(*named)
    assert "--columns is for csv, tsv and jsonl" in bad("schema", "adult:train", "--columns", "a,b")


def test_inspect_reads_what_train_wrote(trained: tuple[Path, str]) -> None:
    model = trained[0]
    out = good("inspect", model, "--verify")
    assert "files of" in out
    assert "column ids (sparse 2) of user, city" in out
    assert "logloss for a loss" in out
    assert "deep" in out
    assert "unchanged" in good("inspect", model, model)


@pytest.mark.parametrize("name", ["wide_deep", "deepfm", "dcn_v2", "dlrm", "ctrdnn"])
def test_models_without_numbers_are_built(name: str) -> None:
    graph = load_graph(name, {"dense": 0, "slots": 3, "weighted": True})
    assert {op.name for op in graph.inputs} == {"ids", "y", "weight"}


def test_data_without_numbers_is_trained_on(folder: Path) -> None:
    out = good("train", "deepfm", "--data", folder / "ids.csv", "--label", "bought", *SMALL)
    assert "600 samples" in out


def test_ratings_are_refused_by_a_loss_for_clicks_and_trained_on_with_another(folder: Path) -> None:
    rated = clicks().assign(rating=np.arange(600) % 5 + 1).drop(columns="bought")
    rated.to_csv(folder / "ratings.csv", index=False)
    words = ("train", "wide_deep", "--data", folder / "ratings.csv", "--label", "rating", *SMALL)
    said = bad(*words)
    assert "the label 'rating' lies from 1 to 5, and the model's loss (logloss) takes 0 to 1: 480 of 600 labels" in said
    assert "--set loss=mse" in said
    assert "rmse" in good(*words, "--set", "loss=mse", "--metric", "rmse")


def test_numbers_alone_are_for_the_model_dnn(folder: Path) -> None:
    rng = np.random.default_rng(1)
    pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc")).assign(y=np.arange(200) % 2).to_csv(
        folder / "numbers.csv", index=False
    )
    said = bad("train", "deepfm", "--data", folder / "numbers.csv", *SMALL)
    assert "heterps.models.dnn needs no categories" in said
    assert "name some with --categorical, or train the model dnn" in said
    good("train", "dnn", "--data", folder / "numbers.csv", "--engine", "inline")


def test_a_schema_without_a_label_says_what_is_lacking(folder: Path) -> None:
    assert "say which one is to be predicted, --label NAME" in good("schema", folder / "clicks.csv")
    assert "--label NAME" not in good("schema", folder / "clicks.csv", "--label", "bought")


def test_a_schema_file_decides(folder: Path) -> None:
    schema = folder / "s.toml"
    out = good("schema", folder / "clicks.csv", "--label", "bought", "--ignore", "w,city", "--out", schema)
    assert "integers of" in out
    assert "batches have ids (sparse 1), x (dense 1), y (label)" in out
    words = ("train", "wide_deep", "--data", folder / "clicks.csv", "--schema", schema)
    out = good(*words, "--out", folder / "by-file", *SMALL)
    assert "ignored" not in out  # nothing was inferred
    assert "sparse 1" in good("inspect", folder / "by-file")
    assert "--schema decides all columns: leave out --label" in bad(*words, "--label", "bought")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train wide_deep --data {}/clicks.csv", "no column that is called as labels are: name it with --label"),
        ("train wide_deep --data {}/clicks.csv --label bougt", "no column 'bougt' to be the label"),
        (
            "train wide_deep --data {}/ids.csv --label bought --ignore user,city",
            "No column was taken for a category: name some with --categorical",
        ),
        ("train wide_dep --data {}/clicks.csv", "no file wide_dep; "),
        ("train wide_dep --data {}/clicks.csv", "models known by name are ctrdnn, dcn_v2"),
        (
            "train wide_deep --data adult:train --label age",
            "--label cannot be used with format 'adult': use it with csv",
        ),
        ("train wide_deep --data adult:train --schema {}/none.toml", "none.toml: cannot be read"),
        ("schema {}/nothing.csv", "no such file"),
    ],
    ids=range(8),
)
def test_mistakes_say_what_to_do(folder: Path, words: str, says: str) -> None:
    assert says in bad(*words.replace("{}", str(folder)).split())


def test_settings_are_what_people_write() -> None:
    written = ("a=64,32", "b=(64, 32)", "c=[64,32]", "d=(64,)", "e=0.5", "f=dice", "g=a,b", "h=true", "i=")
    assert parse_settings(written) == {
        "a": (64, 32), "b": (64, 32), "c": (64, 32), "d": (64,), "e": 0.5, "f": "dice", "g": "a,b", "h": True, "i": "",
    }  # fmt: skip
    assert load_graph("wide_deep", {"hidden": 7}) == load_graph("wide_deep", {"hidden": (7,)})
    with pytest.raises(GraphError, match="no file nowhere"):
        load_graph("nowhere.py")


@pytest.fixture
def heeding() -> Iterator[None]:
    """Commands go on ignoring what whoever started them ignored, as a shell does for those in its background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeding")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_a_signal_saves_what_was_trained(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real: Any = TRAIN.metered

    def metered(reports: Iterator[Any], console: Any) -> Iterator[Any]:
        for progress in real(reports, console):
            if progress.epoch_done and progress.epoch == 2:
                os.kill(os.getpid(), number)
            yield progress

    monkeypatch.setattr(TRAIN, "metered", metered)
    words = ("train", "wide_deep", "--data", folder / "ids.csv", "--label", "bought", "--epochs", 50)
    result = heterps(*words, "--out", tmp_path / "model", *SMALL)
    assert result.exit_code == 128 + number
    assert "what was trained: 1,200 samples, in epoch 2 of 50" in result.output
    assert signal.Signals(number).name in result.output
    assert "after 20 steps" in good("inspect", tmp_path / "model")  # of ten batches a pass
    assert "auc" in good("evaluate", tmp_path / "model", "--data", folder / "ids.csv", "--engine", "inline", "--json")
