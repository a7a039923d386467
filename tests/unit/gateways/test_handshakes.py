"""Which handshake may begin: bounds, turns, and what happens when there is no room."""

import random
import socket
from collections import Counter
from typing import cast

import pytest

from goqueue.gateways.handshakes import HandshakeLimits, HandshakeQueue, WaitingSocket

LIMITS = HandshakeLimits(
    handshakes_max=4,
    handshakes_per_address_max=2,
    starts_per_s_max=10,
    starts_burst_max=4,
    waiting_max=6,
)


NOT_TOUCHED = cast(socket.socket, None)


def begin(*_: object) -> None:
    """Stands for a listener."""


def other(*_: object) -> None:
    """Another listener."""


def put(queue: HandshakeQueue, *addresses: str) -> list[str]:
    """Let sockets wait; the addresses of those that had to leave."""
    left = [queue.put(WaitingSocket(NOT_TOUCHED, each, begin)) for each in addresses]
    return [each.address for each in left if each is not None]


def started(queue: HandshakeQueue, now: float = 1000.0) -> list[str]:
    found: list[str] = []
    while (each := queue.start(now)) is not None:
        found.append(each.address)
    return found


def test_addresses_take_turns_and_have_a_bound_each() -> None:
    queue = HandshakeQueue(LIMITS)
    put(queue, "a", "a", "a", "b", "c")
    assert started(queue) == ["a", "b", "c", "a"]
    queue.end("b")
    assert started(queue, 1001.0) == [], "a has as many as one address may"
    queue.end("a")
    assert started(queue, 1001.0) == ["a"]


def test_all_together_have_a_bound() -> None:
    queue = HandshakeQueue(LIMITS)
    put(queue, "a", "b", "c", "d", "e")
    assert started(queue) == ["a", "b", "c", "d"]
    assert not queue.waits_for_time
    queue.end("c")
    assert started(queue, 1001.0) == ["e"]
    assert (queue.running_count, queue.waiting_count) == (4, 0)


def test_no_more_begin_in_a_second_than_allowed() -> None:
    queue = HandshakeQueue(LIMITS)
    now, begun = 1000.0, 0
    while now < 1010.0:
        put(queue, f"address-{begun % 3}")
        for address in started(queue, now):
            begun += 1
            queue.end(address)
        now += 0.01
    # Ten a second, and a burst.
    assert 100 <= begun <= 100 + LIMITS.starts_burst_max


def test_after_a_burst_the_next_start_waits_for_its_time() -> None:
    queue = HandshakeQueue(LIMITS)
    put(queue, *"abcdef")
    assert len(started(queue)) == 4
    queue.end("a")
    assert started(queue) == []
    assert queue.waits_for_time
    delay_s = queue.delay_s(1000.0)
    assert 0 < delay_s <= 0.11
    assert started(queue, 1000.0 + delay_s) == ["e"]


def test_one_that_did_not_begin_costs_no_start() -> None:
    queue = HandshakeQueue(LIMITS)
    put(queue, *"abcdef")
    assert started(queue) == ["a", "b", "c", "d"]
    queue.cancel("a")
    assert started(queue) == ["e"]


def test_in_a_full_room_a_flood_gives_way_to_others_and_not_the_other_way_round() -> None:
    queue = HandshakeQueue(LIMITS)
    assert put(queue, *["flood"] * 6) == []
    assert queue.is_full
    assert put(queue, "flood") == ["flood"]
    assert put(queue, "friend") == ["flood"]
    assert put(queue, "flood") == ["flood"]
    assert put(queue, "second", "third") == ["flood", "flood"]
    assert not queue.is_saturated
    assert queue.waiting_count == 6


def test_when_everybody_waits_with_one_socket_the_room_is_saturated() -> None:
    queue = HandshakeQueue(LIMITS)
    assert put(queue, *"abcdef") == []
    assert queue.is_saturated
    assert put(queue, "g") == ["g"]


def test_a_listener_that_stops_takes_its_own_sockets_out() -> None:
    queue = HandshakeQueue(LIMITS)
    put(queue, "a", "b")
    queue.put(WaitingSocket(NOT_TOUCHED, "a", other))
    assert [each.address for each in queue.drop(begin)] == ["a", "b"]
    assert queue.waiting_count == 1
    assert started(queue) == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_no_socket_is_lost_and_no_bound_is_broken(seed: int) -> None:
    chance = random.Random(seed)
    queue = HandshakeQueue(LIMITS)
    now, inside = 1000.0, 0
    running: list[str] = []
    for _ in range(2000):
        step = chance.random()
        now += chance.random() / 20
        if step < 0.5:
            inside += 1 - len(put(queue, chance.choice("aaaabcdefgh")))
        elif step < 0.8:
            running += started(queue, now)
        elif running:
            queue.end(running.pop(chance.randrange(len(running))))
            inside -= 1
        assert queue.waiting_count + queue.running_count == inside
        assert queue.running_count == len(running) <= LIMITS.handshakes_max
        assert queue.waiting_count <= LIMITS.waiting_max
        assert max(Counter(running).values(), default=0) <= LIMITS.handshakes_per_address_max
