import pathlib
import ssl
import stat
import sys

import dask
import pytest
from distributed import Security

from heterps.errors import ClusterError
from heterps.runtime.cluster.certificates import ROLES, make_certificates, open_certificates
from heterps.runtime.cluster.security import check_address, split_address, tls_contexts


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "tcp://127.8.8.8:80", "localhost:8786", "[::1]:80", "::1", "inproc://x"]
)
def test_loopback_is_accepted(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "", ":8786", "tcp://10.0.0.5:8786", "[::]:80", "::", "tcp://8.8.8.8"])
def test_an_open_address_needs_tls(address: str) -> None:
    with pytest.raises(ClusterError, match="without TLS anyone"):
        check_address(address)
    check_address(address, tls=True)
    with dask.config.set({"heterps.network.trusted": True}):
        check_address(address)


def test_the_scheme_says_tls_too() -> None:
    check_address("tls://10.0.0.5:8786")


def test_a_name_nobody_knows_is_an_error() -> None:
    with pytest.raises(ClusterError, match=r"'no-such-host\.invalid' cannot be found"):
        check_address("no-such-host.invalid:1")


def test_a_wrong_port_is_an_error() -> None:
    with pytest.raises(ClusterError, match="'x' is no port number"):
        split_address("tcp://127.0.0.1:x")


def test_certificates_are_private_and_fit_each_other(tmp_path: pathlib.Path) -> None:
    made = make_certificates(tmp_path / "certs", ["10.0.0.5", "trainer.example"])
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    assert made.missing() == ()
    for role in ROLES:
        assert stat.S_IMODE(made.key(role).stat().st_mode) == 0o600
        context = ssl.create_default_context(cafile=str(made.ca))
        context.load_cert_chain(made.certificate(role), made.key(role))
    assert not any("ca-key" in path.name for path in made.folder.iterdir())


def test_certificates_are_kept_when_they_are_there(tmp_path: pathlib.Path) -> None:
    first = open_certificates(tmp_path, ["10.0.0.5"]).ca.read_bytes()
    again = open_certificates(tmp_path, ["10.0.0.6"])
    assert again.ca.read_bytes() == first
    again.key("worker").unlink()
    with pytest.raises(ClusterError, match=r"worker-key\.pem is missing"):
        open_certificates(tmp_path, [])


def test_without_the_cryptography_package_the_remedy_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "heterps.runtime.cluster.authority", None)
    with pytest.raises(ClusterError, match=r"pip install 'heterps\[tls\]'"):
        make_certificates(tmp_path, [])


def test_contexts_for_sockets_of_our_own(tmp_path: pathlib.Path) -> None:
    assert tls_contexts(Security()) == (None, None)
    made = make_certificates(tmp_path, ["127.0.0.1"])
    files = {"tls_worker_cert": str(made.certificate("worker")), "tls_worker_key": str(made.key("worker"))}
    listening, connecting = tls_contexts(Security(tls_ca_file=str(made.ca), require_encryption=True, **files))
    assert listening is not None
    assert connecting is not None
    assert listening.verify_mode == connecting.verify_mode == ssl.CERT_REQUIRED
