"""Certificates for a cluster of one's own: one authority, a certificate per role, keys that only the owner can read."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from heterps.errors import ClusterError

__all__ = ["ROLES", "Certificates", "make_certificates", "open_certificates"]

ROLES = ("scheduler", "worker", "client")


@dataclass(frozen=True)
class Certificates:
    """A folder with ``ca.pem`` and, for each role, ``<role>.pem`` and ``<role>-key.pem``."""

    folder: pathlib.Path

    @property
    def ca(self) -> pathlib.Path:
        """The authority's certificate, against which everyone checks everyone."""
        return self.folder / "ca.pem"

    def certificate(self, role: str) -> pathlib.Path:
        """Certificate of a role."""
        return self.folder / f"{role}.pem"

    def key(self, role: str) -> pathlib.Path:
        """Private key of a role."""
        return self.folder / f"{role}-key.pem"

    def options(self, role: str) -> list[str]:
        """Arguments of ``dask scheduler`` and ``dask worker``."""
        files = {"ca-file": self.ca, "cert": self.certificate(role), "key": self.key(role)}
        return [word for name, path in files.items() for word in (f"--tls-{name}", str(path))]

    def environment(self, role: str = "client") -> dict[str, str]:
        """Dask config as environment variables: a plain ``Client()`` then connects with TLS and no other way."""
        section, tls = role.upper(), "DASK_DISTRIBUTED__COMM__TLS__"
        return {
            f"{tls}CA_FILE": str(self.ca),
            f"{tls}{section}__CERT": str(self.certificate(role)),
            f"{tls}{section}__KEY": str(self.key(role)),
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
        }

    def missing(self) -> tuple[pathlib.Path, ...]:
        """Files that are not there."""
        files = [self.ca, *(f(role) for role in ROLES for f in (self.certificate, self.key))]
        return tuple(path for path in files if not path.exists())


def make_certificates(folder: str | os.PathLike[str], hosts: Sequence[str], days: int = 365) -> Certificates:
    """Write certificates that name ``hosts``.

    The authority's key is thrown away: nobody, including a thief of this folder, can issue further certificates.
    """
    try:
        from heterps.runtime.cluster.authority import Authority
    except ImportError as error:
        raise ClusterError("TLS certificates need the cryptography package: pip install 'heterps[tls]'") from error
    made, authority = Certificates(pathlib.Path(folder).absolute()), Authority(days)
    made.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(made.ca, authority.certificate, 0o644)
    for role in ROLES:
        certificate, key = authority.issue(f"heterps {role}", hosts)
        _write(made.certificate(role), certificate, 0o644)
        _write(made.key(role), key, 0o600)
    return made


def open_certificates(folder: str | os.PathLike[str], hosts: Sequence[str]) -> Certificates:
    """Return the certificates of a folder, made now if it has none; so a second start fits the first one's machines."""
    found = Certificates(pathlib.Path(folder).absolute())
    missing = found.missing()
    if not missing:
        return found
    if found.ca.exists():
        raise ClusterError(
            f"{missing[0]} is missing beside {found.ca}; copy the whole folder or remove it to start anew"
        )
    return make_certificates(folder, hosts)


def _write(path: pathlib.Path, content: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
