"""Training where every byte between processes is encrypted, and who is not let in."""

import json

import pytest

from tests.cluster.conftest import Launched
from tests.cluster.faults import SCRIPT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

_STRANGERS = """
import socket, ssl
from dataclasses import replace
from heterps.runtime.wire.peer import PeerLost, SocketPeer

def refused(address, tls=None):
    try:
        SocketPeer(address, timeout_s=5, tls=tls).call("dense", known=None)
    except PeerLost:
        return True
    return False

def look(session, client):
    (address,) = session.engine.host_addresses()
    known = client.security.get_connection_args("client")["ssl_context"]
    stranger = ssl.create_default_context(cafile=client.security.tls_ca_file)
    stranger.check_hostname = False
    return {
        "encrypted": address.tls,
        "known": not refused(address, known),
        "no certificate": refused(address, stranger),
        "no encryption": refused(replace(address, tls=False)),
        "no token": refused(replace(address, token="guess"), known),
    }
"""


def test_services_speak_tls_and_refuse_strangers(launched: Launched) -> None:
    (launched.folder / "strangers.py").write_text(_STRANGERS)
    train = SCRIPT.replace('"twice": last.run_twice', '"looked": look(session, client)')
    assert train != SCRIPT
    words = "import sys; sys.argv = ['script', 'sync', 'none', '{\"staged\": true}']\nfrom strangers import look\n"
    launched.environment["DASK_HETERPS__NETWORK__UNIX_SOCKETS"] = "false"  # one machine stands for several here
    code, out, err = launched.run(words + train, "--tls", "--servers", "1", "--io", "2", "--compute", "2")
    assert code == 0, f"{out}\n{err}"
    result = json.loads((launched.folder / "result.json").read_text())
    expected = result.pop("expected")
    assert result.pop("looked") == dict.fromkeys(
        ["encrypted", "known", "no certificate", "no encryption", "no token"], True
    )
    assert {name: result[name] for name in expected} == expected
