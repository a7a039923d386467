"""What a simulated connection carries, and how well."""

from random import Random

import msgspec

from goqueue.cluster import LinkMessage
from goqueue.model import MILLISECOND, PEER_MESSAGES, SECOND, PeerLane, PeerMessage, Send

__all__ = ["DialTarget", "LinkWeather", "Packet", "Repeat"]

_DECODERS = {each.__struct_config__.tag: msgspec.msgpack.Decoder(each) for each in PEER_MESSAGES}
_encode = msgspec.msgpack.Encoder().encode


class LinkWeather(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take, and how often a link is reset by itself."""

    delay_ns_min: int = 50_000
    delay_ns_max: int = 2 * MILLISECOND
    # A delay of this much instead, with this chance.
    slow_ns_max: int = 200 * MILLISECOND
    slow_share: float = 0.0
    reset_share: float = 0.0
    # How many messages of the control lane come again over a later connection.
    repeat_share: float = 0.0
    # How many messages of the replication lane come again later, over any connection.
    late_share: float = 0.0
    # How much a direction of a connection carries; 0: any amount.
    bytes_per_second: int = 0

    def repeats(self, random: Random) -> bool:
        """Whether a message comes again later."""
        return bool(self.repeat_share) and random.random() < self.repeat_share

    def comes_late(self, lane: PeerLane, random: Random) -> bool:
        """Whether a message of the replication lane comes again later."""
        if not self.late_share or lane is not PeerLane.REPLICATION:
            return False
        return random.random() < self.late_share

    def transit_ns(self, size: int) -> int:
        """How long so many bytes keep a wire busy."""
        return size * SECOND // self.bytes_per_second if self.bytes_per_second else 0


class Packet(msgspec.Struct, frozen=True):
    """What one direction of a wire carries: a message of the link, one of a broker, or the end."""

    link_message: LinkMessage | None = None
    kind: int = 0
    body: bytes = b""
    data: tuple[bytes, ...] = ()
    is_end: bool = False

    @classmethod
    def of(cls, effect: Send) -> "Packet":
        """The message of a broker."""
        kind = type(effect.message).__struct_config__.tag
        assert isinstance(kind, int)
        data = tuple(map(bytes, effect.data))
        return cls(kind=kind, body=_encode(effect.message), data=data)

    def decode(self) -> PeerMessage:
        """The message of a broker that this packet carries."""
        return _DECODERS[self.kind].decode(self.body)

    @property
    def size(self) -> int:
        return len(self.body) + sum(map(len, self.data))


class Repeat(msgspec.Struct, frozen=True):
    """A message that comes again when another connection to its broker is open."""

    broker: str
    packet: Packet
    wire: int


class DialTarget:
    """An address that somebody dials, and who is there."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.broker = ""
        self.failures = 0
        self.is_dialling = False
        self.is_self = False
