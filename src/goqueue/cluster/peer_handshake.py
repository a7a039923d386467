"""How a link begins: who the ends are, and whether both want it. Without IO.

    dialling end                             listening end
    WELCOME_AWAITED  ── Hello ──────────▶    HELLO_AWAITED
                     ◀───────── Welcome ──   CONFIRM_AWAITED      or Refuse, and the end
    OPEN             ── Confirm ────────▶    OPEN

The dialling end decides last: when it hears who answered, it may find that it has a link to that
broker already. A `Handshake` checks what an end says of itself; whether its link counts is judged
by the registry of links, which is handed in.

Invariant: `peer` is set exactly when the link is open, to an identity that was checked.
"""

import enum
import re
from collections.abc import Callable

import msgspec

from goqueue.cluster.voters import VOTERS_MAX
from goqueue.model import (
    PeerIdentity,
    PeerLane,
    PeerMessage,
    Refused,
    Timestamp,
    check_name,
)

__all__ = [
    "VERSIONS",
    "Confirm",
    "Handshake",
    "HandshakeState",
    "HandshakeViolated",
    "Hello",
    "LinkMessage",
    "LinkRefused",
    "Offer",
    "Ping",
    "RefusalReason",
    "Refuse",
    "Versions",
    "Welcome",
    "check_identity",
]


class Versions(msgspec.Struct, frozen=True, array_like=True):
    """The versions of the protocol that an end speaks."""

    lowest: int
    highest: int


VERSIONS = Versions(1, 1)

PEERS_MAX = 64
_ADDRESS_MAX = 270
_INCARNATION_MAX = 2**53
_WORDS_MAX = 500


class RefusalReason(enum.StrEnum):
    """Why an end does not want a link. The words never change once released."""

    VERSION = "version"
    CLUSTER = "cluster"
    SELF = "self"
    BROKER_ID_TAKEN = "broker_id_taken"
    INCARNATION_STALE = "incarnation_stale"
    REPLAYED = "replayed"
    DUPLICATE = "duplicate"
    IDENTITY_INVALID = "identity_invalid"
    CERTIFICATE = "certificate"
    TOO_MANY_BROKERS = "too_many_brokers"
    NOT_READY = "not_ready"


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1, kw_only=True):
    """The dialling end introduces itself; `number` counts its attempts in this life, upwards."""

    versions: Versions
    lane: PeerLane
    number: int
    identity: PeerIdentity
    wall: Timestamp


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=2, kw_only=True):
    """The listening end introduces itself, and chooses the version."""

    version: int
    identity: PeerIdentity
    wall: Timestamp


class Confirm(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The dialling end wants the link; messages follow."""


class Refuse(msgspec.Struct, frozen=True, array_like=True, tag=4, kw_only=True):
    """The listening end does not want it. `broker` is who says so."""

    reason: str
    words: str = ""
    broker: str = ""


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Nothing else was sent for a while."""


LinkMessage = Hello | Welcome | Confirm | Refuse | Ping


class HandshakeViolated(Exception):
    """A message came that has no place where the handshake stands."""


class LinkRefused(Exception):
    """A link does not come about, for a reason that one of its ends has found."""

    def __init__(self, reason: str, words: str = "", broker: str = "") -> None:
        super().__init__(f"{reason}: {words}" if words else reason)
        self.reason = reason
        self.words = words
        self.broker = broker


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A link that may come about: to whom, on which lane, and who dialled with which number."""

    peer: PeerIdentity
    lane: PeerLane
    number: int
    is_dialled: bool


class HandshakeState(enum.Enum):
    """Where a handshake stands."""

    HELLO_AWAITED = enum.auto()
    WELCOME_AWAITED = enum.auto()
    CONFIRM_AWAITED = enum.auto()
    OPEN = enum.auto()
    ENDED = enum.auto()


# Raises LinkRefused if the link would not count.
Judge = Callable[[Offer], None]


class Handshake:
    """One end of a link until it is open."""

    def __init__(
        self,
        own: PeerIdentity,
        judge: Judge,
        *,
        lane: PeerLane | None = None,
        number: int = 0,
        versions: Versions = VERSIONS,
    ) -> None:
        """With a `lane` this is the dialling end, with the number of its attempt."""
        self._own = own
        self._judge = judge
        self._number = number
        self._versions = versions
        self._lane = lane
        self._is_dialled = lane is not None
        self.state = (
            HandshakeState.HELLO_AWAITED if lane is None else HandshakeState.WELCOME_AWAITED
        )
        self.offer: Offer | None = None
        self.version = 0
        self.clock_offset_ns = 0

    @property
    def peer(self) -> PeerIdentity | None:
        """Who the other end is, once the link is open."""
        return self.offer.peer if self.offer and self.state is HandshakeState.OPEN else None

    def begin(self, wall: Timestamp) -> Hello:
        """The first message of the dialling end."""
        assert self._lane is not None
        return Hello(
            versions=self._versions,
            lane=self._lane,
            number=self._number,
            identity=self._own,
            wall=wall,
        )

    def receive(
        self, message: LinkMessage | PeerMessage, wall: Timestamp
    ) -> Welcome | Confirm | None:
        """The answer to a message; raises LinkRefused or HandshakeViolated, which end it."""
        try:
            return self._answer(message, wall)
        except (LinkRefused, HandshakeViolated):
            self.state = HandshakeState.ENDED
            raise

    def _answer(
        self, message: LinkMessage | PeerMessage, wall: Timestamp
    ) -> Welcome | Confirm | None:
        match (self.state, message):
            case (HandshakeState.HELLO_AWAITED, Hello()):
                return self._welcome(message, wall)
            case (HandshakeState.WELCOME_AWAITED, Welcome()):
                return self._confirm(message, wall)
            case (HandshakeState.WELCOME_AWAITED, Refuse()):
                words, broker = message.words[:_WORDS_MAX], message.broker[:_WORDS_MAX]
                raise LinkRefused(message.reason[:_WORDS_MAX], words, broker)
            case (HandshakeState.CONFIRM_AWAITED, Confirm()):
                assert self.offer is not None
                # Again: another link may have opened since the welcome.
                self._judge(self.offer)
                self.state = HandshakeState.OPEN
                return None
        raise HandshakeViolated(f"{type(message).__name__} came while {self.state.name.lower()}")

    def _welcome(self, hello: Hello, wall: Timestamp) -> Welcome:
        self.version = self._common(hello.versions)
        if not 0 < hello.number <= _INCARNATION_MAX:
            raise LinkRefused(RefusalReason.IDENTITY_INVALID, "the number of the attempt")
        peer = self._check_peer(hello.identity)
        offer = Offer(peer=peer, lane=hello.lane, number=hello.number, is_dialled=False)
        self._judge(offer)
        self.offer = offer
        self.clock_offset_ns = hello.wall - wall
        self.state = HandshakeState.CONFIRM_AWAITED
        return Welcome(version=self.version, identity=self._own, wall=wall)

    def _confirm(self, welcome: Welcome, wall: Timestamp) -> Confirm:
        assert self._lane is not None
        if not self._versions.lowest <= welcome.version <= self._versions.highest:
            raise LinkRefused(RefusalReason.VERSION, f"version {welcome.version} was chosen")
        self.version = welcome.version
        peer = self._check_peer(welcome.identity)
        offer = Offer(peer=peer, lane=self._lane, number=self._number, is_dialled=True)
        self._judge(offer)
        self.offer = offer
        self.clock_offset_ns = welcome.wall - wall
        self.state = HandshakeState.OPEN
        return Confirm()

    def _common(self, theirs: Versions) -> int:
        version = min(self._versions.highest, theirs.highest)
        if version < max(self._versions.lowest, theirs.lowest):
            ours = f"{self._versions.lowest} to {self._versions.highest}"
            raise LinkRefused(RefusalReason.VERSION, f"this broker speaks versions {ours}")
        return version

    def _check_peer(self, peer: PeerIdentity) -> PeerIdentity:
        check_identity(peer)
        own = self._own
        if peer.broker == own.broker:
            if peer.directory == own.directory:
                raise LinkRefused(RefusalReason.SELF, "a broker has no link to itself", own.broker)
            words = f"another data directory has the broker id {own.broker}"
            raise LinkRefused(RefusalReason.BROKER_ID_TAKEN, words)
        if own.cluster_id and peer.cluster_id and own.cluster_id != peer.cluster_id:
            words = f"this broker belongs to the cluster {own.cluster_id}"
            raise LinkRefused(RefusalReason.CLUSTER, words)
        return peer


_DIRECTORY = re.compile(r"[0-9a-f]{32}", re.ASCII)
_CLUSTER = re.compile(r"[A-Za-z0-9_-]{0,64}", re.ASCII)
_LABEL = r"[A-Za-z0-9_-]{1,63}"
_HOST = rf"(?:\[[0-9A-Fa-f:.%\w]+\]|{_LABEL}(?:\.{_LABEL})*\.?)"
_ADDRESS = re.compile(rf"{_HOST}:([0-9]{{1,5}})", re.ASCII)
_PORT_MAX = 65_535


def check_identity(peer: PeerIdentity) -> None:
    """Raise LinkRefused if no broker can be this one."""
    addresses = (
        peer.address,
        *peer.peers,
        *((peer.client_address,) if peer.client_address else ()),
    )
    try:
        for broker in (peer.broker, *(name for name, _ in peer.attempt)):
            check_name(broker, "broker")
    except Refused:
        raise LinkRefused(RefusalReason.IDENTITY_INVALID, "the broker id") from None
    directories = (peer.directory, *(directory for _, directory in peer.attempt))
    checks = (
        (all(map(_DIRECTORY.fullmatch, directories)), "the directory id"),
        (0 < peer.incarnation <= _INCARNATION_MAX, "the incarnation"),
        (_CLUSTER.fullmatch(peer.cluster_id) is not None, "the cluster id"),
        (len(peer.peers) <= PEERS_MAX, "the number of peers"),
        (len(peer.attempt) <= VOTERS_MAX, "the number of voters"),
        (all(map(_is_address, addresses)), "an address"),
    )
    for is_valid, words in checks:
        if not is_valid:
            raise LinkRefused(RefusalReason.IDENTITY_INVALID, words)


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text) if len(text) <= _ADDRESS_MAX else None
    return found is not None and int(found[1]) <= _PORT_MAX
