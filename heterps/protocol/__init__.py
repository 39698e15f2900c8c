"""What a run does, as pure code: no Dask, no clock, no thread, no I/O. docs/protocol.md tells the whole story."""

from heterps.protocol.client import ClientState
from heterps.protocol.credits import Credits
from heterps.protocol.cut import Cut
from heterps.protocol.events import *  # noqa: F403
from heterps.protocol.events import __all__ as _events
from heterps.protocol.host import HostState
from heterps.protocol.keys import BatchKey
from heterps.protocol.layout import Layout, deal_shards
from heterps.protocol.modes import Async, Geo, Mode, Sync, mode_from_json
from heterps.protocol.run import RunState
from heterps.protocol.spec import Phase, RunSpec
from heterps.protocol.window import Window

__all__ = [
    "Async",
    "BatchKey",
    "ClientState",
    "Credits",
    "Cut",
    "Geo",
    "HostState",
    "Layout",
    "Mode",
    "Phase",
    "RunSpec",
    "RunState",
    "Sync",
    "Window",
    "deal_shards",
    "mode_from_json",
]
__all__ += _events
