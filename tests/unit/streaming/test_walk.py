"""docs/streaming.md from top to bottom, in an empty folder."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from heterps.cli import main
from heterps.streaming import read_log

PAGE = Path(__file__).parents[3] / "docs/streaming.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.full
def test_the_page_runs_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), names)
        elif kind == "sh":
            for line in text.splitlines():
                done = CliRunner().invoke(main, [*shlex.split(line)[1:], "--engine", "inline"])
                assert done.exit_code == 0, done.output
    log = read_log(tmp_path / "model").to_pylist()
    values = {row["sequence"]: row["value"] for row in log if row["measure"] == "auc"}
    assert [*values] == [*range(1, 9)]
    assert values[1] == pytest.approx(0.5, abs=0.2)
    assert values[8] > 0.75
    assert (tmp_path / "drifted").exists()
