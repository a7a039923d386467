"""Messages that leave one log for another: dead letters, and dead letters put back.

A move is exactly once over any crash. It is journaled before it begins (from then on the message
is delivered to nobody), the copy is appended to the target, and only when that is committed the
journal says that the move has ended, which settles the message. After a crash in between, the
target is read from where it ended when the move began: the copy is there, or it is made now.

"""

import enum

import msgspec

from goqueue.broker.alarms import Errand
from goqueue.broker.consuming.delivering import Delivering
from goqueue.broker.consuming.letters import (
    PREFIX,
    REDRIVEN,
    copy_of,
    identities,
    messages_in,
    read_letter,
)
from goqueue.broker.journals import MoveBegun, MoveCancelled, MoveEnded
from goqueue.broker.messages.topics import Topics
from goqueue.broker.outbox import CarryOver
from goqueue.broker.partitions import Partition, Publication
from goqueue.broker.state import NodeState
from goqueue.delivery import Held, Position
from goqueue.groups import Group
from goqueue.model import (
    SECOND,
    Answer,
    Code,
    Header,
    Instant,
    LogId,
    Now,
    Offset,
    Priority,
    Refused,
    RequestId,
    Timestamp,
    format_time,
)
from goqueue.model.requests import Returned
from goqueue.records import walk

__all__ = [
    "LETTERS_GROUP",
    "MOVE_ERRAND",
    "REASON_CHARACTERS_MAX",
    "Carrying",
    "Cause",
    "Death",
    "Moving",
    "Verifying",
]

# The number of no group: the place of redrives among the dead letters.
LETTERS_GROUP = 0
MOVE_ERRAND = Errand("moves")
_RETRY_NS = SECOND
_VERIFY_BYTES = 1024 * 1024
REASON_CHARACTERS_MAX = 1024


class Cause(enum.StrEnum):
    """Why a message moves."""

    REJECTED = "rejected"
    MAX_DELIVERIES = "max_deliveries"
    REDRIVE = "redrive"


class Death(msgspec.Struct, frozen=True):
    """What a message dies of, and who waits to hear that it is among the dead letters."""

    cause: Cause
    reason: str
    request: RequestId | None = None


class Carrying(msgspec.Struct, frozen=True):
    """The record of a move is being read."""

    move: int


class Verifying(msgspec.Struct, frozen=True):
    """A target is being read to see which moves had arrived before the crash."""

    target: LogId
    upto: Offset


class Moving:
    """Begins moves, carries them out, and takes up those that a crash interrupted."""

    def __init__(self, state: NodeState, topics: Topics, delivering: Delivering) -> None:
        self._state = state
        self._topics = topics
        self._delivering = delivering
        self._answers: dict[int, tuple[RequestId, Returned]] = {}
        self._stalled: dict[int, None] = {}
        self._under_way: dict[int, None] = {}
        self._cancelled: dict[int, None] = {}
        # Moves of an earlier life whose targets are still being read.
        self._unverified: dict[int, None] = {}

    def was_cancelled(self, number: int) -> bool:
        """Whether a move that is over did not take place; to be asked once."""
        return self._cancelled.pop(number, 0) is None

    # Beginning

    def bury(self, group: Group, log: LogId, held: Held, death: Death, now: Now) -> None:
        """Send a message, buried in its queue, to the dead letters.

        Whoever asked for it is answered when it is there.
        """
        state = self._state
        origin = state.catalog.find(log.topic)
        letters = origin.config.dead_letter_topic
        known = state.catalog.get(letters)
        target = LogId(letters, log.partition % (known or origin).stated.partitions)
        begun = MoveBegun(
            number=state.next_move,
            group=group.number,
            topic=origin.number,
            partition=log.partition,
            offset=held.offset,
            target=target.topic,
            target_partition=target.partition,
            target_from=self._end_of(target),
            at=now.wall,
            attempts=held.attempt,
            cause=death.cause,
            reason=death.reason[:REASON_CHARACTERS_MAX],
        )
        if death.request is not None:
            returned = Returned(
                log=log, offset=held.offset, attempt=held.attempt, dead_letter_topic=letters
            )
            self._answers[begun.number] = (death.request, returned)
        if death.cause is Cause.REJECTED:
            state.tally.rejected_letters += 1
        else:
            state.tally.exhausted_letters += 1
        self._begin(begun)

    def redrive(self, letter: LogId, offset: Offset, target: LogId, now: Now) -> int:
        """Put one dead letter back; the number of the move."""
        begun = MoveBegun(
            number=self._state.next_move,
            group=LETTERS_GROUP,
            topic=self._state.catalog.find(letter.topic).number,
            partition=letter.partition,
            offset=offset,
            target=target.topic,
            target_partition=target.partition,
            target_from=self._end_of(target),
            at=now.wall,
            cause=Cause.REDRIVE,
        )
        self._begin(begun)
        return begun.number

    def _end_of(self, target: LogId) -> Offset:
        """A copy that is made from now on cannot be before this."""
        partition = self._state.partitions.get(target)
        # Not the end: what is on its way there may be taken back, and the copy take its place.
        return Offset(0) if partition is None else partition.log.high_watermark

    def _begin(self, begun: MoveBegun) -> None:
        self.apply(begun)
        self._state.groups_journal.note([begun], [CarryOver(begun.number)])

    # Applying: the only mutators of durable state

    def apply(self, change: MoveBegun | MoveEnded | MoveCancelled) -> None:
        state = self._state
        if isinstance(change, MoveBegun):
            state.next_move = max(state.next_move, change.number + 1)
            position = self._position(change)
            if position is not None:
                state.moves[change.number] = change
                if not change.is_restated:
                    position.begin_dying(change.offset)
            return
        begun = state.moves.pop(change.number, None)
        position = None if begun is None else self._position(begun)
        if begun is None or position is None:
            return
        if not position.is_dying(begun.offset):
            # The position was reset since: the message is delivered again, whatever became of
            # its letter.
            return
        if isinstance(change, MoveEnded):
            position.settle(change.floor, [(begun.offset, begun.offset + 1)], begun.at)
        else:
            position.end_dying(begun.offset)

    def _position(self, begun: MoveBegun) -> Position | None:
        """Where the message comes from; None if its topic or its group is gone."""
        topic = self._state.catalog.numbered(begun.topic)
        is_ours = begun.group == LETTERS_GROUP or self._state.groups.numbered(begun.group)
        if topic is None or not is_ours:
            return None
        log = LogId(topic.name, begun.partition)
        return self._state.positions.setdefault(begun.group, {}).setdefault(log, Position(0))

    # Carrying

    def carry(self, number: int, now: Now) -> None:
        """Bring a message to its new place: first its bytes are read."""
        begun = self._state.moves.get(number)
        if begun is None or number in self._under_way:
            return
        source = self._source(begun)
        if source is None:
            self._give_up(number, MoveEnded(number=number, floor=0))
        elif self._target(begun, now) is not None:
            self._fetch(number, begun, source)
        elif begun.cause == Cause.REDRIVE and self._state.catalog.get(begun.target) is None:
            self._give_up(number, MoveCancelled(number=number))
        else:
            self._stall(number, now)

    def _fetch(self, number: int, begun: MoveBegun, source: Partition) -> None:
        offset = Offset(begun.offset)
        try:
            wanted = source.log.read(offset, 1, below=Offset(offset + 1))
        except Refused:
            wanted = None
        if wanted is None:
            # Damaged or retired since: there is nothing left to move.
            self._arrived(number)
        else:
            self._under_way[number] = None
            self._state.fetch(wanted, Carrying(number))

    def carried(self, purpose: Carrying, data: memoryview | None, now: Now) -> None:
        """The bytes of a message are here: append the copy."""
        number = purpose.move
        self._under_way.pop(number, None)
        begun = self._state.moves.get(number)
        if begun is None:
            return
        source, target = self._source(begun), self._target(begun, now)
        if source is None or target is None or data is None:
            self._stall(number, now)
            return
        if not len(data):
            self._arrived(number)
            return
        headers = self._headers(begun, source.log_id, data)
        try:
            appended = self._state.append(target, copy_of(data, headers), now)
        except Refused:
            self._stall(number, now)
            return
        self._under_way[number] = None
        topic = self._state.catalog.get(begun.target)
        if topic is not None and walk(data).priorities[0] != Priority.NORMAL:
            self._state.note_lanes(topic)
        publication = Publication(None, [], 1, now.wall, move=number)
        target.expect(appended.first, appended.next, publication)

    def settled(self, number: int, refused: Code | None, now: Now) -> None:
        """The copy is committed, or was taken back by the disk."""
        self._under_way.pop(number, None)
        begun = self._state.moves.get(number)
        if begun is None:
            return
        if refused is not None:
            self._stall(number, now)
            return
        self._arrived(number)
        group = self._state.groups.numbered(begun.group)
        if group is not None:
            # Others of the same key may go on.
            self._delivering.wake_group(group, now)

    def _headers(self, begun: MoveBegun, source: LogId, data: memoryview) -> tuple[Header, ...]:
        if begun.cause == Cause.REDRIVE:
            return ((REDRIVEN, f"{source}:{begun.offset}".encode()),)
        group = self._state.groups.numbered(begun.group)
        before = next((read_letter(record.headers) for record in messages_in(data)), None)
        facts = {
            "topic": source.topic,
            "partition": str(begun.partition),
            "offset": str(begun.offset),
            "group": "" if group is None else group.name,
            "deliveries": str(begun.attempts),
            "hops": str(1 if before is None else before.hops + 1),
            "time": format_time(Timestamp(begun.at)),
            "cause": begun.cause,
        }
        if begun.reason:
            facts["reason"] = begun.reason
        return tuple((PREFIX + name, value.encode()) for name, value in facts.items())

    def _source(self, begun: MoveBegun) -> Partition | None:
        topic = self._state.catalog.numbered(begun.topic)
        if topic is None or self._position(begun) is None:
            return None
        return self._state.partitions.get(LogId(topic.name, begun.partition))

    def _target(self, begun: MoveBegun, now: Now) -> Partition | None:
        topic = self._state.catalog.get(begun.target)
        if topic is None and begun.cause != Cause.REDRIVE:
            origin = self._state.catalog.numbered(begun.topic)
            assert origin is not None
            topic = self._topics.ensure_letters(origin, begun.target, now)
        if topic is None or not topic.is_open:
            return None
        number = begun.target_partition % topic.stated.partitions
        return self._state.partitions.get(LogId(topic.name, number))

    # Ending

    def _arrived(self, number: int) -> None:
        begun = self._state.moves[number]
        source = self._source(begun)
        queue = None if source is None else self._state.queue(begun.group, source.log_id)
        position = self._position(begun)
        floor = 0
        if queue is not None and position is not None and position.is_dying(begun.offset):
            queue.finish(begun.offset)
            floor = queue.floor
        self._give_up(number, MoveEnded(number=number, floor=floor))

    def _give_up(self, number: int, change: MoveEnded | MoveCancelled) -> None:
        """End a move in the journal, and tell whoever waits."""
        self.apply(change)
        if isinstance(change, MoveCancelled):
            self._cancelled[number] = None
        self._stalled.pop(number, None)
        answer = self._answers.pop(number, None)
        later = [] if answer is None else [Answer(request=answer[0], reply=answer[1])]
        self._state.groups_journal.note([change], later)

    def _stall(self, number: int, now: Now) -> None:
        """Try again soon: the target is not there yet, or has no space."""
        self._stalled[number] = None
        self._state.alarms.bring_forward(MOVE_ERRAND, Instant(now.instant + _RETRY_NS))

    def resume(self, now: Now) -> None:
        """Take up what stalled."""
        stalled, self._stalled = self._stalled, {}
        for number in stalled:
            self.carry(number, now)

    # After a crash

    def verify_all(self, now: Now) -> None:
        """Find out which moves had arrived: read each target from where the first of them began."""
        begins: dict[LogId, int] = {}
        self._unverified = dict.fromkeys(self._state.moves)
        for number, begun in list(self._state.moves.items()):
            target = self._target(begun, now)
            if target is None:
                self._stall(number, now)
            else:
                begin = min(begun.target_from, begins.get(target.log_id, begun.target_from))
                begins[target.log_id] = begin
        for log, begin in begins.items():
            self._verify(self._state.partitions[log], Offset(begin), now)

    def _verify(self, target: Partition, offset: Offset, now: Now) -> None:
        # A target that was made again since may end before.
        wanted = target.log.read(target.log.readable_from(offset), _VERIFY_BYTES)
        if wanted is None:
            for number in list(self._unverified):
                begun = self._state.moves.get(number)
                if begun is None or self._target(begun, now) is target:
                    del self._unverified[number]
                    self.carry(number, now)
        else:
            self._state.fetch(wanted, Verifying(target.log_id, wanted.below))

    def verified(self, purpose: Verifying, data: memoryview | None, now: Now) -> None:
        target = self._state.partitions.get(purpose.target)
        if target is None:
            for number in list(self._unverified):
                self._stall(number, now)
            return
        following = purpose.upto
        if data is not None and len(data):
            waiting = {
                self._identity(begun): begun
                for begun in self._state.moves.values()
                if begun.number in self._unverified and self._target(begun, now) is target
            }
            records = list(messages_in(data))
            for record in records:
                letter = read_letter(record.headers)
                for identity in identities(letter) if letter else ():
                    begun = waiting.get(identity)
                    # What stood there before is the copy of an earlier move of the same message.
                    if begun is not None and record.offset >= begun.target_from:
                        del waiting[identity], self._unverified[begun.number]
                        self._arrived(begun.number)
            if records:
                following = Offset(records[-1].offset + 1)
        self._verify(target, following, now)

    def _identity(self, begun: MoveBegun) -> str:
        topic = self._state.catalog.numbered(begun.topic)
        group = self._state.groups.numbered(begun.group)
        name = "" if topic is None else topic.name
        if begun.cause == Cause.REDRIVE:
            return f"{LogId(name, begun.partition)}:{begun.offset}"
        return f"{name}:{begun.partition}:{begun.offset}:{'' if group is None else group.name}"
