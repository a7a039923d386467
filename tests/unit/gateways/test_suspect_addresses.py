"""Addresses that failed to prove a key: their next connections wait for a turn."""

import asyncio

import pytest

from goqueue.gateways import Capacity, HandshakeLimits
from goqueue.gateways.connection_limits import SuspectAddresses
from tests.unit.gateways.loopback import LOOPS, get, run, serving
from tests.unit.gateways.test_http_guard import guard


def test_an_address_is_suspect_for_ten_seconds_after_its_last_failure() -> None:
    suspects = SuspectAddresses(lambda _: False)
    assert not suspects.includes("10.0.0.1", 0.0)
    suspects.add("10.0.0.1", 0.0)
    suspects.add("10.0.0.1", 5.0)
    assert suspects.includes("10.0.0.1", 14.9)
    assert not suspects.includes("10.0.0.2", 14.9)
    assert not suspects.includes("10.0.0.1", 15.0)
    assert len(suspects) == 0


def test_addresses_that_one_client_can_choose_are_suspect_together() -> None:
    suspects = SuspectAddresses(lambda _: False)
    suspects.add("2001:db8::1", 0.0)
    assert suspects.includes("2001:db8::ffff", 1.0)
    assert not suspects.includes("2001:db8:0:1::1", 1.0)


def test_a_trusted_proxy_is_never_suspect() -> None:
    suspects = Capacity(is_proxy=lambda address: address == "10.0.0.9").suspects
    suspects.add("10.0.0.9", 0.0)
    assert not suspects.includes("10.0.0.9", 1.0)


def test_not_more_addresses_are_remembered_than_the_limit() -> None:
    suspects = SuspectAddresses(lambda _: False)
    for number in range(10_001):
        suspects.add(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert len(suspects) == 10_000
    assert not suspects.includes("10.0.0.0", 1.0)


@pytest.mark.parametrize("loop", LOOPS)
def test_connections_of_a_suspect_are_started_at_a_bounded_rate(loop: str) -> None:
    limits = HandshakeLimits(starts_per_s_max=1, starts_burst_max=2, waiting_max=3)

    async def main() -> None:
        async with serving(handshakes=limits) as served:
            guard(served)
            first = await served.open()
            await first.send(get("/", "X-API-Key: wrong"))
            await served.wait_for(lambda: len(served.server.capacity.suspects) == 1)
            wires = [await served.open() for _ in range(8)]
            for wire in wires:
                await wire.send(get("/", "X-API-Key: right"))
            # Two are started at once, three wait, and the rest has to leave.
            assert [(await wire.reply()).status for wire in wires[:2]] == [200, 200]
            assert served.server.capacity.handshakes.waiting_count <= 3
            left = await asyncio.gather(*(wire.rest() for wire in wires[5:]))
            assert left == [b""] * 3
            assert (await wires[2].reply()).status == 200, "who waits is served in its turn"

    run(main(), loop)
