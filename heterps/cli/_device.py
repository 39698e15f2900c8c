"""Options that say what to compute on, the same for every command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["device_options"]

_F = TypeVar("_F", bound=Callable[..., Any])


def device_options(command: _F) -> _F:
    """Add ``--device`` and ``--emulate``."""
    emulate = click.option("--emulate", is_flag=True, help="Let NumPy stand in for a GPU that cannot be used.")
    device = click.option(
        "--device", default="auto", show_default=True, help="auto, cpu, gpu:0 or a registered device."
    )
    return device(emulate(command))
