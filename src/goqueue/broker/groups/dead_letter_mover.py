"""Messages that leave one log for another: dead letters, and dead letters put back.

Messages that take the same route are moved together, in batches; each batch is a transaction of the
broker. The copies are appended to the target, unseen; when they are committed, one record of the
journal decides that they count and that the messages are settled where they were; a marker shows
them. So a crash at any point leaves each message in exactly one of the two places. What was not
decided is forgotten: the copies are aborted at the next start, and the messages are delivered or
dead-lettered anew.

Invariants
- A message is in one batch, or waits in one queue, or is not moving.
- So many batches are under way at most, and one turn begins no more of them than its budget allows.
- A message that somebody waits for is in the next batch of its route, whatever waits there else.

Cost per batch: one read, one copy of each message, one record in the journal, one marker.
"""

from collections.abc import Iterable

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.disk_reads import MoveFetch
from goqueue.broker.groups.dead_letters import (
    DEAD_LETTERS_GROUP,
    REASON_CHARACTERS_MAX,
    Cause,
    DeadLetterCause,
    DeadLetterEnds,
    Move,
    Route,
    copy_of,
    failed_target,
    located,
    places_of,
    report_of,
)
from goqueue.broker.groups.move_queue import MoveBatch, MoveQueue, StalledRoutes
from goqueue.broker.groups.polls import Polls
from goqueue.broker.journal_changes import Settled
from goqueue.broker.outbox import CarryOver
from goqueue.broker.partitions import ForMove, Partition, Publication
from goqueue.broker.state import NodeState
from goqueue.broker.trace_recorder import trace_header
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.copies import Copies
from goqueue.broker.turns import Errand
from goqueue.groups import Group
from goqueue.log import BatchMark
from goqueue.model import (
    Answer,
    Code,
    Folded,
    LogId,
    Now,
    Offset,
    Priority,
    Refused,
    RequestId,
    TransactionKey,
)
from goqueue.model.requests import Placed, Returned
from goqueue.records import walk
from goqueue.tracing import Kind
from goqueue.transactions import Outcome

__all__ = ["DeadLetterMover"]

_READ_BYTES = 128 * 1024
# Under way at once; so many of them may carry messages that nobody waits for. Together they hold no
# more messages than a turn may visit: one sync may end the wait of them all.
_BATCHES_MAX = 8
_QUIET_BATCHES_MAX = 4


class DeadLetterMover:
    """Begins moves and carries them out."""

    def __init__(
        self,
        state: NodeState,
        copies: Copies,
        polls: Polls,
        coordinator: TransactionCoordinator,
    ) -> None:
        self._state = state
        self._coordinator = coordinator
        self._copies = copies
        self._ends = DeadLetterEnds(state, copies)
        self._polls = polls
        self._queues: dict[Route, MoveQueue] = {}
        # The routes that may go on, each behind those that had to wait longer.
        self._ready: dict[Route, None] = {}
        self._ready_urgent: dict[Route, None] = {}
        self._stalled = StalledRoutes(state.alarms)
        # Why those that wait for a target will not get it; and who waits for which announcement.
        self._refusals: dict[Route, Refused] = {}
        self._announcing: dict[int, dict[Route, None]] = {}
        self._batches: dict[int, MoveBatch] = {}
        self._quiet_count = 0
        # Of redrives: whose dead letters were put back, and how many of them stay where they are.
        self._moved: dict[RequestId, int] = {}
        self._unmoved: dict[RequestId, int] = {}
        state.follow_ups += (self._ready, self._ready_urgent, self._moved, self._unmoved)

    def take_redriven(self) -> tuple[dict[RequestId, int], dict[RequestId, int]]:
        """By redrive: how many dead letters were put back since the last call, how many stay."""
        taken = self._moved.copy(), self._unmoved.copy()
        self._moved.clear()
        self._unmoved.clear()
        return taken

    # Beginning

    def dead_letter(
        self,
        group: Group,
        log: LogId,
        offset: Offset,
        cause: DeadLetterCause,
        now: Now,
        *,
        attempts: int,
    ) -> None:
        """Send a message, rejected in its queue after so many deliveries, to the dead letters.

        Who asked for it is answered when it is there.
        """
        state = self._state
        origin = state.catalog.find(log.topic)
        dead_letters = state.dead_letters_of(origin)
        known = state.catalog.get(dead_letters)
        route = Route(
            group=group.number,
            topic=origin.number,
            partition=log.partition,
            target=dead_letters,
            target_partition=log.partition % (known or origin).stated.partitions,
        )
        answer = None
        if cause.request is not None:
            returned = Returned(
                log=log, offset=offset, attempt=attempts, dead_letter_topic=dead_letters
            )
            answer = Answer(request=cause.request, reply=returned)
        move = Move(
            route=route,
            offset=offset,
            at=now.wall,
            attempts=attempts,
            cause=cause.cause,
            reason=cause.reason[:REASON_CHARACTERS_MAX],
            answer=answer,
        )
        if cause.cause is Cause.REJECTED:
            state.tally.rejected_dead_letters += 1
        else:
            state.tally.exhausted_dead_letters += 1
        self._begin(move)

    def redrive(
        self, dead_letter: LogId, offset: Offset, target: LogId, request: RequestId, now: Now
    ) -> None:
        """Put one dead letter back, as a part of a redrive."""
        route = Route(
            group=DEAD_LETTERS_GROUP,
            topic=self._state.catalog.find(dead_letter.topic).number,
            partition=dead_letter.partition,
            target=target.topic,
            target_partition=target.partition,
        )
        cause = Cause.REDRIVE
        self._begin(Move(route=route, offset=offset, at=now.wall, cause=cause, redrive=request))

    def _begin(self, move: Move) -> None:
        position = self._ends.position(move.route)
        if position is not None:
            position.begin_dead_lettering(move.offset)
        self._queue_of(move.route).add(move)
        self._make_ready(move.route)

    def _queue_of(self, route: Route) -> MoveQueue:
        queue = self._queues.get(route)
        if queue is None:
            queue = self._queues[route] = MoveQueue()
        return queue

    def _make_ready(self, route: Route) -> None:
        """Let a route go on, unless it waits for something else than its turn."""
        queue = self._queues[route]
        if not len(queue):
            del self._queues[route]
        elif route not in self._stalled and not self._is_announcing(route):
            if queue.urgent:
                self._ready_urgent[route] = None
            if queue.quiet:
                self._ready[route] = None

    def _is_announcing(self, route: Route) -> bool:
        topic = self._state.catalog.get(route.target)
        return topic is not None and route in self._announcing.get(topic.number, ())

    # Carrying

    def _begin_batches(self, now: Now) -> None:
        """Begin as many batches as may be under way."""
        while (route := self._next_route()) is not None:
            if self._state.budget.is_spent:
                self._state.alarms.bring_forward(Errand.MOVES, now.instant)
                return
            self._begin_batch(route, now)

    def _next_route(self) -> Route | None:
        if len(self._batches) >= _BATCHES_MAX:
            return None
        if self._ready_urgent:
            return next(iter(self._ready_urgent))
        if self._ready and self._quiet_count < _QUIET_BATCHES_MAX:
            return next(iter(self._ready))
        return None

    def _begin_batch(self, route: Route, now: Now) -> None:
        self._ready_urgent.pop(route, None)
        self._ready.pop(route, None)
        self._state.budget.spend()
        source = self._ends.source(route)
        refused = self._refusals.pop(route, None)
        if source is None and self._ends.position(route) is None:
            self._abandon(route)
            return
        if source is None:
            # A coordinator that has no copy of it yet.
            self._stall(route, now)
            return
        if refused is not None:
            self._target_failed(route, refused, now)
            return
        target = self._ends.target(route, now)
        if target is None:
            if route.is_redrive and self._state.catalog.get(route.target) is None:
                self._cancel(route)
            else:
                self._stall(route, now)
            return
        if target.log.failure is not None:
            self._target_failed(route, failed_target(target), now)
            return
        topic = self._state.catalog.find(target.log_id.topic)
        if not topic.may_mark:
            self._announce(topic, route)
            return
        queue = self._queues[route]
        moves = queue.pop_batch(max(1, self._state.budget.units // _BATCHES_MAX))
        self._state.budget.spend(len(moves))
        self._fetch(MoveBatch(route, moves), source, now)
        self._make_ready(route)

    def _abandon(self, route: Route) -> None:
        """The messages are gone with their topic, or nobody wants them any more."""
        queue = self._queues.pop(route)
        self._end(queue.urgent, is_moved=False)
        self._end(queue.quiet, is_moved=False)

    def _cancel(self, route: Route) -> None:
        """There is no new place any more: the messages stay where they were."""
        position = self._ends.position(route)
        if position is not None:
            for move in self._queues[route].quiet:
                position.cancel_dead_lettering(move.offset)
        self._abandon(route)

    def _announce(self, topic: Topic, route: Route) -> None:
        """A start must look through the target for copies that do not count."""
        waiting = self._announcing.setdefault(topic.number, {})
        waiting[route] = None
        if len(waiting) == 1:
            stated = msgspec.structs.replace(topic.stated, has_producers=True)
            changes = [] if stated == topic.stated else [stated]
            self._state.metadata.propose(changes, [CarryOver(topic.number)])

    def announced(self, later: CarryOver) -> None:
        """That the target has such copies is committed: go on."""
        topic = self._state.catalog.numbered(later.topic)
        if topic is not None:
            topic.may_mark = True
        for route in self._announcing.pop(later.topic, ()):
            if route in self._queues:
                self._make_ready(route)

    def _fetch(self, batch: MoveBatch, source: Partition, now: Now) -> None:
        """Read what is moved; what cannot be read any more is settled."""
        while batch.moves:
            first, last = batch.moves[0].offset, batch.moves[-1].offset
            try:
                wanted = source.log.read(first, _READ_BYTES, below=Offset(last + 1))
            except Refused:
                wanted = None
            if wanted is not None:
                number = self._state.next_move
                self._state.next_move += 1
                self._batches[number] = batch
                self._quiet_count += batch.is_quiet
                self._state.fetch(wanted, MoveFetch(number, wanted.below))
                return
            # Damaged or retired since: there is nothing left to move.
            gone = batch.moves.pop(0)
            self._ends.journal(batch.route).note(self._settle(batch.route, [gone], now))
            self._end([gone], is_moved=False)

    def records_fetched(self, purpose: MoveFetch, data: memoryview | None, now: Now) -> None:
        """The bytes of messages are here: append the copies."""
        batch = self._batches[purpose.batch]
        source, target = self._ends.source(batch.route), self._ends.target(batch.route, now)
        if source is None or target is None or data is None:
            self._retry(purpose.batch, now)
            return
        self._state.budget.spend(len(batch.moves))
        found = places_of(data)
        upto = max(found) + 1 if found else purpose.below
        gone = [each for each in batch.moves if each.offset not in found and each.offset < upto]
        late = [each for each in batch.moves if each.offset >= upto]
        batch.moves = [each for each in batch.moves if each.offset in found]
        self._queue_of(batch.route).put_back(late)
        self._make_ready(batch.route)
        if gone:
            self._ends.journal(batch.route).note(self._settle(batch.route, gone, now))
            self._end(gone, is_moved=False)
        if not batch.moves:
            self._forget(purpose.batch)
            return
        pieces = [data[slice(*found[each.offset])] for each in batch.moves]
        self._copy(purpose.batch, source, target, pieces, now)

    def _copy(
        self,
        number: int,
        source: Partition,
        target: Partition,
        pieces: list[memoryview],
        now: Now,
    ) -> None:
        """Append copies of these records as one transaction."""
        batch = self._batches[number]
        copies = bytearray()
        contexts: list[bytes] = []
        for move, piece in zip(batch.moves, pieces, strict=True):
            headers = self._ends.headers(move, source.log_id, piece)
            context = self._state.traces.context_of(source.log_id, move.offset, piece)
            if context:
                headers = (*headers, trace_header(context))
            contexts.append(context)
            copies += copy_of(piece, headers)
        key = TransactionKey.of_move(number)
        mark = BatchMark(
            producer=key.producer,
            epoch=0,
            sequence=-1,
            count=len(pieces),
            transaction=key.number,
            at=now.wall,
        )
        has_lanes = any(priority != Priority.NORMAL for priority in walk(copies).priorities)
        publication = Publication(None, [], 1, now.wall, purpose=ForMove(number))
        try:
            self._copies.append(target.log_id, copies, mark, publication, now)
        except Refused as refused:
            self._retry(number, now, refused.code)
            return
        batch.target, batch.contexts = target.log_id, contexts
        topic = self._state.catalog.get(batch.route.target)
        if topic is not None and has_lanes:
            self._state.record_lanes(topic)

    # Deciding

    def copied(self, number: int, placed: Placed, now: Now) -> None:
        """The copies are committed, or were taken back by the disk."""
        batch = self._batches[number]
        route = batch.route
        target = self._ends.target(route, now)
        if placed.refused is not None or target is None:
            self._coordinator.abort_move(number, self._ends.journal(route))
            self._retry(number, now, placed.refused)
            return
        batch.first = placed.first
        self._state.budget.spend(len(batch.moves))
        topic = self._state.catalog.find(target.log_id.topic)
        if self._ends.source(route) is not None:
            batch.outcome = Outcome.COMMITTED
        settled = self._settle(route, batch.moves, now)
        place = (topic.number, target.log_id.partition)
        journal = self._ends.journal(route)
        self._coordinator.decide_move(number, batch.outcome, place, journal, settled)

    def _settle(self, route: Route, moves: list[Move], now: Now) -> list[Settled]:
        """Settle the messages, unless their position was reset; what the journal is to say."""
        position = self._ends.position(route)
        source = self._ends.source(route)
        done: list[int] = []
        if position is not None:
            # Not what a reset passed by or made ready again; but what was committed past is no less
            # dead.
            done = [each.offset for each in moves if position.is_dead_lettering(each.offset)]
        if not done or position is None or source is None:
            return []
        queue = self._state.group_partitions.queue(route.group, source.log_id)
        if queue is not None:
            queue.settle_dead_letters([each for each in done if not position.has_settled(each)])
        at = self._state.steady(now).wall
        position.settle(0, done, at)
        # Markers are nobody's to settle: what follows from the log is passed over.
        floor = self._state.skip_hidden(source, position.floor)
        folded = Folded.of(done)
        change = Settled(
            group=route.group,
            topic=route.topic,
            partition=route.partition,
            floor=floor if queue is None else max(floor, queue.floor),
            offsets=folded.ranges,
            steps=folded.steps,
            # Also one that retention took on the way: it was nobody's to ack any more.
            is_buried=not route.is_redrive,
        )
        position.settle(change.floor, (), at)
        if change.is_buried:
            position.record_dead_letters(done)
        return [change]

    def finish_turn(self, completed: Iterable[int], now: Now) -> None:
        """Take up moves that have ended, and begin as many as may be under way."""
        for number in completed:
            self._completed(number, now)
        self._begin_batches(now)

    def _completed(self, number: int, now: Now) -> None:
        """Readers see the copies, or know that they do not count."""
        batch = self._batches.get(number)
        if batch is None:
            # Of an earlier life, and cut short then; or messages of schedules.
            return
        self._forget(number)
        self._state.budget.spend(len(batch.moves))
        group = self._state.groups.numbered(batch.route.group)
        is_moved = batch.outcome is Outcome.COMMITTED
        if is_moved:
            self._count(batch, group, now)
            batch.moves = located(batch.moves, batch.target, batch.first)
        self._end(batch.moves, is_moved=is_moved)
        if group is not None:
            # Others of the same key may go on.
            self._polls.wake_group(group, now)

    def _count(self, batch: MoveBatch, group: Group | None, now: Now) -> None:
        """Count what was moved, and tell it to who follows the messages."""
        origin = self._state.catalog.numbered(batch.route.topic)
        if origin is not None:
            counts = self._state.counts.topic(origin.name)
            for move in batch.moves:
                counts.count_move(move.cause)
            if not batch.route.is_redrive:
                named = "" if group is None else group.name
                self._state.outbox.append(report_of(batch.moves, origin.name, named))
        if batch.target is None:
            return
        is_redrive = batch.route.is_redrive
        for index, move in enumerate(batch.moves):
            self._state.traces.moved(
                Kind.REDRIVE if is_redrive else Kind.DEAD_LETTER,
                batch.target,
                batch.first + index,
                batch.contexts[index],
                now,
                group=group,
                attempt=move.attempts,
                detail="" if is_redrive else move.reason or move.cause,
            )

    # TransactionEnd

    def _forget(self, number: int) -> None:
        """A batch is over, and others may begin."""
        self._quiet_count -= self._batches.pop(number).is_quiet

    def _end(self, moves: Iterable[Move], *, is_moved: bool) -> None:
        """Tell whoever waits for moves that are over."""
        told = self._moved if is_moved else self._unmoved
        for move in moves:
            if move.answer is not None:
                self._ends.journal(move.route).note([], [move.answer])
            if move.redrive is not None:
                told[move.redrive] = told.get(move.redrive, 0) + 1

    def _retry(self, number: int, now: Now, code: Code | None = None) -> None:
        """Take a batch apart, and try again soon; at once where it waits for a failed log."""
        batch = self._batches[number]
        self._forget(number)
        self._queue_of(batch.route).put_back(batch.moves)
        if code is Code.STORAGE_FAILED:
            self._make_ready(batch.route)
        else:
            self._stall(batch.route, now, "" if code is None else code.value)

    def _stall(self, route: Route, now: Now, reason: str = "") -> None:
        """Try again soon: the target is not there yet, or refuses for a reason."""
        self._ready.pop(route, None)
        self._ready_urgent.pop(route, None)
        self._stalled.add(route, now)
        if reason:
            report = self._stalled.report(route, len(self._queues[route]), reason, now)
            self._state.outbox.extend(report)

    @property
    def stalled(self) -> dict[str, int]:
        """By target: how many messages wait until it takes them again."""
        counts: dict[str, int] = {}
        for route in self._stalled:
            waiting = len(self._queues.get(route, ()))
            counts[route.target] = counts.get(route.target, 0) + waiting
        return counts

    # Targets that failed

    def creation_failed(self, target: str, reason: str) -> None:
        """A dead-letter topic could not be created: nobody is left to wait for it."""
        for route in self._stalled.going_to(target):
            if route in self._queues:
                self._refusals[route] = Refused(Code.STORAGE_FAILED, topic=target, reason=reason)
            self._unstall(route)

    def _target_failed(self, route: Route, refused: Refused, now: Now) -> None:
        """The target takes nothing in this life: answer who waits, as far as the turn allows.

        Rejected messages are delivered again. Those that had all their deliveries wait here.
        """
        if route.is_redrive:
            self._cancel(route)
            return
        queue = self._queues[route]
        while queue.urgent:
            if self._state.budget.is_spent:
                self._refusals[route] = refused
                self._make_ready(route)
                return
            self._state.budget.spend()
            self._refuse(queue.urgent.popleft(), queue, refused)
        self._wake_source(route, now)
        if queue.quiet:
            self._stall(route, now, str(refused.facts["reason"]))
        else:
            del self._queues[route]

    def _refuse(self, move: Move, queue: MoveQueue, refused: Refused) -> None:
        assert move.answer is not None, "nobody waits for the others"
        self._state.outbox.answer(move.answer.request, refused)
        if move.cause is not Cause.REJECTED:
            queue.add(msgspec.structs.replace(move, answer=None))
            return
        self._state.tally.rejected_dead_letters -= 1
        position, source = self._ends.position(move.route), self._ends.source(move.route)
        if position is None or source is None or not position.is_dead_lettering(move.offset):
            # Gone, or reset meanwhile.
            return
        position.cancel_dead_lettering(move.offset)
        delivery = self._state.group_partitions.queue(move.route.group, source.log_id)
        if delivery is not None:
            delivery.cancel_dead_letter(move.offset)

    def _wake_source(self, route: Route, now: Now) -> None:
        """Messages that stay may be delivered again."""
        group, source = self._state.groups.numbered(route.group), self._ends.source(route)
        if group is not None and source is not None:
            self._polls.wake_group(group, now, source.log_id)

    def resume(self, now: Now) -> None:
        """Take up what stalled long enough ago."""
        while (route := self._stalled.next_due(now)) is not None:
            if self._state.budget.is_spent:
                self._state.alarms.bring_forward(Errand.MOVES, now.instant)
                return
            self._state.budget.spend()
            self._unstall(route)

    def topic_opened(self, name: str) -> None:
        """A topic can be used: some may have waited for it."""
        for route in self._stalled.going_to(name):
            self._unstall(route)

    def _unstall(self, route: Route) -> None:
        self._stalled.remove(route)
        if route in self._queues:
            self._make_ready(route)
