"""What every engine must do; each engine's tests derive from this."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heterps as hps
from heterps.errors import CheckpointError, DataError, GraphError, RunError
from heterps.parquet import read_parquet
from heterps.runtime.batch.phases import WAITING
from heterps.soak.counted_model import counted_data, counted_plan, shows
from heterps.tables import Manifest
from heterps.testing.small_model import columns, data, graph

__all__ = ["EngineContract", "plan", "same", "tables", "trained"]

Tables = dict[str, npt.NDArray[Any]]


def plan(**rest: Any) -> hps.Plan:
    """Return the small model as one stage; ``dim`` and ``dropout`` are the model's, the rest the plan's."""
    return hps.Plan.fused(graph(rest.pop("dim", 4), rest.pop("dropout", 0.0)), batch_size=64, **rest)


def tables(session: hps.Session) -> Tables:
    """Every row and parameter, as the session itself gives them: lookups of all ids, and what the MLP makes of them."""
    everything = hps.arrays({name: c for name, c in columns(600, seed=3).items() if name != "y"})
    found: Tables = _predicted(session, everything, fetch=["vectors", "weights", "hidden", "prediction"])
    return found


def trained(session: hps.Session, epochs: int = 1, **rest: Any) -> Tables:
    """Train on the small model's data and return its tables."""
    for _ in session.train(data(**rest), epochs):
        pass
    return tables(session)


def same(a: Tables, b: Tables) -> bool:
    """Whether two sets of tables are equal to the bit."""
    return all(np.array_equal(a[name].view(np.uint32), b[name].view(np.uint32)) for name in a)


class EngineContract(ABC):
    """Derive, and say how to launch."""

    @abstractmethod
    def launch(self, plan: hps.Plan, **options: Any) -> hps.Session:
        """Open a session of the plan with this engine; ``options`` are those of :func:`heterps.launch`."""

    # --- training

    @pytest.mark.parametrize("mode", ["sync", "async"])
    def test_learns_what_only_tables_can_know(self, mode: str) -> None:
        with self.launch(plan(), mode=mode, sparse=hps.ElementAdaGrad(lr=0.1)) as session:
            before = session.evaluate(data(seed=8))
            last = list(session.train(data(), epochs=3))[-1]
            after = session.evaluate(data(seed=8))
        assert abs(before["auc"] - 0.5) < 0.1
        assert after["auc"] > 0.93
        assert after["logloss"] < 0.5
        assert last.done
        assert (last.samples, last.batches, last.epochs) == (4500, 3 * (3 * 7 + 5), 3)
        assert last.metrics["auc"] > 0.9

    def test_same_seed_same_bits(self) -> None:
        results = []
        for seed in (0, 0, 1):
            with self.launch(plan(dropout=0.2), mode="sync", seed=seed) as session:
                results.append(trained(session))
        assert same(results[0], results[1])
        assert not same(results[0], results[2])

    @pytest.mark.parametrize("lanes", [1, 3])
    def test_sync_gives_the_same_bits_on_any_number_of_hosts(self, lanes: int) -> None:
        results = []
        for hosts in (1, 3):
            with self.launch(plan(shard_hosts=hosts, lanes=lanes), mode="sync") as session:
                results.append(trained(session, epochs=2))
        assert same(*results)

    def test_async_on_three_hosts_learns(self) -> None:
        with self.launch(plan(shard_hosts=3), sparse=hps.ElementAdaGrad(lr=0.1)) as session:
            trained(session, epochs=3)
            assert session.evaluate(data(seed=8))["auc"] > 0.93

    def test_every_call_goes_on_from_the_one_before(self) -> None:
        with self.launch(plan(), mode="sync") as session:
            first = trained(session)
            second = trained(session)
        with self.launch(plan(), mode="sync") as session:
            both = trained(session, epochs=2)
        assert not same(first, second)
        assert same(second, both)

    def test_leaving_the_loop_ends_training_and_keeps_what_was_learnt(self) -> None:
        with self.launch(plan(), mode="sync", report_s=0.0) as session:
            fresh = tables(session)
            for progress in session.train(data(), epochs=50):
                if progress.batches:
                    break
            stopped = tables(session)
            again = trained(session)
        assert not same(fresh, stopped)
        assert not same(stopped, again)

    def test_an_error_of_the_caller_passes_through_and_ends_the_session(self) -> None:
        def interrupted() -> None:
            with self.launch(plan(), report_s=0.0) as session:
                opened.append(session)
                for _ in session.train(data(), epochs=50):
                    raise KeyboardInterrupt

        opened: list[hps.Session] = []
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        with pytest.raises(RunError, match="closed"):
            opened[0].train(data())

    def test_validation_after_each_pass(self) -> None:
        with self.launch(plan(), mode="sync") as session:
            reports = list(session.train(data(), epochs=2, valid=data(seed=8)))
            final = session.evaluate(data(seed=8))
        ends = [report for report in reports if report.valid]
        assert [report.epoch for report in ends] == [1, 2]
        assert [report.done for report in ends] == [False, True]
        assert ends[-1].valid == final
        assert ends[-1].samples == 3000

    def test_validation_does_not_change_training(self) -> None:
        results = []
        for valid in (None, data(seed=8)):
            with self.launch(plan(), mode="sync") as session:
                list(session.train(data(), epochs=2, valid=valid))
                results.append(tables(session))
        assert same(*results)

    def test_tensors_can_be_watched(self) -> None:
        with self.launch(plan()) as session:
            last = list(session.train(data(), fetch={"p": "prediction", "h": "hidden", "v": "vector"}))[-1]
        assert last.fetched["h"].shape[1:] == (8,)
        assert np.array_equal(last.fetched["h"], last.fetched["v"])
        assert ((last.fetched["p"] > 0) & (last.fetched["p"] < 1)).all()

    def test_shuffled_data_is_trained_on_once_a_pass(self) -> None:
        with self.launch(plan()) as session:
            last = list(session.train(data().shuffle("global", window=100), epochs=2))[-1]
        assert last.samples == 3000

    # --- seeing it

    @pytest.mark.parametrize("mode", ["sync", "async"])
    def test_every_phase_is_counted_once(self, mode: str) -> None:
        with self.launch(plan(shard_hosts=2), mode=mode) as session:
            reports = list(session.train(data(), epochs=2))
            profile = session.profile()
        assert profile == reports[-1].profile
        assert all(seconds > 0 for phase, seconds in profile.phases.items() if phase != WAITING), profile
        # One lane: what it does, and what hosts do for it, happens one after another.
        assert sum(profile.phases.values()) <= profile.elapsed_s
        assert set(profile.busy) == set(profile.capacity_s) == set(reports[-1].busy)
        assert all(0 < share <= 1 for share in profile.busy.values())
        assert all(f"{pool} " in str(reports[-1]).partition("busy")[2] for pool in profile.busy)

    def test_the_profile_of_several_passes_with_validation_is_their_sum(self) -> None:
        with self.launch(plan()) as session:
            ends = [report for report in session.train(data(), epochs=2, valid=data(seed=8)) if report.valid]
        assert all(ends[1].phases[phase] > seconds > 0 for phase, seconds in ends[0].phases.items() if phase != WAITING)

    # --- inference

    def test_rows_come_out_in_order_whatever_the_splits(self) -> None:
        with self.launch(plan()) as session:
            trained(session)
            whole = _predicted(session, data(split=1 << 20))
            pieces = _predicted(session, data(split=100).shuffle("local"))
            ids = _predicted(session, data(split=100), fetch="ids")
        np.testing.assert_allclose(whole, pieces, rtol=1e-5)  # BLAS rounds by the size of a batch
        assert np.array_equal(ids, columns()["ids"])

    def test_metrics_are_those_of_the_predictions(self) -> None:
        sklearn = pytest.importorskip("sklearn.metrics")
        with self.launch(plan(shard_hosts=2)) as session:
            trained(session)
            found = session.evaluate(data(seed=8), metrics=["exact_auc", "logloss", "accuracy"])
            p = np.asarray(_predicted(session, data(seed=8)), np.float64)
        y = columns(seed=8)["y"]
        assert found["exact_auc"] == pytest.approx(sklearn.roc_auc_score(y, p))
        assert found["logloss"] == pytest.approx(sklearn.log_loss(y, p), rel=1e-5)
        assert found["accuracy"] == pytest.approx(((p > 0.5) == y).mean())

    def test_inference_needs_no_label_and_creates_no_rows(self) -> None:
        unlabelled = hps.arrays({"ids": columns()["ids"] + np.uint64(10**6), "x": columns()["x"]})
        with self.launch(plan()) as session:
            before = trained(session)
            found = _predicted(session, unlabelled, fetch=["vectors", "prediction"])
            assert not found["vectors"].any()
            assert len(found["prediction"]) == 1500
            assert same(before, tables(session))

    def test_only_the_columns_that_matter_are_needed(self) -> None:
        items = hps.arrays({"ids": columns()["ids"], "item": np.arange(1500)})
        with self.launch(plan()) as session:
            trained(session)
            found = _predicted(session, items, fetch={"key": "item", "vector": "vectors"})
        assert np.array_equal(found["key"], np.arange(1500))
        assert found["vector"].shape == (1500, 3, 4)

    def test_parquet(self, tmp_path: Path) -> None:
        with self.launch(plan()) as session:
            trained(session)
            wanted = _predicted(session, data(), fetch=["prediction", "vector", "ids"])
            path = _predicted(session, data(), out=tmp_path / "out.parquet", fetch=["prediction", "vector", "ids"])
        table = read_parquet(path)
        assert table.column_names == ["prediction", "vector", "ids", "bad_row"]
        assert np.array_equal(table["prediction"].to_numpy(), wanted["prediction"])
        assert np.array_equal(np.array(table["vector"].to_pylist(), np.float32), wanted["vector"])
        assert np.array_equal(np.array(table["ids"].to_pylist(), np.uint64), wanted["ids"])
        assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]

    # --- tables

    @pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 2)])
    def test_a_saved_model_goes_on_exactly_on_any_number_of_hosts(
        self, tmp_path: Path, before: int, after: int
    ) -> None:
        with self.launch(plan(shard_hosts=before), mode="sync") as session:
            saved = trained(session)
            session.save(tmp_path / "model")
            wanted = trained(session)
        with self.launch(plan(shard_hosts=after), mode="sync") as session:
            session.load(tmp_path / "model")
            assert same(saved, tables(session))
            assert same(wanted, trained(session))

    def test_saving_changes_nothing_and_keeps_the_snapshot_before(self, tmp_path: Path) -> None:
        with self.launch(plan(), mode="sync") as session:
            trained(session)
            first = session.save(tmp_path)
            wanted = trained(session)
            second = session.save(tmp_path)
            assert same(wanted, tables(session))
            session.load(first)
            assert not same(wanted, tables(session))
            session.load(second)
            assert same(wanted, tables(session))
        with self.launch(plan(), mode="sync") as session:
            assert same(wanted, trained(session, epochs=2))

    @pytest.mark.parametrize("mode", ["sync", "async"])
    def test_a_save_in_the_loop_holds_every_batch_whole(self, tmp_path: Path, mode: str) -> None:
        hosts, rows, epochs = 3, 1500, 4
        rng = np.random.default_rng(11)
        with self.launch(counted_plan(hosts, lanes=2), mode=mode, report_s=0.0) as session:
            train = counted_data(session, rows)
            saved: list[Path] = []
            for last in session.train(train, epochs):
                if not last.done and rng.random() < 0.2 and len(saved) < 6:
                    saved.append(session.save(tmp_path / str(len(saved))))
            assert last.samples == rows * epochs
            saved.append(session.save(tmp_path / "last"))
        counted = [shows(folder, hosts) for folder in saved]
        assert len(saved) > 3
        assert all(len(set(each)) == 1 for each in counted), counted
        assert counted[-1] == [rows * epochs] * hosts
        before = next(each[0] for each in counted if each[0])
        with self.launch(counted_plan(hosts, lanes=2), mode=mode) as session:
            session.load(saved[next(i for i, each in enumerate(counted) if each[0])].parent.parent)
            list(session.train(train))
            after = shows(session.save(tmp_path / "after"), hosts)
        assert after == [before + rows] * hosts

    def test_cuts_that_take_longer_than_their_interval_do_not_keep_a_run_from_ending(self, tmp_path: Path) -> None:
        with self.launch(plan(), mode="sync", checkpoint=tmp_path, every_s=1e-3) as session:
            last = list(session.train(data()))[-1]
        assert last.samples == 1500

    def test_loading_in_the_loop_is_refused(self, tmp_path: Path) -> None:
        with self.launch(plan(), report_s=0.0) as session:
            session.save(tmp_path)
            for _ in session.train(data(), 3):
                with pytest.raises(CheckpointError, match="while training goes on"):
                    session.load(tmp_path)
                break
            session.load(tmp_path)

    def test_one_table_of_another_model(self, tmp_path: Path) -> None:
        with self.launch(plan()) as session:
            wanted = trained(session)
            session.save(tmp_path)
        with self.launch(plan(shard_hosts=2)) as session:
            fresh = tables(session)
            assert session.load_table(tmp_path, "vectors") == 120
            found = tables(session)
        assert np.array_equal(found["vectors"], wanted["vectors"])
        assert not np.array_equal(found["weights"], wanted["weights"])
        assert not np.array_equal(found["hidden"], fresh["hidden"])

    @pytest.mark.parametrize("valid", [False, True])
    def test_a_run_that_was_lost_goes_on_exactly(self, tmp_path: Path, valid: bool) -> None:
        watched = data(seed=8) if valid else None
        with self.launch(plan(), mode="sync") as session:
            list(session.train(data(), epochs=3, valid=watched))
            wanted = tables(session)
        with self.launch(plan(), mode="sync", checkpoint=tmp_path, every_batches=5, report_s=0.0) as session:
            for progress in session.train(data(), epochs=3, valid=watched):
                if progress.samples > 1500 and list(tmp_path.glob("checkpoint/0*")):
                    break
        with self.launch(plan(), mode="sync", checkpoint=tmp_path, resume=tmp_path) as session:
            reports = list(session.train(data(), epochs=3, valid=watched))
            assert same(wanted, tables(session))
        assert (reports[-1].done, reports[-1].epoch) == (True, 3)
        assert reports[-1].samples == 4500  # those of the lost run count, each once

    def test_cuts_come_by_counted_batches_whatever_the_reports(self, tmp_path: Path) -> None:
        with self.launch(plan(), mode="sync", checkpoint=tmp_path, every_batches=60, report_s=1e9) as session:
            last = list(session.train(data(), epochs=20))[-1]
        counted = [Manifest.read(cut).position["counts"]["batches"] for cut in sorted(tmp_path.glob("checkpoint/0*"))]
        assert counted[-1] == last.batches == 20 * 26
        assert len(counted) >= 2
        assert 60 <= counted[0] < last.batches  # a cut that is being written when the next is due makes it late

    def test_data_in_memory_keeps_all_lanes_busy_and_batches_whole(self) -> None:
        whole = hps.arrays(columns())
        assert len(whole.splits()) == 1
        with self.launch(plan(lanes=2, workers=2)) as session:
            last = list(session.train(whole))[-1]
        assert (last.samples, last.batches) == (1500, 24)

    def test_a_missing_model_says_what_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "monday").mkdir()
        with self.launch(plan()) as session:
            with pytest.raises(CheckpointError, match=r"no folder .*tuesday; .* has monday"):
                session.load(tmp_path / "tuesday")
            with pytest.raises(CheckpointError, match="no finished snapshot"):
                session.load(tmp_path / "monday")
            with pytest.raises(CheckpointError, match="one of checkpoint, changes, delta, base"):
                session.save(tmp_path / "monday", kind="all")  # type: ignore[arg-type]

    # --- mistakes

    def test_columns_are_checked_before_training(self) -> None:
        good = columns()
        with self.launch(plan()) as session:
            with pytest.raises(DataError, match=r"column 'x' .*does not have; it has ids \(sparse 3\), y \(label\)"):
                session.train(hps.arrays({k: v for k, v in good.items() if k != "x"}))
            with pytest.raises(DataError, match="4 elements a row instead of 3"):
                session.train(hps.arrays({**good, "ids": np.zeros((1500, 4), np.uint64)}))
            with pytest.raises(DataError, match="the model wants ids, the data has numbers"):
                session.train(hps.arrays({**good, "ids": np.zeros((1500, 3))}))
            with pytest.raises(DataError, match="the data has ids"):
                session.train(hps.arrays({**good, "x": np.zeros((1500, 2), int)}))
            with pytest.raises(DataError, match="'y'"):
                session.train(data(), valid=hps.arrays({k: v for k, v in good.items() if k != "y"}))
            with pytest.raises(DataError, match="'y'"):
                session.evaluate(hps.arrays({k: v for k, v in good.items() if k != "y"}))
            with pytest.raises(DataError, match="epochs is 0"):
                session.train(data(), epochs=0)

    def test_unknown_tensors_are_named(self) -> None:
        with self.launch(plan()) as session:
            with pytest.raises(GraphError, match=r"'nothing'; there are prediction, vector, ids"):
                session.predict(data(), fetch="nothing")
            with pytest.raises(GraphError, match="is a column of the data"):
                session.train(data(), fetch="x")
            with pytest.raises(GraphError, match="not one array row a sample"):
                session.predict(data(), fetch="loss")

    def test_a_closed_session_says_so(self) -> None:
        with self.launch(plan()) as session:
            pass
        with pytest.raises(RunError, match="closed"):
            session.train(data())
        session.close()


def _predicted(session: hps.Session, *args: Any, **options: Any) -> Any:
    """Arrays, dicts or a path: the caller knows which."""
    return session.predict(*args, **options)
