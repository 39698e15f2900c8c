"""Dense parameters on a device: the numbers of the host, the same cuts and snapshots, no wait at a push."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from heterps.device import namespace, to_device, to_host
from heterps.device.fake import TRAFFIC, FakeArray
from heterps.errors import TableError
from heterps.protocol import BatchKey
from heterps.tables import Adam, DenseSpec, KeyedShard, Rule, Uniform, restore, save_shard
from heterps.tables.live.dense import DenseBlock
from heterps.tables.on_device.array_rules import array_rule
from heterps.tables.on_device.checks import BUILT_IN
from heterps.tables.on_device.device_dense import DeviceDense

XP = namespace("fake")


def specs(*rules: Rule) -> list[DenseSpec]:
    return [DenseSpec(f"p{k}", shape, rule, Uniform(0.1)) for k, rule in enumerate(rules) for shape in ((4, 9),)]


def gradients(n: int, steps: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    found = [rng.standard_normal(n).astype(np.float32) for _ in range(steps)]
    found[1][3], found[2][0] = np.nan, np.inf
    return found


@pytest.mark.parametrize("device", ["fake", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: type(rule).__name__)
def test_every_rule_gives_the_numbers_of_the_loops(rule: Rule, device: str) -> None:
    xp = namespace(device)
    here, there = DenseBlock(specs(rule), seed=3), DeviceDense(specs(rule), seed=3, xp=xp)
    np.testing.assert_array_equal(there.values, here.values)
    skipped = 0
    for step, gradient in enumerate(gradients(len(here))):
        skipped += here.push(gradient, step=step)
        assert there.push(to_device(gradient, xp), step=step) == 0
    np.testing.assert_allclose(there.values, here.values, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(there.slots, here.slots, rtol=1e-6, atol=1e-7)
    assert there.take_skipped() == skipped == 2
    assert there.take_skipped() == 0


def test_nobody_waits_for_a_push_or_for_a_copy_that_stays_there() -> None:
    there = DeviceDense(specs(Adam(), Adam()), seed=3, xp=XP)
    gradient = to_device(np.ones(len(there), np.float32), XP)
    TRAFFIC.reset()
    there.push(gradient)
    copy = there.pull_there()
    assert (TRAFFIC.to_host, TRAFFIC.syncs, TRAFFIC.to_device) == (0, 0, 0)
    assert isinstance(copy, FakeArray)
    there.push(gradient)
    assert (to_host(copy) != there.values).all()  # a copy, not a view
    out = np.empty(len(there), np.float32)
    assert there.pull(out) is out
    np.testing.assert_array_equal(out, there.values)


def test_gradients_may_come_from_the_host_or_by_name() -> None:
    here, there = DenseBlock(specs(Adam(), Adam()), seed=3), DeviceDense(specs(Adam(), Adam()), seed=3, xp=XP)
    flat = np.ones(len(here), np.float32)
    for block in (here, there):
        block.push(flat)
        block.push({"p0": np.ones((4, 9)), "p1": np.zeros((4, 9))})
    np.testing.assert_allclose(there.values, here.values, rtol=1e-6)
    np.testing.assert_array_equal(there["p1"], there.values[36:].reshape(4, 9))
    with pytest.raises(TableError, match="shape"):
        there.push(flat[:3])
    with pytest.raises(TableError, match="no dense parameter 'p9'"):
        there["p9"]


def test_a_shard_on_a_device_is_cut_and_restored_anywhere(tmp_path: Path) -> None:
    on_device = partial(DeviceDense, xp=XP)
    there = KeyedShard(dense=specs(Adam(), Adam()), seed=3, dense_block=on_device)
    for n in range(3):
        there.push(BatchKey(0, 0, n), dense=np.full(72, n + 1, np.float32))
    save_shard(there, tmp_path / "cut", kind="checkpoint")
    assert there.nbytes == there.dense.nbytes > 4 * 72
    for block in (on_device, DenseBlock):
        again = KeyedShard(dense=specs(Adam(), Adam()), seed=3, dense_block=block)
        restore(again, tmp_path / "cut")
        np.testing.assert_array_equal(again.dense.values, there.dense.values)
        np.testing.assert_array_equal(again.dense.slots, there.dense.slots)
        assert again.push(BatchKey(0, 0, 2), dense=np.ones(72, np.float32)).duplicate


@dataclass(frozen=True)
class Outsider(Rule):
    """Has no array functions."""

    def numbers(self, step: int) -> tuple[float, ...]:
        return ()


def test_a_rule_from_outside_is_refused_by_name() -> None:
    with pytest.raises(TableError, match=r"rule Outsider is not built in.*shard hosts"):
        array_rule(Outsider())
