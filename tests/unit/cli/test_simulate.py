import pytest
from click.testing import CliRunner

from heterps.cli import main
from tests.unit.protocol.planted import PLANTED


def test_simulate_counts_what_fired() -> None:
    result = CliRunner().invoke(main, ["simulate", "--seeds", "60"])
    assert result.exit_code == 0, result.output
    assert "60 seeds" in result.output
    assert "message lost" in result.output


def test_simulate_shows_one_history() -> None:
    result = CliRunner().invoke(main, ["simulate", "--seed", "5"])
    assert result.exit_code == 0, result.output
    assert "seed 5" in result.output
    assert "RunSplit" in result.output


def test_simulate_fails_with_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED["no_dedupe"](monkeypatch)
    result = CliRunner().invoke(main, ["simulate", "--seeds", "500"])
    assert result.exit_code == 1
    assert "shrunken to" in result.output
