"""examples/notebooks: run in a real kernel from top to bottom, and kept without what they printed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
IDS = [path.stem for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_a_notebook_is_kept_without_outputs_and_says_what_it_is(path: Path) -> None:
    cells: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []
    assert cells[0]["source"][0].startswith("# ")
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in code:
        compile("".join(cell["source"]), str(path), "exec")


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own packages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("CONNECT", "WORKERS", "CALL"):
        monkeypatch.setenv(f"DASK_HETERPS__TIMEOUTS__{name}", "180s")
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    client = nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any(out.output_type in ("display_data", "execute_result") for out in shown)
    assert not [out for out in shown if out.output_type == "stream" and out.name == "stderr" and "Warning" in out.text]
