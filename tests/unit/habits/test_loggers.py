"""What is logged is what was reported, read back with other people's readers."""

import csv
import importlib.util
from pathlib import Path
from typing import Any

import pytest

import heterps as hps
from heterps.errors import RunError
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data


def trained(*callbacks: hps.Callback) -> list[hps.Progress]:
    with hps.launch(plan(), engine="inline", report_s=0) as session:
        return list(session.train(data(400), 2, data(200, seed=8), callbacks=callbacks))


def test_csv_has_a_line_for_each_report_with_columns_that_come_late(tmp_path: Path) -> None:
    reports = trained(hps.CSVLog(tmp_path / "log.csv"), hps.CSVLog(tmp_path / "passes.csv", every="pass"))
    with (tmp_path / "log.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["samples"]) for row in rows] == [progress.samples for progress in reports]
    assert rows[0]["valid_auc"] == ""
    assert float(rows[-1]["valid_auc"]) == reports[-1].valid["auc"]
    with (tmp_path / "passes.csv").open(newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2"]
    with pytest.raises(RunError, match="write 'report' or 'pass'"):
        hps.CSVLog(tmp_path / "log.csv", every="batch")


@pytest.mark.parametrize(("log", "extra"), [(hps.TensorBoardLog("x"), "tensorboard"), (hps.MLflowLog(), "mlflow")])
def test_a_package_that_is_missing_is_named_before_training(
    log: hps.Callback, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("heterps.habits.loggers.import_module", missing)
    with pytest.raises(RunError, match=rf"not installed: pip install 'heterps\[{extra}\]'"):
        trained(log)


needs = {name: pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")
         for name in ("tensorboard", "mlflow")}  # fmt: skip


@pytest.mark.full
@needs["tensorboard"]
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_it(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reports = trained(hps.TensorBoardLog(tmp_path))
    found = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0})  # all of them
    found.Reload()
    losses = [(each.step, each.tensor_proto.float_val[0]) for each in found.Tensors("train/loss")]
    assert [step for step, _ in losses] == [progress.samples for progress in reports]
    assert losses[-1][1] == pytest.approx(reports[-1].loss)
    assert len(found.Tensors("valid/auc")) == 2


@pytest.mark.full
@needs["mlflow"]
@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the small package has no other
    import mlflow

    log = hps.MLflowLog("clicks", run="first", uri=(tmp_path / "runs").as_uri(), tags={"by": "test"})
    reports = trained(log)
    client = mlflow.MlflowClient(log.uri)
    run = client.get_run(log.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["by"] == "test"
    assert run.data.params["batch_size"] == "64"
    assert run.data.metrics["valid_auc"] == reports[-1].valid["auc"]
    history = client.get_metric_history(log.run_id, "samples")
    assert [each.step for each in history] == [progress.samples for progress in reports]
