"""Training day after day on what arrives: predicted first, then trained on, and gone on with exactly after a crash."""

from heterps.streaming.alarm import Alarm
from heterps.streaming.appended import AppendedFiles
from heterps.streaming.entry import stream
from heterps.streaming.folders import FolderSource
from heterps.streaming.pass_log import read_log
from heterps.streaming.pass_plot import draw_passes
from heterps.streaming.pass_report import PassReport
from heterps.streaming.portion import Nothing, Portion, StreamSource
from heterps.streaming.redis_stream import RedisStream

__all__ = [
    "Alarm",
    "AppendedFiles",
    "FolderSource",
    "Nothing",
    "PassReport",
    "Portion",
    "RedisStream",
    "StreamSource",
    "draw_passes",
    "read_log",
    "stream",
]
