"""What must be true at every published cut and in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heterps.protocol import BatchKey, Cut, Phase, Sync
from heterps.protocol.words.messages import FAR
from heterps.simulator.rows import SimulatedShard, keys_of, sync_values

if TYPE_CHECKING:
    from heterps.simulator.world import World

__all__ = ["cut", "final", "moment"]


def final(world: World) -> str:
    """Every batch key exactly once on every shard; in Sync the values of the undisturbed run, bit by bit."""
    if world.run.phase is Phase.ABORTED and world.net.fired["disk full"] and "could not be written" in world.run.reason:
        return ""  # the user asked for a last cut and there is no room for it: stopping is right
    if world.run.phase is not Phase.FINISHED:
        return f"the run was aborted: {world.run.reason}"
    layout, spec = world.run.layout(), world.scenario.spec
    shards = [world.copies[layout.copies[owner]].rows.get(n, SimulatedShard()) for n, owner in enumerate(layout.owners)]
    if spec.group:
        shards.append(world.copies[layout.copies[0]].rows[spec.shards])
    wanted = keys_of(world.scenario.splits, spec.passes)
    for number, shard in enumerate(shards):
        if shard.counts != wanted:
            return f"shard {number}: {_difference(shard.counts, wanted)}"
    if len(notes := {shard.notes for shard in shards[: spec.shards]}) > 1:
        return f"what was changed while the run rested is on some shards only: {notes}"
    if spec.mode == Sync() and [shard.value for shard in shards] != sync_values(spec, world.scenario.splits):
        return "Sync: the tables differ from those of the undisturbed run"
    if spec.final_cut and any(
        world.disk.read(world.disk.cuts[-1].number)[0][n].counts != wanted for n in range(len(shards))
    ):
        return "the last cut on disk is not the final state"
    return ""


def cut(world: World, made: Cut) -> str:
    """A cut is a moment: every shard has the same keys, once, and the windows beside them say so."""
    shards, state = world.disk.read(made.number)
    spec = world.scenario.spec
    if sorted(shards) != list(range(spec.shards + spec.group)):
        return f"cut {made.number} has shards {sorted(shards)} only"
    first = shards[0].counts
    for number, shard in shards.items():
        if shard.counts != first or any(count != 1 for count in shard.counts.values()):
            return f"cut {made.number}, shard {number}: {_difference(shard.counts, dict.fromkeys(first, 1))}"
    if len({shards[number].notes for number in range(world.scenario.spec.shards)}) > 1:
        return f"cut {made.number} has what was changed while the run rested on some shards only"
    wanted = _keys_at(made, world.scenario.splits)
    if set(first) != wanted:
        return f"cut {made.number} has {sorted(first)}, but the run goes on after {sorted(wanted)}"
    return _windows(made, first, state)


def moment(seen: Sequence[dict[BatchKey, int]]) -> str:
    """While the run rests every shard has the same keys, each once, whenever it is looked at."""
    if any(counts != seen[0] or any(count != 1 for count in counts.values()) for counts in seen):
        return f"the run rests, but shards have {[sorted(map(tuple, counts)) for counts in seen]}"
    return ""


def _keys_at(made: Cut, splits: Sequence[int]) -> set[BatchKey]:
    """Return the keys that the run will not send again when it goes on from the cut."""
    progress, keys = made.progress, set(keys_of(splits, made.pass_))
    if "lanes" in progress:
        rows = [(s, start, ended) for s, _, start, ended in progress["lanes"]]
        counts = {split: _done_in_lane(split, rows) for split in range(len(splits))}
    else:
        done = {*range(progress["low"]), *progress["done"]}
        counts = {**dict.fromkeys(done, FAR), **dict(progress["starts"])}
    return keys | {BatchKey(made.pass_, s, n) for s, count in counts.items() for n in range(min(count, splits[s]))}


def _done_in_lane(split: int, lanes: list[tuple[int, int, bool]]) -> int:
    """Return how many batches of a Split are done when its lane stands at (Split, batch, ended)."""
    present, start, ended = lanes[split % len(lanes)]
    return FAR if ended or split < present else start if split == present else 0


def _windows(made: Cut, counts: dict[BatchKey, int], state: dict[str, object] | None) -> str:
    assert state is not None
    rows: list[tuple[int, int, int, list[int]]] = state["window"]  # type: ignore[assignment]
    floor = next(((p, s) for p, s, low, _ in rows if low < 0), (0, 0))
    kept = {BatchKey(p, s, n) for p, s, low, above in rows if low >= 0 for n in [*range(low), *above]}
    known = {key for key in counts if key[:2] >= floor}
    if kept != known:
        return f"cut {made.number}: windows {sorted(kept)}, but applied {sorted(known)}"
    if any(above for _, _, _, above in rows):
        return f"cut {made.number}: windows did not collapse: {rows}"
    return ""


def _difference(counts: dict[BatchKey, int], wanted: dict[BatchKey, int]) -> str:
    missing = sorted(tuple(key) for key in wanted if key not in counts)
    wrong = {tuple(key): count for key, count in sorted(counts.items()) if count != wanted.get(key, 0)}
    return f"missing {missing}, wrong counts {wrong}"
