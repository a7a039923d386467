"""Which link counts: the same one on both ends, and never one of an older life."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster import BROKERS_MAX, LinkRefused, Offer, PeerRegistry
from goqueue.model import PeerIdentity, PeerLane

CONTROL, REPLICATION = PeerLane.CONTROL, PeerLane.REPLICATION


def offer(
    broker: str,
    number: int = 1,
    *,
    is_dialled: bool = False,
    incarnation: int = 1,
    directory: str = "d",
    lane: PeerLane = CONTROL,
) -> Offer:
    peer = PeerIdentity(broker=broker, directory=directory, incarnation=incarnation, address="a:1")
    return Offer(peer=peer, lane=lane, number=number, is_dialled=is_dialled)


def reason_of(registry: PeerRegistry[str], offered: Offer) -> str | None:
    try:
        registry.judge(offered)
    except LinkRefused as refused:
        return refused.reason
    return None


def test_a_higher_incarnation_ends_the_links_of_the_lower_one_on_every_lane() -> None:
    registry = PeerRegistry[str]("b")
    registry.add(offer("a"), "old control")
    registry.add(offer("a", lane=REPLICATION), "old replication")

    newer = offer("a", incarnation=2)
    assert reason_of(registry, newer) is None
    assert registry.add(newer, "new") == ["old control", "old replication"]
    assert registry.find("a", REPLICATION) is None


def test_a_lower_incarnation_is_refused_also_after_the_higher_one_has_gone() -> None:
    registry = PeerRegistry[str]("b")
    newer = offer("a", incarnation=2)
    registry.add(newer, "new")
    assert registry.remove(newer, "new")

    assert reason_of(registry, offer("a", number=99)) == "incarnation_stale"
    assert reason_of(registry, offer("a", number=99, is_dialled=True)) == "incarnation_stale"


def test_a_recorded_hello_is_refused_when_it_is_sent_again() -> None:
    registry = PeerRegistry[str]("b")
    first = offer("a", 7)
    registry.add(first, "first")
    assert reason_of(registry, first) == "replayed"
    registry.remove(first, "first")
    assert reason_of(registry, first) == "replayed"
    assert reason_of(registry, offer("a", 8)) is None


def test_a_broker_that_dials_anew_replaces_the_link_that_it_gave_up() -> None:
    registry = PeerRegistry[str]("b")
    registry.add(offer("a", 7), "first")
    assert reason_of(registry, offer("a", 8)) is None
    assert registry.add(offer("a", 8), "second") == ["first"]
    assert not registry.remove(offer("a", 7), "first")
    assert registry.find("a", CONTROL) == "second"


def test_a_second_address_of_a_broker_opens_no_second_link() -> None:
    registry = PeerRegistry[str]("b")
    registry.add(offer("a", is_dialled=True), "first")
    assert reason_of(registry, offer("a", 2, is_dialled=True)) == "duplicate"


@pytest.mark.parametrize(("own", "other"), [("a", "b"), ("b", "a")])
def test_of_two_links_that_crossed_the_one_of_the_smaller_id_stays(own: str, other: str) -> None:
    registry = PeerRegistry[str](own)
    registry.add(offer(other, is_dialled=True), "dialled")
    accepted = reason_of(registry, offer(other))
    assert accepted == ("duplicate" if own == "a" else None)

    registry = PeerRegistry[str](own)
    registry.add(offer(other), "accepted")
    dialled = reason_of(registry, offer(other, is_dialled=True))
    assert dialled == (None if own == "a" else "duplicate")


def test_another_directory_with_the_id_of_a_connected_broker_is_refused() -> None:
    registry = PeerRegistry[str]("b")
    present = offer("a", lane=REPLICATION)
    registry.add(present, "first")
    impostor = offer("a", incarnation=99, directory="another")
    assert reason_of(registry, impostor) == "broker_id_taken"
    registry.remove(present, "first")
    assert reason_of(registry, impostor) is None


def test_the_number_of_brokers_is_bounded() -> None:
    registry = PeerRegistry[str]("own")
    for number in range(BROKERS_MAX):
        registry.add(offer(f"b{number}"), "link")
    assert reason_of(registry, offer("one-more")) == "too_many_brokers"


def test_brokers_that_come_and_go_are_forgotten_but_never_a_connected_one() -> None:
    registry = PeerRegistry[str]("own")
    stays = offer("stays", incarnation=5)
    registry.add(stays, "link")
    for number in range(10 * BROKERS_MAX):
        passing = offer(f"b{number}")
        assert reason_of(registry, passing) is None
        registry.add(passing, "link")
        registry.remove(passing, "link")
    assert reason_of(registry, offer("stays", incarnation=4)) == "incarnation_stale"


class _End:
    """One of two brokers, with its registry and the sockets that it believes in."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.registry = PeerRegistry[int](broker)

    def open(self, other: "_End", socket: int, *, is_dialled: bool, closed: set[int]) -> None:
        offered = offer(other.broker, socket, is_dialled=is_dialled)
        try:
            self.registry.judge(offered)
        except LinkRefused:
            closed.add(socket)
            return
        for ended in self.registry.add(offered, socket):
            closed.add(ended)


@given(st.lists(st.integers(0, 3), max_size=30))
def test_both_ends_keep_the_same_link_in_whatever_order_dials_and_confirmations_cross(
    steps: list[int],
) -> None:
    """Each end dials when it has no link; a dial is confirmed at the other end later, or lost."""
    ends = (_End("a"), _End("b"))
    closed: set[int] = set()
    # Confirmations on their way: the socket and who dialled it.
    crossing: list[tuple[int, int]] = []
    number = 0
    for step in [*steps, 2, 2, 2, 2, 0, 2, 1, 2]:
        for end, other in (ends, ends[::-1]):
            # A closed socket ends at both sides, sooner or later.
            for found in [link for _, link in end.registry.links() if link in closed]:
                for present, _ in end.registry.links():
                    end.registry.remove(present, found)
            assert other is not end
        if step < 2 and ends[step].registry.find(ends[1 - step].broker, CONTROL) is None:
            number += 1
            ends[step].open(ends[1 - step], number, is_dialled=True, closed=closed)
            crossing.append((number, step))
        elif step >= 2 and crossing:
            socket, dialler = crossing.pop(0 if step == 2 else -1)
            if socket not in closed:
                ends[1 - dialler].open(ends[dialler], socket, is_dialled=False, closed=closed)
    alive = [{link for _, link in end.registry.links() if link not in closed} for end in ends]
    assert not crossing or alive
    if not crossing:
        assert alive[0] == alive[1]
