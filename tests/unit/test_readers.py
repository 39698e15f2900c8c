"""Every reader of a file that people write: a mistake is one named error with its place, never a traceback."""

import copy
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from graphs.dlrm import dlrm
from graphs.wide_deep import wide_deep
from heterps import Graph
from heterps.errors import GraphError, HeterpsError, PlanError, TableError
from heterps.hardware import Hardware, catalogue
from heterps.planner import MinCost, Plan, Profile, plan
from heterps.planner.costs.profile import Rates
from heterps.protocol.words.modes import Async, mode_from_json
from heterps.stages import layers_of, partition
from heterps.tables import RULES, Adam, CtrAccessor, GroupSpec, ProbabilityEntry, TableSpec, Warmup

EXAMPLES = 2000 if os.environ.get("HETERPS_SOAK") == "1" else 100

HARDWARE = """
[device.box]
kind = "cpu"
flops = { float32 = 1e12, float16 = 2e12 }
memory_bytes = 64e9
memory_bytes_per_s = 5e10
network_bytes_per_s = 1e9
cores = 8

[[pool]]
name = "cpu"
device = "box"
host = "rack"
cap = 40

[[pool]]
name = "gpu"
device = "l4"
price_per_hour = 0.7
serves = false

[[host]]
name = "rack"
cores = 64
memory_bytes = 256e9
memory_bytes_per_s = 1e11

[[link]]
source = "cpu"
target = "gpu"
bytes_per_s = 1e10
latency_s = 1e-4
"""

GROUP = GroupSpec(
    "ids",
    (
        TableSpec("deep", 8, Adam(lr=Warmup(0.1, 100), bounds=(-1, 1)), accessor=CtrAccessor(embedx_rule=Adam())),
        TableSpec("wide", 1, entry=ProbabilityEntry(0.5)),
    ),
)


def _plan() -> dict[str, Any]:
    hardware = Hardware.from_toml("[[pool]]\nname='cpu'\ndevice='c6i-8xlarge'\n[[pool]]\nname='gpu'\ndevice='l4'\n")
    return plan(wide_deep(), hardware, goal=MinCost(1e5), batch_size=1024).to_json()


def _profile() -> dict[str, Any]:
    return Profile({"cpu": Rates.of(catalogue()["t4"])}, (256, 4096), 0.4, ("note",)).to_json()


# What is read, and what a command does with it next.
READERS: dict[str, tuple[Callable[[], Any], Callable[[Path], Any]]] = {
    "graph.json": (lambda: dlrm().to_json(), lambda path: partition(layers_of(Graph.load(path)))),
    "plan.json": (_plan, lambda path: Plan.load(path).report()),
    "profile.json": (_profile, Profile.load),
    "group.json": (GROUP.to_json, lambda path: GroupSpec.from_json(json.loads(path.read_text()))),
    "mode.json": (Async(3, 2).to_json, lambda path: mode_from_json(json.loads(path.read_text()))),
    "hardware.json": (
        lambda: Hardware.from_toml(HARDWARE).to_json(),
        lambda path: Hardware.from_json(json.loads(path.read_text())).to_toml(),
    ),
}

WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**63, 2**64, -(2**70), 10**400, 1e308, -1e308, 5e-324, float("nan"), float("inf")]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["cpu", "gpu", "SGD", "float32", "\ud800", "\x00", "[bold]", "x" * 5000]),
    st.lists(st.integers(0, 2), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just([[[[]]]]),
    st.just({"kind": "SGD", "lr": {"kind": "Warmup", "lr": 0.1, "steps": 0}}),
)


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, one in items for place in _places(one, (*way, key)))]


@st.composite
def _mutated(draw: st.DrawFn, document: Any) -> Any:
    """Take a valid document and change one to three things in it."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        way = draw(st.sampled_from(_places(document)))
        if not way:
            continue
        holder = document
        for key in way[:-1]:
            holder = holder[key]
        action = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "add", "repeat"]))
        if action == "replace":
            holder[way[-1]] = copy.deepcopy(draw(WRONG))
        elif action == "remove":
            del holder[way[-1]]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[way[-1]]) if action == "repeat" else copy.deepcopy(draw(WRONG)))
        elif action == "rename":
            holder[way[-1] + "s"] = holder.pop(way[-1])
        else:
            holder[draw(st.text(max_size=4))] = copy.deepcopy(draw(WRONG))
    return document


VALID = {name: json.loads(json.dumps(make())) for name, (make, _) in READERS.items()}


@pytest.mark.parametrize("name", READERS)
def test_the_unchanged_document_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(json.dumps(VALID[name]))
    READERS[name][1](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_changed_document_is_read_or_refused_by_name(name: str, data: st.DataObject, tmp_path: Path) -> None:
    (tmp_path / name).write_text(json.dumps(data.draw(_mutated(VALID[name]))))
    try:
        READERS[name][1](tmp_path / name)
    except HeterpsError as error:
        str(error).encode()  # it can be printed


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_toml_is_read_or_refused_by_name(data: st.DataObject, tmp_path: Path) -> None:
    lines = HARDWARE.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        key, sign, _ = lines[at].partition(" = ")
        wrong = ['"x"', "0", "-1", "nan", "inf", "true", "[]", "{}", "1979-05-27", "9" * 5000, '"\\u0000"', "[" * 5000]
        lines[at] = data.draw(st.sampled_from([f"{key}{sign}{one}" for one in wrong] + ["", "[[pool]]", "x = 1", "]"]))
    file = tmp_path / "hw.toml"
    file.write_text("\n".join(lines))
    try:
        hardware = Hardware.from_toml(str(file))
    except HeterpsError:
        return
    assert Hardware.from_toml(hardware.to_toml()) == hardware


@pytest.mark.parametrize("name", ["graph.json", "plan.json", "profile.json"])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_bytes_are_read_or_refused_by_name(name: str, data: st.DataObject, tmp_path: Path) -> None:
    text = bytearray(json.dumps(VALID[name]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    (tmp_path / name).write_bytes(bytes(text))
    try:
        READERS[name][1](tmp_path / name)
    except HeterpsError as error:
        str(error).encode()


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        (
            "plan.json",
            lambda d: d["stages"][0].update(units="many"),
            PlanError,
            'plan.json: stages[0].units is "many", expected a whole number of at least 1',
        ),
        (
            "plan.json",
            lambda d: d["pools"][0]["device"].pop("flops"),
            PlanError,
            'plan.json: pools[0].device lacks "flops"',
        ),
        (
            "plan.json",
            lambda d: d.update(lane=3),
            PlanError,
            'plan.json has "lane", which is not known; did you mean "lanes"?',
        ),
        (
            "plan.json",
            lambda d: d["graph"]["ops"][3].update(kind=7),
            GraphError,
            "plan.json: graph.ops[3].kind is 7, expected text",
        ),
        (
            "profile.json",
            lambda d: d["pools"]["cpu"]["read"].update(fixed_s=-1),
            PlanError,
            "profile.json: pools.cpu.read.fixed_s is -1, expected a number of at least 0",
        ),
        (
            "graph.json",
            lambda d: d.update(ops=None),
            GraphError,
            "graph.json: ops is null, expected a list",
        ),
        (
            "group.json",
            lambda d: d["tables"][0]["rule"]["lr"].update(steps=0),
            TableError,
            "group: tables[0].rule.lr.steps is 0, expected a whole number of at least 1",
        ),
    ],
)
def test_the_place_and_what_was_expected_are_named(
    name: str, change: Any, error: type[HeterpsError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = copy.deepcopy(VALID[name])
    change(document)
    Path(name).write_text(json.dumps(document))
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        READERS[name][1](Path(name))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe{}", "not text in UTF-8"),
        (b"[" * 100_000, "not JSON that can be used"),
        (b"1" * 10_000, "not JSON that can be used"),
        (b'{"a": 1, "a": 2}', 'the key "a" stands twice'),
        (b"", "not JSON that can be used"),
    ],
)
def test_files_that_are_no_json_are_named(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_bytes(content)
    for load in (Graph.load, Plan.load, Profile.load):
        with pytest.raises(HeterpsError, match=f"{re.escape(str(file))}: .*{message}"):
            load(file)


def test_paths_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.json", tmp_path / "x" / "y", "nul\0.json"):
        for load in (Graph.load, Plan.load, Profile.load, lambda p: Hardware.from_toml(str(p))):
            with pytest.raises(HeterpsError, match="cannot be read"):
                load(path)


@pytest.mark.parametrize("rate", [-0.1, float("nan"), float("inf"), "fast", True, None])
@pytest.mark.parametrize(
    "rule", sorted(name for name in RULES if name != "Sum" and RULES[name].__module__.startswith("heterps.tables."))
)
def test_a_learning_rate_is_a_finite_number_not_below_0(rule: str, rate: Any) -> None:
    with pytest.raises(TableError, match=f"rule {rule}: lr is .*, expected a"):
        RULES[rule](lr=rate)  # type: ignore[call-arg]
    with pytest.raises(TableError, match=r"rule: lr is .*, expected a"):
        RULES.from_json({"kind": rule, "lr": rate})
