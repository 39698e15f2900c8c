"""The programs in the documents run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", ["data.md", "estimator.md", "metrics.md", "serving.md"])
def test_programs_in_the_documents_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train-0.tsv").write_text("\t".join(["1"] * 40) + "\n")
    (tmp_path / "clicks-0.csv").write_text("city,age,device,visits,tags,click\nOslo,31,phone,5,a|b,1\nRome,x,,,,0\n")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    if name == "data.md":
        assert (names["rows"], names["bad"].count) == (1, 1)  # type: ignore[attr-defined]
