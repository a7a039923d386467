"""Whom a proxy speaks for: only trusted ones are believed."""

import ipaddress

import pytest

from goqueue.gateways import TrustedProxies

PROXIES = TrustedProxies(
    (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("2001:db8:1::/48"))
)


def client(header: str, address: str = "10.0.0.1") -> str:
    return PROXIES.client_of(address, {b"x-forwarded-for": header.encode("latin-1")})


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:5123", "192.0.2.7"),
        ("[2001:db8:2::7]:443", "2001:db8:2::7"),
        ("2001:DB8:2:0::7", "2001:db8:2::7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        # What the client itself wrote stands left of what the proxy saw.
        ("198.51.100.1, 192.0.2.7", "192.0.2.7"),
        ("198.51.100.1,192.0.2.7, 10.0.0.2", "192.0.2.7"),
        ("10.9.9.9, 10.0.0.2", "10.9.9.9"),
        ("192.0.2.7, nonsense", "10.0.0.1"),
        ("192.0.2.7, nonsense, 10.0.0.2", "10.0.0.2"),
        ("", "10.0.0.1"),
        (",", "10.0.0.1"),
        ("\xff", "10.0.0.1"),
    ],
)
def test_the_first_address_from_the_right_that_is_no_proxy_is_the_client(
    header: str, found: str
) -> None:
    assert client(header) == found


def test_two_proxies_in_a_row_show_the_client_in_front_of_both() -> None:
    """The outer proxy names the client, the inner one names the outer one."""
    inner, outer, guest = "10.0.0.1", "2001:db8:1::7", "192.0.2.7"
    assert client(f"{guest}, {outer}", address=inner) == guest
    assert client(f"{guest}, {inner}", address=outer) == guest
    # A client that writes addresses of proxies itself is seen where the outer proxy saw it.
    assert client(f"127.0.0.1, {inner}, {guest}, {outer}", address=inner) == guest
    # An outer proxy that is not listed is the client, whatever it says of others.
    assert client(f"{guest}, 198.51.100.9", address=inner) == "198.51.100.9"


def test_nobody_else_is_believed() -> None:
    assert client("192.0.2.7", address="192.0.2.1") == "192.0.2.1"
    assert client("192.0.2.7", address="") == ""
    header = {b"x-forwarded-for": b"192.0.2.7"}
    assert TrustedProxies().client_of("10.0.0.1", header) == "10.0.0.1"


def test_at_most_32_hops_are_followed() -> None:
    assert client(", ".join(["192.0.2.7", *["10.0.0.2"] * 31])) == "192.0.2.7"
    assert client(", ".join(["192.0.2.7", *["10.0.0.2"] * 32])) == "10.0.0.2"
    assert client("10.0.0.2," * 20_000) == "10.0.0.1"
