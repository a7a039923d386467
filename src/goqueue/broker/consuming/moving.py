"""Messages that leave one log for another: dead letters, and dead letters put back.

Each move is a transaction of the broker: the copy is appended to the target, unseen; when it is
committed, one record of the journal decides that it counts and that the message is settled where it
was; a marker shows it. So a crash at any point leaves the message in exactly one of the two places.
What was not decided is forgotten: the copy is aborted at the next start, and the message is handed
out or buried anew.

Cost per move: one copy, one record in the journal, one marker.
"""

import msgspec

from goqueue.broker.alarms import Errand
from goqueue.broker.catalog import Topic
from goqueue.broker.consuming.delivering import Delivering
from goqueue.broker.consuming.ends import LETTERS_GROUP, Cause, Ends, Move
from goqueue.broker.consuming.letters import copy_of
from goqueue.broker.journals import Settled
from goqueue.broker.messages.topics import Topics
from goqueue.broker.outbox import CarryOver, WriteMarkers
from goqueue.broker.partitions import ForMove, Partition, Publication
from goqueue.broker.state import NodeState
from goqueue.broker.tracing import trace_header
from goqueue.delivery import Held
from goqueue.groups import Group
from goqueue.log import BatchMark
from goqueue.model import (
    SECOND,
    Answer,
    Code,
    Instant,
    LogId,
    Now,
    Offset,
    Priority,
    Refused,
    RequestId,
)
from goqueue.model.requests import Returned
from goqueue.records import walk
from goqueue.tracing import Kind
from goqueue.transactions import Decided, Outcome

__all__ = [
    "MOVE_ERRAND",
    "REASON_CHARACTERS_MAX",
    "Carrying",
    "Death",
    "Moving",
]

MOVE_ERRAND = Errand("moves")
_RETRY_NS = SECOND
REASON_CHARACTERS_MAX = 1024
# A move has a producer of its own, with one transaction: the negative number of the move.
_TRANSACTION = 1


class Death(msgspec.Struct, frozen=True):
    """What a message dies of, and who waits to hear that it is among the dead letters."""

    cause: Cause
    reason: str
    request: RequestId | None = None


class Carrying(msgspec.Struct, frozen=True):
    """The record of a move is being read."""

    move: int


class Moving:
    """Begins moves and carries them out."""

    def __init__(self, state: NodeState, topics: Topics, delivering: Delivering) -> None:
        self._state = state
        self._ends = Ends(state, topics)
        self._delivering = delivering
        self._moves: dict[int, Move] = {}
        self._answers: dict[int, tuple[RequestId, Returned]] = {}
        self._stalled: dict[int, None] = {}
        self._under_way: dict[int, None] = {}
        self._cancelled: dict[int, None] = {}
        # Where the copies stand, and the traces that they are part of.
        self._copies: dict[int, tuple[LogId, Offset, bytes]] = {}

    def is_over(self, number: int) -> bool:
        return number not in self._moves

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
        move = Move(
            number=state.next_move,
            group=group.number,
            topic=origin.number,
            partition=log.partition,
            offset=held.offset,
            target=letters,
            target_partition=log.partition % (known or origin).stated.partitions,
            at=now.wall,
            attempts=held.attempt,
            cause=death.cause,
            reason=death.reason[:REASON_CHARACTERS_MAX],
        )
        if death.request is not None:
            returned = Returned(
                log=log, offset=held.offset, attempt=held.attempt, dead_letter_topic=letters
            )
            self._answers[move.number] = (death.request, returned)
        if death.cause is Cause.REJECTED:
            state.tally.rejected_letters += 1
        else:
            state.tally.exhausted_letters += 1
        self._begin(move, now)

    def redrive(self, letter: LogId, offset: Offset, target: LogId, now: Now) -> int:
        """Put one dead letter back; the number of the move."""
        move = Move(
            number=self._state.next_move,
            group=LETTERS_GROUP,
            topic=self._state.catalog.find(letter.topic).number,
            partition=letter.partition,
            offset=offset,
            target=target.topic,
            target_partition=target.partition,
            at=now.wall,
            cause=Cause.REDRIVE,
        )
        self._begin(move, now)
        return move.number

    def _begin(self, move: Move, now: Now) -> None:
        self._state.next_move += 1
        self._moves[move.number] = move
        position = self._ends.position(move)
        if position is not None:
            position.begin_dying(move.offset)
        self.carry(move.number, now)

    # Carrying

    def carry(self, number: int, now: Now) -> None:
        """Bring a message to its new place: first its bytes are read."""
        move = self._moves.get(number)
        if move is None or number in self._under_way:
            return
        source = self._ends.source(move)
        if source is None:
            self._end(move)
            return
        target = self._ends.target(move, now)
        if target is None:
            if move.cause is Cause.REDRIVE and self._state.catalog.get(move.target) is None:
                self._cancel(move)
            else:
                self._stall(number, now)
            return
        topic = self._state.catalog.find(target.log_id.topic)
        if topic.may_mark:
            self._fetch(move, source, now)
        else:
            self._announce(topic, number)

    def _announce(self, topic: Topic, number: int) -> None:
        """A start must look through the target for copies that do not count."""
        stated = msgspec.structs.replace(topic.stated, has_producers=True)
        changes = [] if stated == topic.stated else [stated]
        self._state.catalog.apply(stated)
        self._state.topics_journal.note(changes, [CarryOver(number, topic.number)])

    def announced(self, later: CarryOver, now: Now) -> None:
        """That the target has such copies is committed: go on."""
        topic = self._state.catalog.numbered(later.topic)
        if topic is not None:
            topic.may_mark = True
        self.carry(later.move, now)

    def _fetch(self, move: Move, source: Partition, now: Now) -> None:
        try:
            wanted = source.log.read(move.offset, 1, below=Offset(move.offset + 1))
        except Refused:
            wanted = None
        if wanted is None:
            # Damaged or retired since: there is nothing left to move.
            self._settle(move, [], now)
            self._end(move)
        else:
            self._under_way[move.number] = None
            self._state.fetch(wanted, Carrying(move.number))

    def carried(self, purpose: Carrying, data: memoryview | None, now: Now) -> None:
        """The bytes of a message are here: append the copy."""
        number = purpose.move
        self._under_way.pop(number, None)
        move = self._moves.get(number)
        if move is None:
            return
        source, target = self._ends.source(move), self._ends.target(move, now)
        if source is None or target is None or data is None:
            self._stall(number, now)
            return
        if not len(data):
            self._settle(move, [], now)
            self._end(move)
            return
        headers = self._ends.headers(move, source.log_id, data)
        context = self._state.journeys.context_of(source.log_id, move.offset, data)
        if context:
            headers = (*headers, trace_header(context))
        mark = BatchMark(
            producer=-number, epoch=0, sequence=-1, count=1, transaction=_TRANSACTION, at=now.wall
        )
        try:
            appended = self._state.append(target, copy_of(data, headers), now, mark)
        except Refused:
            self._stall(number, now)
            return
        self._under_way[number] = None
        self._copies[number] = (target.log_id, appended.first, context)
        topic = self._state.catalog.get(move.target)
        if topic is not None and walk(data).priorities[0] != Priority.NORMAL:
            self._state.note_lanes(topic)
        publication = Publication(None, [], 1, now.wall, purpose=ForMove(number))
        target.expect(appended.first, appended.next, publication)

    # Deciding

    def copied(self, number: int, refused: Code | None, now: Now) -> None:
        """The copy is committed, or was taken back by the disk."""
        move = self._moves.get(number)
        if move is None:
            return
        target = self._ends.target(move, now)
        if refused is not None or target is None:
            self._under_way.pop(number, None)
            self._stall(number, now)
            return
        topic = self._state.catalog.find(target.log_id.topic)
        outcome = Outcome.COMMITTED if self._ends.source(move) is not None else Outcome.ABORTED
        decided = Decided(
            producer=-number,
            number=_TRANSACTION,
            epoch=0,
            outcome=outcome,
            partitions=[(topic.number, target.log_id.partition)],
        )
        self._state.transactions.apply(decided)
        self._settle(move, [decided], now)

    def _settle(self, move: Move, decided: list[Decided], now: Now) -> None:
        """Decide, and settle the message in the same record, unless its position was reset."""
        position = self._ends.position(move)
        source = self._ends.source(move)
        settled: list[Settled] = []
        if position is not None and source is not None and position.is_dying(move.offset):
            queue = self._state.queue(move.group, source.log_id)
            if queue is not None:
                queue.finish(move.offset)
            position.settle(0, (move.offset,), now.wall)
            # Markers are nobody's to settle: what follows from the log is passed over.
            floor = self._state.skip_hidden(source, position.floor)
            change = Settled(
                group=move.group,
                topic=move.topic,
                partition=move.partition,
                floor=floor if queue is None else max(floor, queue.floor),
                offsets=[(move.offset, move.offset + 1)],
            )
            position.settle(change.floor, (), now.wall)
            settled.append(change)
        later = [WriteMarkers((each.producer, each.number)) for each in decided]
        self._state.groups_journal.note([*decided, *settled], later)

    def completed(self, number: int, now: Now) -> None:
        """Readers see the copy, or know that it does not count."""
        self._under_way.pop(number, None)
        move = self._moves.get(number)
        if move is None:
            # Of an earlier life, and cut short then.
            return
        origin = self._state.catalog.numbered(move.topic)
        if origin is not None:
            self._state.counts.topic(origin.name).count_move(move.cause)
        group = self._state.groups.numbered(move.group)
        self._tell(move, group, now)
        self._end(move)
        if group is not None:
            # Others of the same key may go on.
            self._delivering.wake_group(group, now)

    def _tell(self, move: Move, group: Group | None, now: Now) -> None:
        copy = self._copies.get(move.number)
        if copy is not None:
            is_redrive = move.cause is Cause.REDRIVE
            self._state.journeys.moved(
                Kind.REDRIVE if is_redrive else Kind.LETTER,
                *copy,
                now,
                group=group,
                attempt=move.attempts,
                detail="" if is_redrive else move.reason or move.cause,
            )

    # Ending

    def _end(self, move: Move) -> None:
        """Forget a move that is over, and tell whoever waits."""
        del self._moves[move.number]
        self._copies.pop(move.number, None)
        self._stalled.pop(move.number, None)
        answer = self._answers.pop(move.number, None)
        if answer is not None:
            later = Answer(request=answer[0], reply=answer[1])
            self._state.groups_journal.note([], [later])

    def _cancel(self, move: Move) -> None:
        """There is no new place any more: the message stays where it was."""
        position = self._ends.position(move)
        if position is not None:
            position.end_dying(move.offset)
        self._cancelled[move.number] = None
        self._end(move)

    def _stall(self, number: int, now: Now) -> None:
        """Try again soon: the target is not there yet, or has no space."""
        self._stalled[number] = None
        self._state.alarms.bring_forward(MOVE_ERRAND, Instant(now.instant + _RETRY_NS))

    def resume(self, now: Now) -> None:
        """Take up what stalled."""
        stalled, self._stalled = self._stalled, {}
        for number in stalled:
            self.carry(number, now)
