"""Requests for plans drawn by seed: small models on any kind of hardware, in any mode, for any goal."""

import random
from dataclasses import dataclass

from heterps.hardware import Device, Hardware, Host, Link, Pool, Product
from heterps.models import ctrdnn, deepfm, dlrm, matchnet, mmoe, two_emb, wide_deep
from heterps.planner import FixedRate, MaxThroughput, MinCost
from heterps.planner.planner import Request, solve
from heterps.protocol.words.modes import Async, Geo, Sync

SECONDS = 5.0  # of a search: what is open by then is no matter here


@dataclass(frozen=True)
class Drawn:
    """A request, and the mode that somebody asks for."""

    request: Request
    mode: object

    def plan(self):
        return solve(self.request, self.mode)


def drawn_request(seed):
    """Draw one; not all can be met."""
    rng = random.Random(f"request {seed}")
    mode = rng.choice((None, None, Async(3), Sync(), Sync(), Geo(3)))
    asked = Request(
        _model(rng),
        rng.choice((_pools, _pools, _readers, _rented, _racked))(rng),
        _goal(rng),
        (rng.choice((256, 1024, 4096, 16384)),),
        replicas=rng.choice((1, 1, 1, 2)),
        head_room=rng.choice((0.0, 0.0, 0.2)),
        seconds=SECONDS,
    )
    return Drawn(asked, mode)


def _model(rng):
    slots = rng.choice((2, 8, 26))
    return rng.choice(
        (
            lambda: wide_deep(slots, hidden=rng.choice(((64,), (400, 400)))),
            lambda: ctrdnn(slots, hidden=rng.choice(((64, 32), (1024, 512, 256)))),
            lambda: dlrm(slots, bottom=(64,), top=(128, 64)),
            lambda: deepfm(slots, hidden=(128, 64)),
            lambda: two_emb(),
            lambda: matchnet(),
            lambda: mmoe(slots, experts=2),
        )
    )()


def _goal(rng):
    rate = 10 ** rng.uniform(4, 6.5)
    return rng.choice((MinCost(rate), FixedRate(rate), MaxThroughput(rng.choice((10.0, 60.0)))))


def _cpu(rng, name="box"):
    cores = rng.choice((1, 4, 16, 32))
    return Device(
        name, "cpu", {"float32": 8e10 * cores}, rng.choice((4e9, 64e9)), 1e11, rng.choice((2e8, 1.5e9, 6e9)), cores,
        efficiency=0.6, price_per_hour=round(0.05 * cores * rng.uniform(0.5, 2), 3),
    )  # fmt: skip


def _gpu(rng, name="card"):
    speed = rng.choice((4e12, 1.5e13, 6e13))
    return Device(
        name, "gpu", {"float32": speed}, rng.choice((8e9, 24e9)), 4e11, rng.choice((6e8, 3e9)), 1, 1.2e10, 5e-6, 0.5,
        round(speed / 1e13 * rng.uniform(0.5, 2), 3),
    )  # fmt: skip


def _cap(rng):
    return rng.choice((2, 6, 20, 200))


def _pools(rng):
    """Pools that are rented by the unit, perhaps with a link between two."""
    pools = [Pool("cpu", _cpu(rng), _cap(rng)), Pool("gpu", _gpu(rng), _cap(rng), serves=False)]
    if rng.random() < 0.4:
        pools.append(Pool("other", _gpu(rng, "other card"), _cap(rng), serves=False))
    links = (Link("cpu", "gpu", rng.choice((5e8, 5e9))),) if rng.random() < 0.3 else ()
    return Hardware(tuple(pools), links=links)


def _readers(rng):
    """Two pools of unlike cores that read, few of each, and perhaps GPUs."""
    pools = [
        Pool("cpu", _cpu(rng), rng.choice((1, 2, 4))),
        Pool("more", _cpu(rng, "other box"), rng.choice((2, 6, 20))),
    ]
    if rng.random() < 0.7:
        pools.append(Pool("gpu", _gpu(rng), _cap(rng), serves=False))
    return Hardware(tuple(pools))


def _rented(rng):
    """Machines that are rented whole, beside others."""
    card, beside = _gpu(rng), _cpu(rng, "side")
    pools = [Pool("cpu", _cpu(rng), _cap(rng)), Pool("gpu", card, serves=False), Pool("side", beside)]
    parts = {"gpu": rng.choice((1, 4)), "side": rng.choice((1, 4))}
    price = round(parts["gpu"] * card.price_per_hour + parts["side"] * beside.price_per_hour, 3)
    return Hardware(tuple(pools), products=(Product("shelf", parts, price, cap=rng.choice((1, 4, 16))),))


def _racked(rng):
    """Pools that share the cores of a Host."""
    cores = rng.choice((4, 16, 64))
    host = Host("rack", cores, 512e9, 2e11)
    pools = [Pool("cpu", _cpu(rng), rng.choice((2, 8)), "rack")]
    if rng.random() < 0.5:
        pools.append(Pool("more", _cpu(rng, "other box"), rng.choice((2, 8)), "rack"))
    if rng.random() < 0.6:
        pools.append(Pool("gpu", _gpu(rng), rng.choice((1, 4)), "rack", serves=False))
    return Hardware(tuple(pools), hosts=(host,))
