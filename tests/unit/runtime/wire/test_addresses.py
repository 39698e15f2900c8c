import ipaddress
import string

import pytest
from hypothesis import example, given, strategies as st

from heterps.errors import ClusterError
from heterps.runtime.cluster.security import is_loopback, listening_host
from heterps.runtime.wire.addresses import Endpoint, parse_address

schemes = st.sampled_from(["", "tcp", "tls", "ws", "wss"])
labels = st.from_regex(r"[a-z_]([a-z0-9_-]{0,8}[a-z0-9])?", fullmatch=True).filter(lambda label: label != "0x")
names = st.lists(labels, min_size=1, max_size=4).map(".".join)
v4 = st.ip_addresses(v=4).map(str)
v6 = st.ip_addresses(v=6).map(str)
ports = st.none() | st.integers(0, 65535)


@given(st.builds(Endpoint, schemes, names | v4 | v6 | st.just(""), ports))
def test_what_is_written_is_read_back(endpoint: Endpoint) -> None:
    assert parse_address(str(endpoint)) == endpoint


@given(v6)
def test_an_address_of_ipv6_needs_brackets_for_a_port_only(address: str) -> None:
    assert parse_address(address) == parse_address(f"[{address}]")
    assert parse_address(f"[{address}]:1").port == 1


@given(st.text(alphabet=string.printable) | st.text(alphabet=":/[]%.0123456789abcdefx-"))
@example("tcp://tls://0.0.0.0")
@example("[::1")
@example("[::1]x")
@example("[127.0.0.1]:80")
@example("a:99999999999999999999999")
@example("a:٣")
def test_anything_else_is_an_error_of_ours_or_an_endpoint(text: str) -> None:
    try:
        endpoint = parse_address(text)
    except ClusterError as refused:
        found = refused.args[0]
    else:
        found = repr(text)
        assert parse_address(str(endpoint)) == endpoint
    assert repr(text) in found


@given(st.ip_addresses())
def test_only_loopback_numbers_are_accepted_without_tls(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    real = getattr(ip, "ipv4_mapped", None) or ip
    assert is_loopback(parse_address(str(ip))) == real.is_loopback
    if not real.is_loopback:
        with pytest.raises(ClusterError, match="without TLS anyone"):
            listening_host(str(ip))


@pytest.mark.parametrize("host", ["0", "127.1", "010.0.0.1", "2130706433", "0x7f000001", "1.2.3.4.5", "host.0x1"])
def test_numbers_that_only_the_c_library_reads_are_refused(host: str) -> None:
    with pytest.raises(ClusterError, match="neither a host's name nor an address"):
        parse_address(host)


def test_every_interface_has_several_names() -> None:
    everywhere = ["", "tcp://", ":8786", "0.0.0.0", "::", "tls://[::]:80", "::ffff:0.0.0.0"]
    assert all(parse_address(text).is_everywhere for text in everywhere)
    assert not any(parse_address(text).is_everywhere for text in ["inproc://", "::1", "localhost", "10.0.0.5"])


def test_what_is_refused_is_named() -> None:
    for text, words in {
        "http://10.0.0.1": "'http' is no scheme",
        "127.0.0.1:x": "'x' is no port number",
        "127.0.0.1:65536": "'65536' is no port number",
        "fe80::1%eth0": "IPv6 addresses of one link",
        "10.0.0.1:80:80": "is no IPv6 address",
    }.items():
        with pytest.raises(ClusterError, match=words):
            parse_address(text)


def test_a_process_has_no_host() -> None:
    inside = parse_address("inproc://192.0.2.2/123/4")
    assert inside.is_local
    assert is_loopback(inside)
    assert str(inside) == "inproc://192.0.2.2/123/4"
