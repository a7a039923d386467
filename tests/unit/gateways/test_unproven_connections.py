"""Connections without a key: bounded, and the oldest leave first."""

import pytest

from goqueue.gateways import Capacity, ConnectionLimits
from goqueue.gateways.connection_limits import UnprovenConnections
from goqueue.gateways.http import HttpLimits
from tests.unit.gateways.loopback import LOOPS, get, run, serving
from tests.unit.gateways.test_http_guard import guard


class Client:
    def cut(self) -> None:
        """Nothing to do."""


def bounded(everybody: int = 4, one: int = 2) -> UnprovenConnections:
    limits = ConnectionLimits(unproven_max=everybody, unproven_per_address_max=one)
    return Capacity(limits, is_proxy=lambda address: address == "10.0.0.9").unproven


def test_the_oldest_of_an_address_leaves_for_one_too_many() -> None:
    unproven, clients = bounded(), [Client() for _ in range(4)]
    assert [unproven.add(each, "10.0.0.1") for each in clients[:2]] == [None, None]
    assert unproven.add(clients[2], "10.0.0.1") is clients[0]
    assert unproven.add(clients[3], "10.0.0.2") is None
    assert len(unproven) == 3


def test_the_oldest_of_all_leaves_when_there_are_too_many() -> None:
    unproven, clients = bounded(), [Client() for _ in range(5)]
    left = [unproven.add(each, f"10.0.0.{number}") for number, each in enumerate(clients)]
    assert left == [None, None, None, None, clients[0]]
    assert len(unproven) == 4


@pytest.mark.parametrize("shared", ["127.0.0.1", "::1", "10.0.0.9"])
def test_proxies_and_this_machine_have_no_bound_of_their_own(shared: str) -> None:
    unproven, clients = bounded(), [Client() for _ in range(5)]
    left = [unproven.add(each, shared) for each in clients]
    assert left == [None, None, None, None, clients[0]]


def test_what_was_proved_is_counted_no_more() -> None:
    unproven, clients = bounded(), [Client() for _ in range(3)]
    for each in clients:
        unproven.add(each, "10.0.0.1")
        unproven.remove(each)
        unproven.remove(each)
    assert len(unproven) == 0


# On the wire


@pytest.mark.parametrize("loop", LOOPS)
def test_silent_connections_give_way_to_new_ones_and_proved_ones_stay(loop: str) -> None:
    async def main() -> None:
        async with serving(together=ConnectionLimits(unproven_max=3)) as served:
            guard(served)
            proved = await served.open()
            assert (await proved.ask(get("/", "X-API-Key: right"))).status == 200
            silent = [await served.open() for _ in range(3)]
            await served.wait_for(lambda: len(served.server.capacity.unproven) == 3)
            late = await served.open()
            assert await silent[0].rest() == b"", "the oldest has to leave"
            assert (await late.ask(get("/", "X-API-Key: right"))).status == 200
            assert (await silent[1].ask(get("/", "X-API-Key: probe"))).status == 200
            assert (await proved.ask(get("/", "X-API-Key: right"))).status == 200
            assert len(served.server.capacity.unproven) == 2, "a probe has no key"

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("opening", [b"", b"GET / HTT"])
def test_a_connection_that_sends_no_request_soon_is_closed(opening: bytes, loop: str) -> None:
    limits = HttpLimits(head_timeout_s=0.2, idle_timeout_s=3600, linger_timeout_s=0.05)

    async def main() -> None:
        async with serving(limits) as served:
            guard(served)
            wire, patient = await served.open(), await served.open()
            assert (await patient.ask(get("/", "X-API-Key: probe"))).status == 200
            await wire.send(opening)
            await wire.rest()
            await served.wait_for(lambda: len(served.server.capacity.unproven) == 1)
            assert (await patient.ask(get("/", "X-API-Key: probe"))).status == 200

    run(main(), loop)


def test_without_keys_nobody_has_to_leave() -> None:
    limits = HttpLimits(head_timeout_s=0.05)

    async def main() -> None:
        async with serving(limits, ConnectionLimits(unproven_max=1)) as served:
            wires = [await served.open() for _ in range(3)]
            await served.wait_for_connections(3)
            for wire in wires:
                assert (await wire.ask(get())).status == 200

    run(main())
