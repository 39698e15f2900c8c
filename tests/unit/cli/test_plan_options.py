"""``heterps plan --play`` and ``--commands``."""

import pytest
from click.testing import CliRunner

from heterps import Plan
from heterps.cli import main
from heterps.cli._models import load_graph
from tests.unit.planner.conftest import RENTED


@pytest.fixture
def common(tmp_path):
    path = tmp_path / "hw.toml"
    path.write_text(RENTED)
    return ("graphs/wide_deep.py", "--hardware", str(path), "--rows-per-second", "20k", "--batch-size", "4096")


def run(*args):
    return CliRunner().invoke(main, ["plan", *map(str, args)])


def test_a_plan_is_played_as_it_is_said(common):
    result = run(*common, "--mode", "sync", "--play-with", "batches=6", "--play-with", "splits=4")
    assert result.exit_code == 0, result.output
    assert "Played: 24 batches in sync mode" in result.output
    assert "of the forecast" in result.output
    assert "at work: stage all" in result.output


def test_a_job_is_all_epochs(common):
    result = run(*common, "--rows", "4M", "--epochs", "3")
    assert result.exit_code == 0, result.output
    assert "Job: 12.0M rows in " in result.output
    assert result.output.index("Price: ") < result.output.index("Job: ") < result.output.index("Proof: ")


def test_a_job_stands_on_the_page_too(common, tmp_path):
    page = tmp_path / "plan.html"
    result = run(*common, "--rows", "4M", "--html", page)
    (job,) = (line for line in result.output.splitlines() if line.startswith("Job: "))
    assert job in page.read_text()


def test_a_play_that_would_not_end_is_refused(common):
    for words in (["batches=1000000"], ["splits=1000000000000"], ["passes=1000000"]):
        result = run(*common, *(word for said in words for word in ("--play-with", said)))
        assert result.exit_code != 0
        assert "batches are too many to be played" in " ".join(result.output.split()) + str(result.exception)


def test_options_stand_before_the_file_too(common):
    file, *options = common
    assert run(*options, file).exit_code == 0
    assert "Missing argument 'FILE[:FUNCTION]'" in run(*options).output


def test_inputs_of_a_model_follow_from_the_data_as_in_training(tmp_path):
    out = tmp_path / "plan.json"
    result = run("wide_deep", "--data", "adult:train", "--batch-size", "1024", "--out", out)
    assert result.exit_code == 0, result.output
    assert Plan.load(out).graph == load_graph("wide_deep", {"slots": 19, "dense": 5})


def test_a_solver_that_proves_nothing_says_so(common, tmp_path):
    """It said "proved optimal in the model"."""
    page = tmp_path / "plan.html"
    result = run(*common, "--solver", "greedy", "--html", page, "--rows", "4e9")
    text = " ".join(result.output.split())
    assert ": not proved (none: the bound is for plans of this solver's kind only; greedy" in text
    assert "proved optimal" not in text + page.read_text()


def test_a_solver_that_would_not_end_is_refused(tmp_path):
    path = tmp_path / "hw.toml"
    path.write_text(RENTED)
    result = run("ctrdnn", "--hardware", path, "--rows-per-second", "1k", "--batch-size", "4096", "--solver", "brute")
    assert result.exit_code != 0
    assert "solver 'brute' cannot be used here (more than 24 states x types" in result.output + str(result.exception)


def test_help_has_the_options_and_what_people_ask_most():
    output = run("--help").output
    for word in ("--rows-per-second 500k", "--rows 4e9 --deadline 6h --budget 200", "--replicas 2", "--commands"):
        assert word in output
    assert "Copies of each shard host." in output


def test_the_commands_run_the_saved_plan(common, tmp_path):
    out = tmp_path / "plan.json"
    page = tmp_path / "plan.html"
    result = run(*common, "--out", out, "--commands", "--html", page)
    assert result.exit_code == 0, result.output
    assert page.exists()
    made = Plan.load(out)
    hosts, workers = made.shard_hosts, made.stages[0].units
    assert workers > 1
    assert result.output == f"heterps launch --servers {hosts} --io {workers} -m heterps train {out} --data DATA\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--play-with", "speed=2"], "use NAME=VALUE with one of splits, batches, passes, cuts, slow"),
        (["--play-with", "splits=0"], "use a whole number above 0"),
        (["--play-with", "slow=0.5"], "how many times as long one worker takes, at least 1"),
        (["--play-with", "cuts=often"], "--play-with cuts=often: 'often' is not a time"),
        (["--play-with", "slow=inf"], "how many times as long one worker takes, at least 1"),
        (["--epochs", "2"], "--epochs is how often --rows are trained on: say how many rows there are"),
        (["--commands"], "say where with --out plan.json"),
        (["--hosts", "127.0.0.1"], "give --commands too"),
        (["--commands", "--out", "plan.json", "--certs", "certs"], "give --hosts too"),
    ],
    ids=["unknown", "count", "factor", "time", "no end", "no rows", "no file", "no commands", "no hosts"],
)
def test_mistakes_are_named(common, options, message):
    result = run(*common, *options)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split()) + str(result.exception)
    assert "Proof" not in result.output  # said before anything was planned
