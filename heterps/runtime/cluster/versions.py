"""Versions that must agree between the client and every worker."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata

from heterps.errors import ClusterError
from heterps.version import __version__

__all__ = ["check_versions", "report_versions"]


def report_versions() -> dict[str, str]:
    """Return the versions of this process that decide whether it computes the same and can talk to the others."""
    return {
        "heterps": __version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{package: metadata.version(package) for package in ("numpy", "distributed")},
    }


def check_versions(mine: Mapping[str, str], theirs: Mapping[str, Mapping[str, str]]) -> None:
    """Raise a ClusterError that names every worker and package with another version than the client's.

    Parameters
    ----------
    mine
        The client's versions by package.
    theirs
        The same for each worker, by its name.
    """
    differing = [
        f"- worker {worker} has {package} {found.get(package, 'missing')}, this process {version}"
        for worker, found in sorted(theirs.items())
        for package, version in mine.items()
        if found.get(package) != version
    ]
    if differing:
        raise ClusterError("versions differ; install the same everywhere:\n" + "\n".join(differing))
