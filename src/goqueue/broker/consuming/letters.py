"""Dead letters as records: what their headers say, and how a copy for another log is made.

A dead letter is known by the headers that name its origin, a redriven message by the one that names
the letter.
"""

from collections.abc import Iterator

import msgspec

from goqueue.broker.messages.delay_log import OF_THE_LOG
from goqueue.model import Header, Message, Record, Refused
from goqueue.records import Flag, build, decode, rehead, walk

__all__ = [
    "PREFIX",
    "REDRIVEN",
    "Letter",
    "copy_of",
    "identities",
    "messages_in",
    "read_letter",
]

PREFIX = "goqueue.dlq."
REDRIVEN = PREFIX + "redriven-from"


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """What the headers of a dead letter say."""

    topic: str
    partition: int
    offset: int
    group: str
    cause: str
    reason: str
    hops: int
    redriven_from: str


def copy_of(data: memoryview, headers: tuple[Header, ...]) -> bytearray:
    """The message with these headers; of its own, as many as there is room for beside them."""
    try:
        return rehead(data, 0, headers, without=OF_THE_LOG)
    except Refused:
        record = decode(data, 0)
    named = {name for name, _ in headers}
    kept = [each for each in record.headers if each[0] not in named and each[0] not in OF_THE_LOG]
    dropped = 0
    while True:
        counted = (PREFIX + "headers-dropped", str(dropped).encode())
        message = Message(
            value=record.value,
            key=record.key,
            headers=(*kept, *headers, counted),
            priority=record.priority,
            is_compressed=bool(record.flags & Flag.COMPRESSED),
        )
        try:
            return build([message])
        except Refused:
            # The codec comes first if it is there at all: without it the value means nothing.
            kept.pop()
            dropped += 1


def identities(letter: Letter) -> tuple[str, str]:
    return (
        letter.redriven_from,
        f"{letter.topic}:{letter.partition}:{letter.offset}:{letter.group}",
    )


def messages_in(data: memoryview) -> Iterator[Record]:
    """The messages among stored records, as stored: whether a value unpacks is nobody's here."""
    columns = walk(data)
    for position, flags in zip(columns.positions, columns.flags, strict=True):
        if not flags & (Flag.CONTROL | Flag.DELAYED):
            yield decode(data, position)


def read_letter(headers: tuple[Header, ...]) -> Letter | None:
    """What the headers say of a dead letter; None if they are not those of one."""
    facts = {
        name.removeprefix(PREFIX): value.decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(PREFIX)
    }
    try:
        return Letter(
            topic=facts["topic"],
            partition=int(facts["partition"]),
            offset=int(facts["offset"]),
            group=facts["group"],
            cause=facts.get("cause", ""),
            reason=facts.get("reason", ""),
            hops=int(facts.get("hops", "1")),
            redriven_from=facts.get("redriven-from", ""),
        )
    except (KeyError, ValueError):
        return None
