"""Dead letters as records, and the two ends of a dead-letter move.

A dead letter is known by the headers that name its origin, a redriven message by the one that names
the dead letter. Owns how a copy for another log is built and what its headers say. Never moves
anything: `DeadLetterMover` does. Topics and groups are looked up by number each time, since they
may be deleted, and created again, while a move is under way.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from goqueue.broker.delayed.delay_log import OF_THE_LOG
from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import Change
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.copies import Copies
from goqueue.delivery import Position
from goqueue.model import (
    CODEC_HEADER,
    DEAD_LETTER_PREFIX,
    HEADERS_BYTES_MAX,
    REDRIVEN_HEADER,
    TRACEPARENT_HEADER,
    Answer,
    Code,
    Header,
    LogId,
    MessagesDeadLettered,
    Now,
    Offset,
    Record,
    Refused,
    Report,
    RequestId,
    Timestamp,
    format_time,
)
from goqueue.model.requests import Returned
from goqueue.records import Flag, decode, encode, rehead, walk

__all__ = [
    "DEAD_LETTERS_GROUP",
    "REASON_CHARACTERS_MAX",
    "Cause",
    "DeadLetter",
    "DeadLetterCause",
    "DeadLetterEnds",
    "Move",
    "Route",
    "copy_of",
    "failed_target",
    "identities",
    "located",
    "messages_in",
    "places_of",
    "read_dead_letter",
    "report_of",
]

DROPPED = DEAD_LETTER_PREFIX + "headers-dropped"
_REASON = DEAD_LETTER_PREFIX + "reason"
# What a dead letter can do without, in the order in which it does.
_OPTIONAL = (
    _REASON,
    TRACEPARENT_HEADER,
    DEAD_LETTER_PREFIX + "time",
    DEAD_LETTER_PREFIX + "deliveries",
    DEAD_LETTER_PREFIX + "cause",
)
# The longest mark of a batch with its name, the longest place of a dead letter, and a count.
_MARK_BYTES = 128
_REDRIVEN_BYTES = 320
_DROPPED_BYTES = 40
# The count of the headers takes two bytes.
_ROOM = HEADERS_BYTES_MAX - _MARK_BYTES - 2


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
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
    """The message with these headers, and room for the mark of its batch and of a redrive.

    A message that was accepted leaves room for all of them but a long reason, which is cut. Those
    of older data may not: then headers go that nobody needs to put the dead letter back, and after
    them the last of the message's own; the dead letter says how many.
    """
    record = decode(data, 0)
    named = {name for name, _ in headers}
    own = [each for each in record.headers if each[0] not in named and each[0] not in OF_THE_LOG]
    room = _ROOM if REDRIVEN_HEADER in named else _ROOM - _REDRIVEN_BYTES
    ours = _fitted(headers, room - _size(own))
    if _size(own) + _size(ours) <= room:
        left_out = [name for name, _ in headers if name not in dict(ours)]
        return rehead(data, 0, tuple(ours), without=(*OF_THE_LOG, *left_out))
    # Without its codec the value means nothing.
    codec = [each for each in own if each[0] == CODEC_HEADER]
    own = [each for each in own if each[0] != CODEC_HEADER]
    room -= _size(ours) + _size(codec) + _DROPPED_BYTES
    dropped = 0
    while own and _size(own) > room:
        own.pop()
        dropped += 1
    copy = msgspec.structs.replace(
        record,
        offset=0,
        timestamp=0,
        flags=record.flags & ~Flag.DELAYED,
        headers=(*own, *codec, *ours, (DROPPED, str(dropped).encode())),
    )
    return bytearray(encode(copy))


def _fitted(headers: tuple[Header, ...], room: int) -> list[Header]:
    """As much of what a copy says of its origin as there is room for, the least needed cut first.

    At least what puts a dead letter back.
    """
    fitted = dict(headers)
    for name in _OPTIONAL:
        over = _size(fitted.items()) - room
        if over <= 0:
            break
        said = fitted.pop(name, b"")
        if name == _REASON and len(said) > over:
            fitted[name] = said[:-over].decode("utf-8", "ignore").encode()
    return list(fitted.items())


def _size(headers: Iterable[Header]) -> int:
    """How much of the block these headers take."""
    return sum(4 + len(name.encode()) + len(value) for name, value in headers)


def identities(dead_letter: DeadLetter) -> tuple[str, str]:
    source = f"{dead_letter.topic}:{dead_letter.partition}:{dead_letter.offset}"
    return (
        dead_letter.redriven_from,
        f"{source}:{dead_letter.group}",
    )


def messages_in(data: memoryview) -> Iterator[Record]:
    """The messages among stored records, as stored: whether a value unpacks is nobody's here."""
    columns = walk(data)
    for position, flags in zip(columns.positions, columns.flags, strict=True):
        if not flags & (Flag.CONTROL | Flag.DELAYED):
            yield decode(data, position)


def places_of(data: memoryview) -> dict[int, tuple[int, int]]:
    """Where each of these records begins and ends."""
    columns = walk(data)
    ends = [*columns.positions[1:], len(data)]
    return dict(zip(columns.offsets, zip(columns.positions, ends, strict=True), strict=True))


def read_dead_letter(headers: tuple[Header, ...]) -> DeadLetter | None:
    """What the headers say of a dead letter; None if they are not those of one."""
    facts = {
        name.removeprefix(DEAD_LETTER_PREFIX): value.decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(DEAD_LETTER_PREFIX)
    }
    try:
        return DeadLetter(
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


# Longer reasons are cut.
REASON_CHARACTERS_MAX = 1024
# The number of no group: the place of redrives among the dead letters.
DEAD_LETTERS_GROUP = 0


class Cause(enum.StrEnum):
    """Why a message moves."""

    REJECTED = "rejected"
    MAX_DELIVERIES = "max_deliveries"
    REDRIVE = "redrive"


class DeadLetterCause(msgspec.Struct, frozen=True):
    """Why a message goes to the dead letters, and who waits until it is there."""

    cause: Cause
    reason: str
    request: RequestId | None = None


class Route(NamedTuple):
    """The way of messages: for which group, from which partition, and where to.

    Topics and groups that messages leave are numbers, so none is taken for its namesake; the topic
    that they go to is a name, since it may have to be made first.
    """

    group: int
    topic: int
    partition: int
    target: str
    target_partition: int

    @property
    def is_redrive(self) -> bool:
        return self.group == DEAD_LETTERS_GROUP


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A message that leaves one log for another, and who wants to hear of it."""

    route: Route
    offset: Offset
    at: Timestamp
    cause: Cause
    attempts: int = 0
    reason: str = ""
    # Who is answered when the message is there, and the redrive that it is a part of.
    answer: Answer | None = None
    redrive: RequestId | None = None


def located(moves: list[Move], target: LogId | None, first: Offset) -> list[Move]:
    """The same moves, whose answers say where the copies are: side by side from `first` on."""
    if target is None or all(move.answer is None for move in moves):
        return moves
    return [
        move if move.answer is None else _located(move, move.answer, target, Offset(first + index))
        for index, move in enumerate(moves)
    ]


def _located(move: Move, answer: Answer, target: LogId, offset: Offset) -> Move:
    assert isinstance(answer.reply, Returned)
    reply = replace(answer.reply, dead_letter_partition=target.partition, dead_letter_offset=offset)
    return replace(move, answer=replace(answer, reply=reply))


def report_of(moves: Sequence[Move], origin: str, group: str) -> Report:
    """What the operator hears of messages that became dead letters together."""
    first = moves[0]
    return Report(
        report=MessagesDeadLettered(
            topic=origin,
            partition=first.route.partition,
            group=group,
            count=len(moves),
            offset=first.offset,
            cause=first.cause.value,
            reason=first.reason,
            deliveries=first.attempts,
            dead_letter_topic=first.route.target,
        )
    )


def failed_target(target: Partition) -> Refused:
    """Why a target takes nothing more."""
    log = target.log_id
    reason = target.log.failure or ""
    return Refused(Code.STORAGE_FAILED, topic=log.topic, partition=log.partition, reason=reason)


class DeadLetterEnds:
    """Looks up where moves begin and end."""

    def __init__(self, state: NodeState, copies: Copies) -> None:
        self._state = state
        self._copies = copies

    def position(self, route: Route) -> Position | None:
        """Where the message comes from; None if its topic or its group is gone."""
        topic = self._state.catalog.numbered(route.topic)
        is_ours = route.group == DEAD_LETTERS_GROUP or self._state.groups.numbered(route.group)
        if topic is None or not is_ours:
            return None
        log = LogId(topic.name, route.partition)
        return self._state.group_partitions.open(route.group, log).position

    def source(self, route: Route) -> Partition | None:
        """The partition that the message leaves."""
        topic = self._state.catalog.numbered(route.topic)
        if topic is None or self.position(route) is None:
            return None
        return self._state.partitions.get(LogId(topic.name, route.partition))

    def target(self, route: Route, now: Now) -> Partition | None:
        """The partition that the message goes to; a missing dead-letter topic is created."""
        topic = self._state.catalog.get(route.target)
        if topic is None and not route.is_redrive:
            origin = self._state.catalog.numbered(route.topic)
            if origin is None:
                # Deleted meanwhile, as its dead letters were.
                return None
            topic = self._copies.ensure_dead_letters(origin, route.target, now)
        if topic is None or not topic.is_open:
            return None
        number = route.target_partition % topic.stated.partitions
        return self._state.partitions.get(LogId(topic.name, number))

    def journal(self, route: Route) -> Journal[Change]:
        """Where a move is decided: beside the partition that its messages leave.

        If that is gone, beside the one that has the copies, which do not count then.
        """
        topic = self._state.catalog.numbered(route.topic)
        if topic is None:
            return self._state.journals.of_partition(LogId(route.target, route.target_partition))
        return self._state.journals.of_partition(LogId(topic.name, route.partition))

    def headers(self, move: Move, source: LogId, data: memoryview) -> tuple[Header, ...]:
        """What the copy says of where it came from."""
        if move.route.is_redrive:
            return ((REDRIVEN_HEADER, f"{source}:{move.offset}".encode()),)
        group = self._state.groups.numbered(move.route.group)
        before = next((read_dead_letter(record.headers) for record in messages_in(data)), None)
        facts = {
            "topic": source.topic,
            "partition": str(move.route.partition),
            "offset": str(move.offset),
            "group": "" if group is None else group.name,
            "deliveries": str(move.attempts),
            "hops": str(1 if before is None else before.hops + 1),
            "time": format_time(move.at),
            "cause": move.cause,
        }
        if move.reason:
            facts["reason"] = move.reason
        return tuple((DEAD_LETTER_PREFIX + name, value.encode()) for name, value in facts.items())
