"""Requests that one broker passes on to another, and their answers (numbers 96 to 127).

`number` is the name of a request at the broker that sends it; its answer repeats it. Commands and
replies are attached as JSON, since a reply may be larger than the header of a frame: `kind`
says which, and its numbers never change (`broker/cluster/forward_codec.py`). Records follow as they
are stored.

A forwarded command names its caller, whom the sender has proven; the link proves the sender. It is
never forwarded again.
"""

import msgspec

from goqueue.model.callers import Caller
from goqueue.model.messages import Header
from goqueue.model.peer_numbers import PeerCounter, PeerNanoseconds
from goqueue.model.requests import Acks, ProducerStamp

__all__ = [
    "ForwardCancel",
    "ForwardChunk",
    "ForwardCommand",
    "ForwardMessage",
    "ForwardRefusal",
    "ForwardReply",
    "PublishPart",
]


class ForwardCommand(msgspec.Struct, frozen=True, array_like=True, tag=96, kw_only=True):
    """Carry out a command, which is attached, for a caller of the sender.

    `version` is that of the metadata by which the sender chose this broker.
    """

    number: PeerCounter
    kind: PeerCounter
    version: PeerCounter = 0
    # Required: a message without one is refused, never run for this node itself.
    caller: Caller


class PublishPart(msgspec.Struct, frozen=True, array_like=True, tag=97, kw_only=True):
    """Append the attached records, which were routed to partitions that this broker leads.

    `parts` has partition and number of records, in the order of the records. `topic_number` and
    `layout` are those by which they were routed: another topic of the same name, or another number
    of partitions, would put them elsewhere. `dues` is as in `Publish`, in the same order.
    """

    number: PeerCounter
    topic: str
    topic_number: PeerCounter
    parts: tuple[tuple[PeerCounter, PeerCounter], ...]
    layout: PeerCounter = 1
    acks: Acks = Acks.ALL
    dues: tuple[PeerNanoseconds, ...] | None = None
    producer: ProducerStamp | None = None
    trace: tuple[Header, ...] = ()
    version: PeerCounter = 0
    # Required: a message without one is refused, never run for this node itself.
    caller: Caller
    # Whether the sender has checked the values by the schemas of the topic.
    is_validated: bool = False


class ForwardReply(msgspec.Struct, frozen=True, array_like=True, tag=98, kw_only=True):
    """The command was carried out; the reply is attached, then the records that belong to it.

    `version` is that of the metadata in which a change of the controller is.
    """

    number: PeerCounter
    kind: PeerCounter
    version: PeerCounter = 0


class ForwardRefusal(msgspec.Struct, frozen=True, array_like=True, tag=99, kw_only=True):
    """The command was refused; `version` is that of the metadata of the broker that refuses it."""

    number: PeerCounter
    code: str
    facts: dict[str, int | str | tuple[str, ...] | None] = {}
    version: PeerCounter = 0


class ForwardCancel(msgspec.Struct, frozen=True, array_like=True, tag=100, kw_only=True):
    """Nobody waits for the answer to this request any more."""

    number: PeerCounter


class ForwardChunk(msgspec.Struct, frozen=True, array_like=True, tag=101, kw_only=True):
    """A piece of what is attached to a command or a reply that is too large for one frame.

    Pieces come before their message, in order; each belongs to the attachment with this index.
    """

    number: PeerCounter
    index: PeerCounter
    is_reply: bool = False


ForwardMessage = (
    ForwardCommand | PublishPart | ForwardReply | ForwardRefusal | ForwardCancel | ForwardChunk
)
