"""A certificate authority in memory; the only importer of the optional ``cryptography`` package."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

__all__ = ["Authority"]


class Authority:
    """Issues certificates that are valid for some days; its key never leaves this object."""

    def __init__(self, days: int) -> None:
        self._days = days
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("heterps cluster")
        root = self._unsigned(self._name, self._key)
        root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate: bytes = root.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def issue(self, name: str, hosts: Sequence[str]) -> tuple[bytes, bytes]:
        """Return a certificate that names ``hosts`` and its private key, both as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = self._unsigned(_name(name), key)
        leaf = leaf.add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        pem = leaf.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        return pem, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def _unsigned(self, subject: Any, key: Any) -> Any:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        # An hour back: the clocks of a cluster's machines differ.
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
        return builder.not_valid_after(now + datetime.timedelta(days=self._days))


def _name(text: str) -> Any:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
