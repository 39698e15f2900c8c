"""``heterps train``, ``evaluate`` and ``predict`` as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from heterps.cli import main

MODEL = """
import heterps as hps
from heterps import ops


def small(slots: int = 2, dim: int = 4) -> hps.Graph:
    ids, x, y = ops.input("ids", shape=(slots,), dtype="uint64"), ops.input("x", shape=(1,)), ops.input("y")
    h = ops.relu(ops.dense(ops.concat(ops.lookup(ids, table="t", dim=dim), x), 8), name="vector")
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="logit"), y))
"""


def write_csv(path: Path, seed: int, rows: int = 800, label: bool = True) -> None:
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(9).normal(size=(2, 20))
    a, b, x = rng.integers(0, 20, rows), rng.integers(0, 20, rows), rng.normal(size=rows)
    y = (weights[0, a] + weights[1, b] > 0).astype(int)
    lines = ["click,colour,shape,size"] + [f"{c},c{i},s{j},{v:.3f}" for c, i, j, v in zip(y, a, b, x, strict=True)]
    if not label:
        lines = [line.partition(",")[2] for line in lines]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cli")
    (made / "small.py").write_text(MODEL)
    write_csv(made / "train.csv", seed=1)
    write_csv(made / "valid.csv", seed=2)
    write_csv(made / "unlabelled.csv", seed=2, label=False)
    return made


def heterps(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def good(*words: object) -> str:
    result = heterps(*words, "--engine", "inline")
    assert result.exit_code == 0, result.output
    return result.output


def bad(*words: object) -> str:
    result = heterps(*words)
    assert result.exit_code != 0
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    out = good(
        "train", folder / "small.py", "--data", folder / "train.csv", "--valid", folder / "valid.csv",
        "--epochs", 4, "--batch-size", 32, "--sparse", "ElementAdaGrad:lr=0.1", "--dense", "Adam:lr=0.01",
        "--metric", "auc,logloss", "--mode", "sync", "--profile", "--profile-svg", folder / "profile.svg",
        "--out", folder / "model",
    )  # fmt: skip
    assert "epoch 4/4 | 3,200 samples" in out
    assert "valid auc 0.9" in out
    assert "scatter" in out
    assert "small, 3,200 samples" in (folder / "profile.svg").read_text()
    assert f"saved to {folder / 'model'}" in out.replace("\n", "")
    return folder / "model"


def test_evaluate(folder: Path, model: Path) -> None:
    found = json.loads(good("evaluate", model, "--data", folder / "valid.csv", "--metric", "auc,accuracy", "--json"))
    assert found["auc"] > 0.95
    assert set(found) == {"auc", "accuracy"}
    assert "logloss" in good("evaluate", model, "--data", folder / "valid.csv")


def test_predict_keeps_the_order_and_needs_no_label(folder: Path, model: Path) -> None:
    for name in ("valid", "unlabelled"):
        out = good(
            "predict", model, "--data", folder / f"{name}.csv", "--out", folder / f"{name}.parquet",
            "--fetch", "prediction,vector", "--fetch", "x",
        )  # fmt: skip
        assert "800 rows" in out
    valid, unlabelled = (pq.read_table(folder / f"{name}.parquet") for name in ("valid", "unlabelled"))
    assert valid.equals(unlabelled)
    sizes = [float(line.split(",")[3]) for line in (folder / "valid.csv").read_text().splitlines()[1:]]
    np.testing.assert_allclose(np.array(valid["x"].to_pylist())[:, 0], sizes, rtol=1e-6)


def test_several_files_are_one_dataset(folder: Path, model: Path) -> None:
    one = good("evaluate", model, "--data", folder / "valid.csv", "--json")
    both = good("evaluate", model, "--data", folder / "valid.csv", "--data", folder / "train.csv", "--json")
    assert json.loads(one) != json.loads(both)


def test_a_saved_plan_is_trained_as_it_is(folder: Path) -> None:
    import heterps as hps
    from heterps.cli._models import load_graph

    hps.Plan.fused(load_graph(str(folder / "small.py")), batch_size=50).save(folder / "plan.json")
    assert "plan.json is a plan, expected a model: `heterps train` runs it" in bad("plan", folder / "plan.json")
    assert "800 samples" in good("train", folder / "plan.json", "--data", folder / "train.csv")
    assert "is a plan" in bad("train", folder / "plan.json", "--data", folder / "train.csv", "--batch-size", 10)


def test_a_cache_is_given_by_rows_or_bytes_and_told_in_progress_and_profile(folder: Path) -> None:
    words = ["train", folder / "small.py", "--data", folder / "train.csv", "--batch-size", 50, "--profile"]
    told = " ".join(good(*words, "--cache-rows", "t=4kB", "--staleness", 3).split())
    assert "t hits" in told
    assert "cache of t: hits" in told
    assert "(at most 3) batches" in told


def test_a_checkpoint_can_be_gone_on_from_and_evaluated(folder: Path) -> None:
    words = ["train", folder / "small.py", "--data", folder / "train.csv", "--checkpoint", folder / "run"]
    good(*words, "--every-batches", 3)
    assert "epoch 2/2" in good(*words, "--resume", folder / "run", "--epochs", 2)
    assert "auc" in good("evaluate", folder / "run", "--data", folder / "valid.csv", "--json")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--format xml", "'xml'; there are auto, adult, criteo"),
        ("--set slots=3", "2 elements a row instead of 3 The model"),
        ("--set slot=3", "small(slots: int = 2"),
        ("--sparse Ada", "no rule is called 'Ada'; known: AdaGrad"),
        ("--dense Adam:rate=1", "Adam has no 'rate'; it has bounds, lr"),
        ("--dense Adam:lr", "'lr' has no value"),
        ("--dense Adam:lr=fast", "'fast' is not a number"),
        ("--metric acu", "no metric is called 'acu'; there are acc1"),
        ("--engine gpu", "there are auto, dask, inline"),
        ("--data adult:train", "not mixed with files"),
        ("--cache-rows t=", "takes ROWS, BYTES or TABLE=ROWS, got 't='"),
        ("--cache-rows 5,6", "names 'all tables' twice"),
        ("--cache-rows u=5", "'u' matches no table; there are t"),
        ("--staleness 5", "no table has a cache"),
    ],
)
def test_wrong_options_say_what_is_there_instead(folder: Path, options: str, says: str) -> None:
    assert says in bad("train", folder / "small.py", "--data", folder / "train.csv", *options.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train {}/smal.py --data {}/train.csv", "smal.py; {}/ has small.py"),
        ("train {}/small.py:tiny --data {}/train.csv", "no function 'tiny'; it has small"),
        ("train {}/small.py --data {}/train.tsv", "{} holds"),
        ("train {}/small.py --data {}/unlabelled.csv", "column 'y' (float32 [batch]), which the data does not have"),
        ("evaluate {}/nowhere --data {}/valid.csv", "it does not exist; {} has"),
        ("evaluate {} --data {}/valid.csv", "has no model.json"),
        ("predict {}/nowhere --data {}/valid.csv --out {}/x.parquet", "is not a saved model"),
    ],
)
def test_wrong_paths_say_what_is_there_instead(folder: Path, words: str, says: str) -> None:
    assert says.replace("{}", str(folder)) in bad(*words.replace("{}", str(folder)).split())


def test_unknown_tensors_and_folders(folder: Path, model: Path) -> None:
    data = ["--data", folder / "valid.csv", "--engine", "inline"]
    assert "nothing to fetch is called 'vectr'" in bad(
        "predict", model, *data, "--out", folder / "x.parquet", "--fetch", "vectr"
    )
    assert "there is no folder" in bad("predict", model, *data, "--out", folder / "no" / "x.parquet")


@pytest.mark.parametrize("command", ["train", "evaluate", "predict"])
def test_help_has_an_example(command: str) -> None:
    out = heterps(command, "--help").output
    assert "Examples:" in out
    assert f"heterps {command} " in out


def test_bad_rows_are_told_everywhere(folder: Path, model: Path, tmp_path: Path) -> None:
    lines = (folder / "valid.csv").read_text().splitlines()
    (tmp_path / "some.csv").write_text("\n".join([*lines, "1,c1,s1", "2,c1,s1,0.5", ""]))
    (tmp_path / "none.csv").write_text("\n".join([lines[0], ",c1,s1,0.5", ",c2,s2,1.5", ""]))
    train = ("train", folder / "small.py", "--engine", "inline", "--data")
    assert "800 samples" in (out := good(*train[:2], "--data", tmp_path / "some.csv"))
    assert "2 bad rows" in out
    assert out.count("bad rows are left out, such as ") == 1
    assert "some.csv, line 802: wrong number of columns (3 instead of 4): '1,c1,s1'" in out
    assert json.loads(good("evaluate", model, "--data", tmp_path / "some.csv", "--json"))["bad_rows"] == 2
    said = heterps("predict", model, "--data", tmp_path / "some.csv", "--out", tmp_path / "some.csv")
    assert said.exit_code == 1
    assert "some.csv: it is one of the files that are read" in said.output
    out = good("predict", model, "--data", tmp_path / "some.csv", "--out", tmp_path / "out.parquet")
    assert "802 rows to" in out
    assert "1 of them null" in out
    for words in (
        (*train, tmp_path / "none.csv"),
        ("evaluate", model, "--engine", "inline", "--data", tmp_path / "none.csv"),
    ):
        assert "every row is bad" in bad(*words)
        assert heterps(*words, "--allow-empty").exit_code == 0


def test_resuming_with_other_data_needs_force(folder: Path, tmp_path: Path) -> None:
    words = ("train", folder / "small.py", "--checkpoint", tmp_path / "run", "--data")
    good(*words, folder / "train.csv")
    resume = (*words, folder / "valid.csv", "--resume", tmp_path / "run", "--epochs", 2, "--engine", "inline")
    said = bad(*resume)
    assert "data, files: had train.csv: " in said
    assert "--force" in said
    assert heterps(*resume, "--force").exit_code == 0
