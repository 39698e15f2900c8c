"""What a run does, as pure code: no Dask, no clock, no thread, no I/O. docs/protocol.md tells the whole story."""

from heterps.protocol.client.credits import Credits
from heterps.protocol.client.state import ClientState
from heterps.protocol.host.state import HostState
from heterps.protocol.host.window import Window
from heterps.protocol.run.spec import Phase, RunSpec
from heterps.protocol.run.state import RunState
from heterps.protocol.words.cut import Cut
from heterps.protocol.words.events import *  # noqa: F403
from heterps.protocol.words.events import __all__ as _events
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.layout import Layout, deal_shards, owned_by
from heterps.protocol.words.modes import Async, Cached, Geo, Mixed, MixedSync, Mode, Sync, mode_from_json

__all__ = [
    "Async",
    "BatchKey",
    "Cached",
    "ClientState",
    "Credits",
    "Cut",
    "Geo",
    "HostState",
    "Layout",
    "Mixed",
    "MixedSync",
    "Mode",
    "Phase",
    "RunSpec",
    "RunState",
    "Sync",
    "Window",
    "deal_shards",
    "mode_from_json",
    "owned_by",
]
__all__ += _events
