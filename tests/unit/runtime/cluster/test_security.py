import pathlib
import ssl
import stat
import sys

import dask
import pytest

from heterps.errors import ClusterError
from heterps.runtime.cluster.certificates import ROLES, make_certificates, open_certificates
from heterps.runtime.cluster.security import listening_host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_accepted(host: str) -> None:
    listening_host(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "10.0.0.5", "[::]", "::", "8.8.8.8", "::ffff:10.0.0.5", "fd00::5"])
def test_an_open_address_needs_tls(host: str) -> None:
    with pytest.raises(ClusterError, match="without TLS anyone"):
        listening_host(host)
    assert listening_host(host, tls=True).scheme == ""
    with dask.config.set({"heterps.network.trusted": True}):
        listening_host(host)


@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws", "wss", "inproc"])
@pytest.mark.parametrize("tls", [False, True])
def test_a_scheme_is_not_believed(scheme: str, tls: bool) -> None:
    with pytest.raises(ClusterError, match=f"without {scheme}://; --tls turns on TLS"):
        listening_host(f"{scheme}://0.0.0.0", tls=tls)


def test_a_port_has_an_option_of_its_own() -> None:
    with pytest.raises(ClusterError, match="--port says which"):
        listening_host("127.0.0.1:8786")


def test_a_name_nobody_knows_is_an_error() -> None:
    with pytest.raises(ClusterError, match=r"'no-such-host\.invalid' cannot be found"):
        listening_host("no-such-host.invalid")


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
