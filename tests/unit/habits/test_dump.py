"""Tensors and parameters in files while training goes on."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import heterps as hps
from heterps.cli import main
from heterps.errors import RunError
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data
from tests.unit.streaming.small_stream import write_pass


@pytest.mark.parametrize("engine", ["inline", pytest.param("dask", marks=pytest.mark.full)])
def test_fields_and_parameters_are_those_of_training(tmp_path: Path, engine: str) -> None:
    dump = hps.Dump(tmp_path / "dump", ["fc*", "out.weight"], every="pass")
    fetch = ["prediction", "hidden"]
    with hps.launch(plan(shard_hosts=2), engine=engine, mode="sync", report_s=0) as session:
        reports = list(session.train(data(400), 2, fetch=fetch, callbacks=dump))
        shown = [each for each in reports if each.epoch_done]
        session.save(tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    numbers = [f"{each.batches:09d}" for each in shown]
    assert names == sorted(f"{what}-{n}.parquet" for what in ("fields", "parameters") for n in numbers)
    last = pq.read_table(tmp_path / "dump" / f"fields-{numbers[-1]}.parquet")
    assert np.array_equal(last["prediction"].to_numpy(), shown[-1].fetched["prediction"])
    assert np.array_equal(np.array(last["hidden"].to_pylist(), np.float32), shown[-1].fetched["hidden"])
    table = pq.read_table(tmp_path / "dump" / f"parameters-{numbers[-1]}.parquet")
    found = {row["name"]: row for row in table.to_pylist()}
    saved: dict[str, list[float]] = {}
    for path in (tmp_path / "model/checkpoint/00000001").glob("dense-*.parquet"):
        saved |= {row["name"]: row["values"] for row in pq.read_table(path).to_pylist()}
    assert sorted(found) == ["fc.bias", "fc.weight", "out.weight"]
    assert {name: row["values"] for name, row in found.items()} == {name: saved[name] for name in found}
    assert found["fc.weight"]["shape"] == [14, 8]


def test_mistakes_are_named_before_training(tmp_path: Path) -> None:
    with (
        hps.launch(plan(), engine="inline") as session,
        pytest.raises(RunError, match=r"called 'fd\*'; there are fc"),
    ):
        session.fit(data(100), callbacks=hps.Dump(tmp_path / "dump", "fd*"))
    with pytest.raises(RunError, match="'report' or 'pass'"):
        hps.Dump(tmp_path, every="batch")


def test_the_command_dumps(tmp_path: Path) -> None:
    write_pass(tmp_path / "clicks.csv", 1, 60)
    words = ["train", "wide_deep", "--data", str(tmp_path / "clicks.csv"), "--label", "click", "--set", "hidden=4"]
    words += ["--engine", "inline"]
    dump = ["--dump", str(tmp_path / "dump"), "--fetch", "prediction", "--dump-parameters", "out.*"]
    done = CliRunner().invoke(main, [*words, *dump])
    assert done.exit_code == 0, done.output
    assert {path.name.split("-")[0] for path in (tmp_path / "dump").iterdir()} == {"fields", "parameters"}
    for wrong, message in ((["--fetch", "prediction"], "name a folder"), (["--dump", "x"], "say what")):
        refused = CliRunner().invoke(main, [*words, *wrong])
        assert refused.exit_code == 1
        assert message in refused.output
