"""The report as text and page, and the commands."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from graphs.ctrdnn import ctrdnn
from graphs.mmoe import mmoe
from graphs.wide_deep import wide_deep
from heterps.cli import main
from heterps.hardware import Device, Hardware, Pool
from heterps.planner import FixedRate, MinCost, Plan, Profile, Request, frontier, plan, play
from heterps.planner.planner import solve
from heterps.planner.show.charts import draw_frontier, draw_split, draw_timeline
from heterps.planner.show.diff import diff
from heterps.planner.show.explain import explain
from heterps.planner.show.figures import ranges_text, seconds_text
from heterps.planner.show.html import report_html
from heterps.planner.show.text_report import machine_ratio, report_text
from heterps.protocol import Geo
from heterps.stages import layers_of
from tests.unit.planner.conftest import RENTED

MIXED = """
[[product]]
name = "g6-xlarge"

[[pool]]
name = "cpu"
device = "m6i-8xlarge"
"""


@pytest.fixture(scope="module")
def request_(rented):
    return Request(ctrdnn(), rented, MinCost(2e6), (8192,))


@pytest.fixture(scope="module")
def made(rented):
    return plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)


def test_text_has_everything_that_is_asked_for(made):
    text = report_text(made)
    for stage in made.stages:
        assert stage.name in text
        assert all(layer in text for layer in stage.layers)
    for word in ("rows/s", "bound by", "ratio", "busy", "an hour", "per million rows", "memory of a worker", "link "):
        assert word in text
    assert "Proof: price per million rows" in text
    assert "What lost, and why" in text
    assert "cpu-only" in text
    assert all(assumption.split()[0] in text for assumption in made.assumptions)
    assert made.report() == text


def test_figures_of_gpus_that_nobody_measured_are_marked(made):
    (gpu,) = made.forecast.data_sheet
    assert made.pool(gpu).kind == "gpu"
    note = f"* rates of {gpu}: data sheet, not measured"
    text = report_text(made)
    assert note in text
    on_gpu = [stage.name for stage in made.stages if gpu in stage.workers]
    others = [stage.name for stage in made.stages if gpu not in stage.workers]
    rows = {line.split()[1]: line for line in text.splitlines() if line.startswith("│") and "/s" in line}
    assert on_gpu
    assert all("/s*" in rows[name] for name in on_gpu)
    assert not any("/s*" in rows[name] for name in others)
    assert note in report_html(made, layers_of(made.graph))
    assert Plan.from_json(made.to_json()).forecast.data_sheet == (gpu,)
    measured = replace(made, forecast=replace(made.forecast, data_sheet=()))
    assert "data sheet, not measured" not in report_text(measured)
    assert "*" not in report_text(measured).split("Proof")[0]


def test_text_of_a_plan_made_by_hand():
    text = Plan.fused(wide_deep(), batch_size=64, workers=2).report()
    assert "one fused stage" in text
    assert "made by hand" in text


def test_emulated_pools_are_called_so(made, rented):
    pools = tuple(replace(pool, emulated=pool.name == "gpu") for pool in made.pools)
    emulated = replace(made, pools=pools)
    assert "emulated" in emulated.report()
    assert "Emulated" in report_html(emulated, layers_of(made.graph, batch_size=8192))


def test_machine_ratio_is_in_lowest_terms(made):
    stages = tuple(replace(stage, units=units) for stage, units in zip(made.stages, (10, 2), strict=True))
    assert machine_ratio(replace(made, stages=stages)) == "5 cpu : 1 gpu"


def test_pictures_are_well_formed(made, request_):
    points = frontier(request_, made, points=6)
    chosen = (made.forecast.rows_per_second, made.forecast.price_per_hour)
    layers = layers_of(made.graph, batch_size=8192)
    for svg in (
        draw_split(made, layers),
        draw_frontier(points, chosen),
        draw_timeline(made, play(made, request_.hardware)),
    ):
        root = ET.fromstring(svg)
        assert root.tag.endswith("svg")
        assert len(list(root.iter())) > 10
    assert "One point only" in draw_frontier(points[:1])
    assert "not played" in draw_timeline(made, None)


class _Tags(HTMLParser):
    VOID = ("meta", "br", "rect", "path", "circle", "line")

    def __init__(self):
        super().__init__()
        self.open, self.links = [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_page_is_one_self_contained_file(made, request_):
    page = report_html(
        made, layers_of(made.graph, batch_size=8192), frontier(request_, made, 6), explain(request_), "T<1>"
    )
    parser = _Tags()
    parser.feed(page)
    assert parser.open == []
    assert parser.links == []
    assert "<script" not in page
    assert "T&lt;1&gt;" in page
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    for heading in ("Stages", "The split graph", "Price against throughput", "The pipeline over time", "Proof"):
        assert f"<h2>{heading}</h2>" in page


@pytest.mark.parametrize(("price", "said"), [(0.0, "units are counted instead"), (2.0, "cost nothing")])
def test_the_curve_is_in_what_there_is_to_save(price, said):
    """Machines of one's own cost nothing: alone they are counted, beside others with a price they are free."""
    own = Device("own", "cpu", {"float32": 1e12}, 16e9, 2e10, 1e9, cores=4)
    pools = (Pool("own", own, cap=6), Pool("cloud", replace(own, name="cloud", price_per_hour=price), cap=1))
    request = Request(wide_deep(), Hardware(pools if price else pools[:1]), FixedRate(1e4), (4096,))
    made = solve(request)
    points = frontier(request, made)
    page = report_html(made, layers_of(made.graph, batch_size=4096), points[:3])
    assert made.forecast.price_per_hour == 0
    assert said in page
    assert (points[0][1] == 0) == bool(price)


def test_the_curve_passes_through_the_plan(made, request_):
    points = frontier(request_, made, 6)
    own = [y for x, y in points if x == pytest.approx(made.forecast.rows_per_second, rel=1e-4)]
    assert own == [pytest.approx(made.forecast.price_per_hour)]


# --- the commands


@pytest.fixture
def hw(tmp_path):
    path = tmp_path / "hw.toml"
    path.write_text(RENTED)
    return str(path)


def run(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def test_the_report_says_which_mode_it_assumed():
    plan = Plan.fused(wide_deep(), batch_size=64, workers=2)
    assert "async mode" in plan.report()
    assert "the forecast is that of async mode" not in plan.report()
    assert "the forecast is that of async mode" in replace(plan, mode=Geo(100)).report()


def test_async_is_what_nobody_asked_for_too_and_another_depth_is_planned_for(hw):
    """With two batches in flight where nine are needed a plan did not do what was forecast, and nobody was told."""
    options = ("plan", "graphs/ctrdnn.py", "--hardware", hw, "--rows-per-second", "2M", "--batch-size", 8192)
    given = ((), ("--mode", "async"), ("--mode", "async:4"))
    plain, same, other = (json.loads(run(*options, *more, "--json").output) for more in given)
    assert plain["mode"] == same["mode"]
    assert other["mode"]["depth"] == other["depth"] == 4 < plain["depth"]
    assert other["lanes"] > plain["lanes"]


def test_plan_prints_the_report(hw):
    result = run("plan", "graphs/ctrdnn.py", "--hardware", hw, "--rows-per-second", "2M", "--batch-size", 8192)
    assert result.exit_code == 0, result.output
    assert "Proof:" in result.output
    assert "compute" in result.output


def test_plan_for_this_machine():
    result = run("plan", "graphs/wide_deep.py", "--batch-size", 4096)
    assert result.exit_code == 0, result.output
    assert "one fused stage" in result.output


def test_plan_json_out_html_and_diff(hw, tmp_path):
    a, b, page = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "r.html"
    common = ("graphs/ctrdnn.py", "--hardware", hw, "--rows-per-second", "2M", "--batch-size", 8192)
    first = run("plan", *common, "--json", "--out", a, "--html", page)
    assert first.exit_code == 0, first.output
    assert Plan.from_json(json.loads(first.output)) == Plan.load(a)
    assert page.read_text().startswith("<!doctype html>")
    assert run("plan", *common, "--pin", "fc12=cpu", "--pin", "loss=cpu", "--out", b).exit_code == 0
    result = run("plan", "diff", a, b)
    assert result.exit_code == 0, result.output
    assert "ops fc12, " in result.output
    assert run("plan", "diff", a, a).output == "no difference\n"


def test_plan_compare_and_explain(hw):
    common = ("graphs/wide_deep.py", "--hardware", hw, "--arrival-rate", "1M", "--batch-size", 4096)
    result = run("plan", *common, "--compare")
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in ("exact", "milp", "greedy", "cpu-only", "gpu-only"))
    result = run("plan", *common, "--explain")
    assert result.exit_code == 0, result.output
    assert "Legal cuts" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rows-per-second", "1k", "--budget", "3"), "different goals"),
        (("--rows-per-second", "fast"), "is not a number"),
        (("--rows-per-second", "1k", "--pin", "fc0"), "--pin takes OP=POOL"),
        (("--budget", "0"), "Invalid value for '--budget': 0 is not a number above 0"),
        (("--budget", "nan"), "Invalid value for '--budget': 'nan' is not a number"),
        (
            ("--budget", "3", "--compare", "--out", "p.json", "--html", "p.html"),
            "leave out --html, --out, which would mean nothing there",
        ),
        (("--budget", "3", "--json", "--play"), "--json prints nothing else: leave out --play"),
        (("--rows-per-second", "90G"), "no feasible plan"),
        (("--rows-per-second", "1k", "--solver", "magic"), "unknown solver 'magic'"),
        (("--rows-per-second", "1k", "--profile", "none.json"), "none.json: cannot be read"),
    ],
)
def test_mistakes_are_messages(hw, options, message):
    result = run("plan", "graphs/wide_deep.py", "--hardware", hw, "--batch-size", 4096, *options)
    assert result.exit_code != 0
    assert message in result.output
    assert "Traceback" not in result.output


def test_a_file_that_is_no_plan_is_called_so(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"a": 1}')
    for words in (("plan", "diff", path, path), ("plan", "wide_deep", "--profile", path)):
        result = run(*words)
        assert result.exit_code != 0
        assert re.search(r"other\.json: no (plan|profile); `heterps (plan|profile) --out` saves one", result.output)


def test_help_keeps_its_examples_apart():
    result = run("plan", "--help")
    assert "\n    heterps plan diff a.json b.json\n" in result.output


def test_profile_measures_and_plan_uses_it(tmp_path):
    path = tmp_path / "profile.json"
    result = run("profile", "graphs/wide_deep.py", "--set", "hidden=[16]", "--in-process", "--out", path)
    assert result.exit_code == 0, result.output
    assert "layer fc0" in result.output
    assert "the engine takes " in result.output
    measured = Profile.load(path).pools["cpu"]
    assert 0 < measured.batch_s < 1
    assert 0 <= measured.idle_cores < 1
    again = run("profile", "graphs/wide_deep.py", "--set", "hidden=[16]", "--add-to", path)
    assert "has a pool 'cpu' already" in again.output
    planned = run("plan", "graphs/wide_deep.py", "--set", "hidden=[16]", "--batch-size", 1024, "--profile", path)
    assert planned.exit_code == 0, planned.output
    assert "rates of cpu were measured" in planned.output


def test_plan_samples_what_train_reads(hw):
    model = ("graphs/wide_deep.py", "--set", "slots=19", "--set", "dense=5", "--batch-size", 1024)
    result = run("plan", *model, "--hardware", hw, "--rows-per-second", "1k", "--data", "adult:train")
    assert result.exit_code == 0, result.output
    assert re.search(r"distinct in 32,561 sampled\s+rows", result.output)
    wrong = ("graphs/wide_deep.py", "--set", "slots=26", "--hardware", hw, "--rows-per-second", "1k")
    wrong = run("plan", *wrong, "--data", "adult:train")
    assert "column 'ids': the model reads" in wrong.output
    assert "Traceback" not in wrong.output


def test_the_assumptions_name_the_age_of_prices_and_rates_that_are_not_used(rented: Hardware) -> None:
    said = plan(wide_deep(), rented, batch_size=4096, goal=MinCost(100_000)).assumptions
    assert "pool cpu: price of 2024-06, 1.36 an hour for a unit" in said
    assert "pool gpu: computes in float32; not used: bfloat16 4 times that rate" in said


def test_a_host_without_pools_is_not_spoken_of():
    rack = '[[host]]\nname = "rack"\ncores = 64\nmemory_bytes = 5e11\nmemory_bytes_per_s = 2e11\n'
    made = plan(ctrdnn(), Hardware.from_toml(f"{RENTED}\n{rack}"), goal=MinCost(2e6), batch_size=8192)
    assert "rack" not in report_text(made)


def test_what_takes_no_time_is_a_dash_and_parts_have_one_name(made):
    text, html = report_text(made), page(made)
    assert not re.search(r"\b0 µs", text + html)
    assert "_s │" not in text
    assert "_s<" not in html
    parts = {part.limit.split(": ")[1] for part in made.forecast.stages}
    assert all(f'<th class="n">{part}</th>' in html for part in parts)


def page(made) -> str:
    return report_html(made, layers_of(made.graph, batch_size=made.batch_size))


def test_the_page_has_the_marks_and_prices_of_the_text(made):
    text, html = report_text(made), page(made)
    (price,) = re.findall(r"^Price: (.*); (.*) per million rows", text, re.MULTILINE)
    assert all(words in html for words in price)
    assert price[1].endswith("*")
    assert ", ".join(f"{n} {pool}" for pool, n in made.units.items()) in html
    figures = {stage.stage: stage for stage in made.forecast.stages}
    on_gpu = next(stage for stage in made.stages if set(stage.workers) & set(made.forecast.data_sheet))
    assert f"{seconds_text(figures[on_gpu.name].cost.kernel_s)}*</td>" in html


def test_bars_of_two_pools_that_read_have_the_names_of_both():
    """All readers were called after the first pool."""
    sold = '[[pool]]\nname = "cpu"\ndevice = "m6i-8xlarge"\ncap = 40\n[[product]]\nname = "g6-xlarge"\ncap = 16\n'
    hardware = Hardware.from_toml(sold)
    both = plan(ctrdnn(), hardware, goal=MinCost(5e5), batch_size=32768)
    assert both.stages[0].workers.keys() == {"cpu", "g6_xlarge"}
    picture = draw_timeline(both, play(both, hardware))
    for name in ("io cpu-0", "io g6_xlarge-0", "io g6_xlarge-1", "compute l4-0"):
        assert f">{name}<" in picture
    assert "io cpu-1" not in picture


def test_wide_tables_of_the_page_can_be_moved_sideways(made):
    html = page(made)
    assert html.count('<div class="table"><table>') == html.count("<table>") > 2


def test_what_pools_that_share_a_stage_send_is_that_of_both():
    hardware = Hardware.from_toml(MIXED).with_caps(**{"cpu": 40, "g6-xlarge": 16})
    made = plan(ctrdnn(), hardware, goal=MinCost(5e5), batch_size=8192)
    assert made.stages[0].also
    both = " + ".join(made.stages[0].workers)
    assert [*made.forecast.link_bytes_per_s][:2] == [f"{both} - l4", f"l4 - {both}"]


def test_rivals_that_cost_more_than_was_compared_have_their_price():
    """They were said to be impossible: plans are compared that cost at most twice as much an hour."""
    made = plan(mmoe(), Hardware.from_toml(MIXED), goal=MinCost(3e5), batch_size=8192)
    limit = float(re.search(r"all plans within the limit of ([\d.]+)", made.certificate.proof)[1])
    (greedy,) = (rival for rival in made.rivals if rival.name == "greedy")
    assert greedy.price_per_million_rows / 1e6 * 3600 * greedy.rows_per_second > limit
    assert "times the price" in greedy.why


def test_ops_that_moved_alike_are_one_line_of_a_difference(made):
    moved = replace(made.stages[-1], pool=made.stages[0].pool)
    rows = diff(made, replace(made, stages=(*made.stages[:-1], moved)))
    assert [what for what, _, _ in rows if what.startswith("op")] == [f"ops {', '.join(moved.ops)}"]
    assert {what: a for what, a, _ in diff(made, replace(made, mode=Geo()))}["mode"] == "async, merge 1"


def test_numbers_in_a_row_are_a_range():
    assert ranges_text([7, 0, 1, 2, 3, 9, 10]) == "0-3, 7, 9, 10"


def test_a_label_stands_where_its_line_does_not_come_from(made):
    """It was crossed out by a line that comes from above."""
    split = draw_split(made, layers_of(made.graph, batch_size=made.batch_size))
    pattern = r'<path d="M\S+ (\S+) C.*? (\S+)" fill[^>]*/><text x="\S+" y="([\d.]+)"[^>]*>\w'
    lines = [tuple(map(float, found)) for found in re.findall(pattern, split)]
    assert {(start < end, label > end) for start, end, label in lines} == {(True, True), (False, False)}


def test_where_nothing_has_a_price_layers_have_none(tmp_path):
    page = tmp_path / "here.html"
    result = run("plan", "wide_deep", "--explain", "--html", page, "--batch-size", 4096)
    assert "time by pool" in result.output
    assert "million rows by pool" not in result.output
    assert "$ per million rows" not in page.read_text()
