"""Nearest vectors: the exact search against the definition, the approximate one nearly so, files checked."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import heterps as hps
from heterps.cli import main
from heterps.errors import CheckpointError, DataError

RNG = np.random.default_rng(0)
IDS = RNG.permutation(1000)[:300] * 7
VECTORS = RNG.normal(size=(300, 8)).astype(np.float32)
ASKED = RNG.normal(size=(9, 8)).astype(np.float32)


def by_definition(asked: np.ndarray, k: int, *, cosine: bool = False) -> list[list[int]]:
    scores = asked.astype(np.float64) @ VECTORS.T
    if cosine:
        scores /= np.linalg.norm(VECTORS, axis=1)
    return [IDS[np.argsort(-row)[:k]].tolist() for row in scores]


@pytest.mark.parametrize("likeness", ["dot", "cosine"])
def test_exact_and_approximate(likeness: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = hps.Neighbours.build(tmp_path / "a", IDS, VECTORS, likeness=likeness, approximate=True)  # type: ignore[arg-type]
    wanted = by_definition(ASKED, 10, cosine=likeness == "cosine")
    exact = hps.Neighbours(tmp_path / "a")
    ids, scores = exact.search(ASKED, 10)
    assert ids.tolist() == wanted
    assert (np.diff(scores, axis=1) <= 0).all()
    near, near_scores = made.search(ASKED, 10)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(near.tolist(), wanted, strict=True)]) > 0.95
    np.testing.assert_allclose(near_scores[:, 0], scores[:, 0], rtol=1e-5)
    monkeypatch.setattr("heterps.serving.neighbours._BLOCK", 1000)  # three vectors at a time
    np.testing.assert_array_equal(exact.search(ASKED, 10)[0], ids)
    assert exact.search(ASKED[0], 5)[0].tolist() == [wanted[0][:5]]
    assert exact.search(ASKED, 1000)[0].shape == (9, 300)
    seen = [row[:3] for row in wanted]
    assert exact.search(ASKED, 4, without=seen)[0].tolist() == [row[3:7] for row in wanted]


def test_mistakes_are_named(tmp_path: Path) -> None:
    build = hps.Neighbours.build
    for ids, vectors, says in (
        (IDS, VECTORS[:5], "ids of shape"),
        (IDS - 10**6, VECTORS, "whole numbers from 0 on"),
        (np.zeros(300, int), VECTORS, "stands there twice"),
        (IDS, VECTORS * np.float32(np.inf), "not finite"),
    ):
        with pytest.raises(DataError, match=says), np.errstate(invalid="ignore"):
            build(tmp_path / "a", ids, vectors)
    assert not list(tmp_path.iterdir())
    exact = build(tmp_path / "a", IDS, VECTORS)
    with pytest.raises(CheckpointError, match="exists: name a new folder"):
        build(tmp_path / "a", IDS, VECTORS)
    with pytest.raises(DataError, match=r"those of .* have 8 numbers"):
        exact.search(ASKED[:, :3], 2)
    with pytest.raises(DataError, match="k is 0"):
        exact.search(ASKED, 0)
    with pytest.raises(CheckpointError, match="no approximate index"):
        hps.Neighbours(tmp_path / "a", approximate=True)
    with pytest.raises(CheckpointError, match=r"has no neighbours.json"):
        hps.Neighbours(tmp_path)


@pytest.mark.parametrize("name", ["neighbours.json", "vectors.arrow", "approximate.usearch"])
def test_damage_is_found(name: str, tmp_path: Path) -> None:
    hps.Neighbours.build(tmp_path / "a", IDS, VECTORS, approximate=True)
    path = tmp_path / "a" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=name):
        hps.Neighbours(tmp_path / "a", approximate=True)


def test_the_command_builds_and_searches(tmp_path: Path) -> None:
    pq.write_table(pa.table({"item_id": IDS, "item_vector": VECTORS.tolist()}), tmp_path / "items.parquet")
    pq.write_table(pa.table({"user": range(9), "user_vector": ASKED.tolist()}), tmp_path / "users.parquet")

    def run(*words: object) -> str:
        return CliRunner().invoke(main, ["neighbours", *map(str, words)]).output

    assert "300 vectors of 8 numbers" in run("build", tmp_path / "items.parquet", tmp_path / "a", "--approximate")
    for how in ((), ("--approximate",)):
        out = tmp_path / "near.parquet"
        assert "4 neighbours of 9" in run(
            "search", tmp_path / "a", tmp_path / "users.parquet", "-k", 4, *how, "--out", out
        )
        table = pq.read_table(out)
        assert table.column_names == ["user", "neighbours", "scores"]
        assert table["neighbours"].to_pylist() == by_definition(ASKED, 4)
    said = run("build", tmp_path / "items.parquet", tmp_path / "b", "--id", "film")
    assert "has no column 'film'; it has item_id, item_vector" in said
    assert "is no Parquet file" in run("build", tmp_path / "none.parquet", tmp_path / "b")
