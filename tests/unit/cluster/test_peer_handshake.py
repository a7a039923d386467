"""How a link begins: both ends agree, or neither has a link."""

import itertools
from contextlib import suppress

import msgspec
import pytest

from goqueue.cluster import (
    Confirm,
    Handshake,
    HandshakeState,
    HandshakeViolated,
    Hello,
    LinkRefused,
    Offer,
    Ping,
    Refuse,
    Versions,
    Welcome,
)
from goqueue.model import Heartbeat, PeerIdentity, PeerLane, Timestamp

WALL = Timestamp(1_000)


def identity(broker: str, **changes: object) -> PeerIdentity:
    number = sum(map(ord, broker))
    basis = PeerIdentity(
        broker=broker, directory=f"{number:032x}", incarnation=1, address=f"{broker}:7000"
    )
    return msgspec.structs.replace(basis, **changes)


def accept(_: Offer) -> None:
    """Every link counts."""


def dialling(own: PeerIdentity, **options: object) -> Handshake:
    return Handshake(own, accept, lane=PeerLane.CONTROL, number=1, **options)  # type: ignore[arg-type]  # options of a test


def test_both_ends_are_open_after_hello_welcome_and_confirm_and_know_each_other() -> None:
    near, far = dialling(identity("a")), Handshake(identity("b"), accept)

    welcome = far.receive(near.begin(WALL), Timestamp(1_500))
    assert isinstance(welcome, Welcome)
    confirm = near.receive(welcome, Timestamp(1_700))
    assert isinstance(confirm, Confirm)
    assert far.receive(confirm, WALL) is None

    assert near.peer == identity("b")
    assert far.peer == identity("a")
    assert (near.clock_offset_ns, far.clock_offset_ns) == (-200, -500)


@pytest.mark.parametrize(
    ("ours", "theirs", "used"),
    [((1, 1), (1, 2), 1), ((1, 2), (1, 3), 2), ((2, 3), (1, 2), 2), ((3, 3), (1, 2), None)],
)
def test_the_highest_common_version_is_used_and_none_is_refused(
    ours: tuple[int, int], theirs: tuple[int, int], used: int | None
) -> None:
    near = dialling(identity("a"), versions=Versions(*ours))
    far = Handshake(identity("b"), accept, versions=Versions(*theirs))
    if used is None:
        with pytest.raises(LinkRefused, match="version"):
            far.receive(near.begin(WALL), WALL)
        return
    welcome = far.receive(near.begin(WALL), WALL)
    assert isinstance(welcome, Welcome)
    near.receive(welcome, WALL)
    assert near.version == far.version == used


def test_a_version_that_was_not_offered_cannot_be_chosen() -> None:
    near = dialling(identity("a"))
    with pytest.raises(LinkRefused, match="version"):
        near.receive(Welcome(version=2, identity=identity("b"), wall=WALL), WALL)
    assert near.state is HandshakeState.ENDED


@pytest.mark.parametrize(
    ("peer", "reason"),
    [
        (identity("b"), "self"),
        (identity("b", directory="f" * 32), "broker_id_taken"),
        (identity("a", cluster_id="other"), "cluster"),
        (identity("../etc"), "identity_invalid"),
        (identity("a", directory="short"), "identity_invalid"),
        (identity("a", incarnation=0), "identity_invalid"),
        (identity("a", incarnation=2**60), "identity_invalid"),
        (identity("a", address="nowhere"), "identity_invalid"),
        (identity("a", address="a:65536"), "identity_invalid"),
        (identity("a", address="a" * 64 + ":1"), "identity_invalid"),
        (identity("a", address="a..b:1"), "identity_invalid"),
        (identity("a", address="a\r\nX: y:1"), "identity_invalid"),
        (identity("a", cluster_id="x" * 65), "identity_invalid"),
        (identity("a", attempt=(("../b", "0" * 32),)), "identity_invalid"),
        (identity("a", attempt=(("b", "short"),)), "identity_invalid"),
        (identity("a", attempt=(("b", "0" * 32),) * 6), "identity_invalid"),
        (identity("a", peers=("a:1",) * 65), "identity_invalid"),
        (identity("a", client_address="x" * 300 + ":1"), "identity_invalid"),
    ],
)
def test_an_end_that_cannot_be_another_broker_of_the_cluster_is_refused(
    peer: PeerIdentity, reason: str
) -> None:
    own = identity("b", cluster_id="mine")
    hello = Hello(
        versions=Versions(1, 1), lane=PeerLane.CONTROL, number=1, identity=peer, wall=WALL
    )
    listening = Handshake(own, accept)
    with pytest.raises(LinkRefused) as refused:
        listening.receive(hello, WALL)
    assert refused.value.reason == reason
    with pytest.raises(LinkRefused) as refused:
        dialling(own).receive(Welcome(version=1, identity=peer, wall=WALL), WALL)
    assert refused.value.reason == reason


def test_a_broker_without_a_cluster_may_connect_to_one_with_a_cluster() -> None:
    far = Handshake(identity("b", cluster_id="mine"), accept)
    assert isinstance(far.receive(dialling(identity("a")).begin(WALL), WALL), Welcome)


def test_a_link_is_judged_again_when_it_is_confirmed() -> None:
    verdicts = iter([None, LinkRefused("duplicate")])

    def judge(_: Offer) -> None:
        verdict = next(verdicts)
        if verdict is not None:
            raise verdict

    far = Handshake(identity("b"), judge)
    far.receive(dialling(identity("a")).begin(WALL), WALL)
    with pytest.raises(LinkRefused, match="duplicate"):
        far.receive(Confirm(), WALL)
    assert far.peer is None


MESSAGES = (
    Hello(
        versions=Versions(1, 1),
        lane=PeerLane.CONTROL,
        number=1,
        identity=identity("a"),
        wall=WALL,
    ),
    Welcome(version=1, identity=identity("a"), wall=WALL),
    Confirm(),
    Refuse(reason="because"),
    Ping(),
    Heartbeat(),
)


@pytest.mark.parametrize("sequence", list(itertools.product(MESSAGES, repeat=3)))
@pytest.mark.parametrize("is_dialled", [False, True])
def test_no_other_order_of_messages_opens_a_link(
    sequence: tuple[Hello | Welcome | Confirm | Refuse | Ping | Heartbeat, ...], is_dialled: bool
) -> None:
    end = dialling(identity("b")) if is_dialled else Handshake(identity("b"), accept)
    taken = []
    for message in sequence:
        if end.state in {HandshakeState.OPEN, HandshakeState.ENDED}:
            break
        taken.append(type(message))
        with suppress(LinkRefused, HandshakeViolated):
            end.receive(message, WALL)
    expected = [Welcome] if is_dialled else [Hello, Confirm]
    assert (end.peer is not None) == (taken == expected)
