"""Copies of moved and scheduled messages in partitions of any leader, and markers of all kinds.

A dead letter leaves one log for another. The decision, and that the message is settled, is one
record of the coordinator's journal; the copies are in a partition that any broker may lead. So:

1. `MoveBegun` is committed: whatever happens, somebody knows of the copies.
2. The leader of the target appends them, unseen. A repetition finds them: they have a number.
3. `Decided` is committed, together with the settlement. Copies of unknown outcome are aborted.
4. The leader appends the marker, and again whoever leads next, until it is committed.

A coordinator that begins aborts what was begun and not decided. Copies of a deposed coordinator
come too late: a leader takes them only in the epoch in which its own image has the coordinator, and
a marker is written also where there are no copies, so a copy that no leader has yet is cut with the
records that the marker replaces.

Crash points: begun | copies sent | appended | committed | decided | marker sent | committed |
ended.

Messages of schedules go the same way: what is decided with them is that their ticks were sent.
Transactions of producers have no copies of the coordinator's: their batches are appended by the
leaders, and step 4 is the same for them.

Bounds: eight batches at once. Cost: two round trips to a leader and two records for each batch.
"""

from collections.abc import Callable

from goqueue.broker.catalog import Topic
from goqueue.broker.cluster import COORDINATOR_LOG
from goqueue.broker.cluster.routes import Routes
from goqueue.broker.journal_changes import MoveBegun
from goqueue.broker.outbox import CopiesAnnounced
from goqueue.broker.partitions import (
    ForMarker,
    ForMove,
    ForTick,
    Partition,
    Publication,
    check_copies,
)
from goqueue.broker.state import NodeState
from goqueue.log import BatchMark, Marker
from goqueue.model import Code, LogId, Now, Offset, Refused, RequestId, TransactionKey
from goqueue.model.requests import AppendCopies, AppendMarker, EndCopies, Placed, Published, Reply

__all__ = ["CopyServer", "EndedCopies", "RemoteCopies"]

# Moves whose markers a leader has seen: their copies come too late.
_ENDED_MAX = 1_000

# Passes a command on to the leader of a partition; its answer comes under the number returned.
Forward = Callable[[AppendCopies | AppendMarker | EndCopies, LogId, Now], RequestId]


class EndedCopies:
    """What became of copies, or of a marker."""

    __slots__ = ("placed", "purpose")

    def __init__(self, purpose: ForMove | ForTick | ForMarker, placed: Placed) -> None:
        self.purpose = purpose
        self.placed = placed


class RemoteCopies:
    """The coordinator's half: asks leaders."""

    def __init__(
        self,
        state: NodeState,
        epoch: int,
        forward: Forward,
        request_dead_letters: Callable[[Topic, str], None],
    ) -> None:
        self._state = state
        self._epoch = epoch
        self._forward = forward
        self._request_dead_letters = request_dead_letters
        # Moves whose beginning is not committed, and what is to be appended then.
        self._announced: dict[int, tuple[AppendCopies, Publication]] = {}
        self._asked: dict[RequestId, Publication] = {}

    def ensure_dead_letters(self, origin: Topic, name: str, _now: Now) -> Topic | None:
        """The dead-letter topic of a topic; the controller is asked for one that is missing."""
        topic = self._state.catalog.get(name)
        if topic is None:
            self._request_dead_letters(origin, name)
        return topic

    def append(
        self,
        log: LogId,
        batch: bytearray,
        mark: BatchMark,
        publication: Publication,
        _now: Now,
    ) -> Offset | None:
        """Announce copies; they are appended when that is committed."""
        move = TransactionKey(mark.producer, mark.transaction).move
        topic = self._state.catalog.find(log.topic)
        command = AppendCopies(
            topic=log.topic,
            partition=log.partition,
            move=move,
            epoch=self._epoch,
            count=mark.count,
            at=mark.at,
            batch=bytes(batch),
        )
        begun = MoveBegun(move=move, topic=topic.number, partition=log.partition)
        self._state.open_moves[move] = (topic.number, log.partition)
        self._announced[move] = (command, publication)
        self._state.journals.of_groups.note([begun], [CopiesAnnounced(move)])
        return None

    def announced(self, move: int, now: Now) -> None:
        """That a move has begun is committed: append its copies."""
        command, publication = self._announced.pop(move)
        log = LogId(command.topic, command.partition)
        self._asked[self._forward(command, log, now)] = publication

    def end(self, log: LogId, marker: Marker, publication: Publication, now: Now) -> bool:
        """Ask for a marker."""
        key = TransactionKey(marker.producer, marker.transaction)
        command: AppendMarker | EndCopies
        if key.is_internal:
            command = EndCopies(
                topic=log.topic,
                partition=log.partition,
                move=key.move,
                epoch=self._epoch,
                is_commit=marker.is_commit,
            )
        else:
            command = AppendMarker(
                topic=log.topic,
                partition=log.partition,
                producer=marker.producer,
                producer_epoch=marker.epoch,
                transaction=marker.transaction,
                epoch=self._epoch,
                is_commit=marker.is_commit,
            )
        self._asked[self._forward(command, log, now)] = publication
        return True

    def take_answer(self, request: RequestId, reply: Reply | Refused) -> EndedCopies | None:
        """A leader answered; None if nobody asked for that."""
        publication = self._asked.pop(request, None)
        if publication is None:
            return None
        purpose = publication.purpose
        assert isinstance(purpose, ForMove | ForTick | ForMarker)
        if isinstance(reply, Published) and reply.placed:
            return EndedCopies(purpose, reply.placed[0])
        # Another leader may take it: no refusal is the last word.
        code = reply.code if isinstance(reply, Refused) else Code.REPLICATION_FAILED
        if code in {Code.STORAGE_FAILED, Code.TOPIC_NOT_FOUND}:
            code = Code.LEADER_UNAVAILABLE
        return EndedCopies(purpose, Placed(partition=0, first=Offset(0), count=0, refused=code))


class CopyServer:
    """The leader's half: appends what the coordinator of the newest epoch asks for."""

    def __init__(self, state: NodeState, routes: Routes) -> None:
        self._state = state
        self._routes = routes
        self._ended: dict[LogId, dict[int, None]] = {}

    def append(self, request: RequestId, command: AppendCopies, now: Now) -> None:
        """Append copies, or find them; answered when they are committed."""
        partition = self._partition(command)
        if command.move in self._ended.get(partition.log_id, ()):
            raise Refused(Code.EPOCH_STALE, reason="the move has ended")
        if partition.leader is not None:
            # Else a copy is appended, and aborted, every few seconds while nodes are missing.
            check_copies(partition.leader, command.partition)
        key = TransactionKey.of_move(command.move)
        mark = BatchMark(
            producer=key.producer,
            epoch=0,
            sequence=0,
            count=command.count,
            transaction=key.number,
            at=command.at,
        )
        appended = self._state.append(partition, bytearray(command.batch), now, mark)
        publication = Publication(request, [], 1, now.wall)
        if appended.is_repeat:
            found = partition.expect_repeat(appended.first, appended.next, publication)
            if found is not None:
                self._state.outbox.answer(request, found)
        else:
            partition.expect(appended.first, appended.next, publication, at=now.instant)

    def end(self, request: RequestId, command: EndCopies, now: Now) -> None:
        """Append a marker; answered when it is committed."""
        partition = self._partition(command)
        ended = self._ended.setdefault(partition.log_id, {})
        ended[command.move] = None
        if len(ended) > _ENDED_MAX:
            del ended[next(iter(ended))]
        key = TransactionKey.of_move(command.move)
        marker = Marker(
            producer=key.producer, epoch=0, transaction=key.number, is_commit=command.is_commit
        )
        self._append_marker(request, partition, marker, now)

    def append_marker(self, request: RequestId, command: AppendMarker, now: Now) -> None:
        """Append the marker of a producer's transaction; one that is committed is not repeated."""
        partition = self._partition(command)
        if partition.log.producers.has_ended(command.producer, command.transaction):
            publication = Publication(request, [], 1, now.wall)
            ended = publication.place(command.partition, Offset(0), 0, is_duplicate=True)
            assert ended is not None
            self._state.outbox.answer(request, ended)
            return
        marker = Marker(
            producer=command.producer,
            epoch=command.producer_epoch,
            transaction=command.transaction,
            is_commit=command.is_commit,
        )
        self._append_marker(request, partition, marker, now)

    def _append_marker(
        self, request: RequestId, partition: Partition, marker: Marker, now: Now
    ) -> None:
        appended = self._state.end_transaction(partition, marker, now, is_forced=True)
        assert appended is not None
        publication = Publication(request, [], 1, now.wall)
        partition.expect(appended.first, appended.next, publication, at=now.instant)

    def _partition(self, command: AppendCopies | AppendMarker | EndCopies) -> Partition:
        """The partition, if this broker leads it and knows this coordinator as the newest."""
        log = LogId(command.topic, command.partition)
        coordinator = self._routes.partition(COORDINATOR_LOG)
        is_behind = coordinator is None or coordinator.epoch < command.epoch
        if is_behind or self._routes.partition(log) is None:
            # The image here is older than that of the coordinator.
            raise Refused(Code.LEADER_UNAVAILABLE, reason="the metadata are on their way")
        if coordinator is not None and coordinator.epoch > command.epoch:
            raise Refused(Code.EPOCH_STALE, epoch=command.epoch, current=coordinator.epoch)
        topic = self._state.catalog.find(log.topic)
        return self._state.partition(topic, log.partition)
