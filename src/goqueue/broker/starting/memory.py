"""What the journals say, applied and stated: the durable half of the node's state.

Every change passes here when it is replayed; the parts that decide changes apply them through the
same machines. Stating everything gives changes from which an empty node becomes the same again:
that is a snapshot, and it is how a journal is kept short.
"""

from collections.abc import Iterator

from goqueue.broker.consuming.positions import Positions
from goqueue.broker.journals import (
    Change,
    Delivered,
    DeliveryReleased,
    GivenBack,
    Numbered,
    PositionAdded,
    PositionMoved,
    Settled,
    Started,
    TopicChange,
    TopicDeleted,
    TopicStated,
    state_position,
)
from goqueue.broker.state import NodeState
from goqueue.broker.transacting import Progressing
from goqueue.groups import GroupDeleted, GroupStated
from goqueue.model import Now, Timestamp
from goqueue.transactions import Decided

__all__ = ["Memory"]


class Memory:
    """Applies journaled changes, and states all that they amount to."""

    def __init__(
        self,
        state: NodeState,
        positions: Positions,
        progressing: Progressing,
    ) -> None:
        self._state = state
        self._progressing = progressing
        self._positions = positions
        self._started = Started(epoch=0)

    @property
    def epoch(self) -> int:
        """Which life of the node this is."""
        return self._started.epoch

    def apply(self, change: TopicChange | Change, at: Timestamp) -> None:
        """Become what a change says, whatever kind it is."""
        match change:
            case Started():
                self._started = change
                self._state.catalog.reserve(change.topics_upto)
            case TopicStated() | TopicDeleted():
                self._state.catalog.apply(change)
            case Numbered():
                self._state.groups.reserve(change.groups_upto)
                self._state.next_move = max(self._state.next_move, change.moves_upto)
                self._state.transactions.producers.reserve(change.producers_upto)
            case GroupStated():
                self._state.groups.apply(change)
            case GroupDeleted():
                self._state.groups.apply(change)
                self._state.positions.pop(change.number, None)
            case Decided() if change.producer < 0:
                # A move of the broker's own.
                self._state.next_move = max(self._state.next_move, 1 - change.producer)
                self._progressing.apply(change, at)
            case Delivered() | DeliveryReleased() | GivenBack() | Settled():
                self._positions.apply(change, at)
            case PositionMoved() | PositionAdded():
                self._positions.apply(change, at)
            case _:
                self._progressing.apply(change, at)

    def state_topics(self) -> list[TopicChange]:
        """All that the journal of topics amounts to."""
        return [
            Started(
                epoch=self._started.epoch,
                topics_upto=self._state.catalog.next_number,
            ),
            *(topic.stated for topic in self._state.catalog.all),
        ]

    def state_groups(self) -> list[Change]:
        """All that the journal of groups amounts to."""
        return [
            Numbered(
                groups_upto=self._state.groups.next_number,
                moves_upto=self._state.next_move,
                producers_upto=self._state.transactions.producers.next_id,
            ),
            *(group.stated for group in self._state.groups),
            *self._state_positions(),
            *self._state.transactions.state(),
        ]

    def _state_positions(self) -> Iterator[Change]:
        for number, positions in self._state.positions.items():
            for log, position in positions.items():
                topic = self._state.catalog.get(log.topic)
                if topic is not None and position.says_something:
                    yield from state_position(position, number, topic.number, log.partition)

    def keep_short(self, now: Now) -> None:
        """State a journal again when most of it is history, or keep a snapshot of it."""
        topics, groups = self._state.topics_journal, self._state.groups_journal
        if topics.wants_restating:
            topics.restate(self.state_topics(), now)
        elif topics.wants_snapshot:
            topics.snapshot(self.state_topics())
        if groups.wants_restating:
            groups.restate(self.state_groups(), now)
        elif groups.wants_snapshot:
            groups.snapshot(self.state_groups())

    def snapshot_all(self) -> None:
        """Make the next start fast."""
        self._state.topics_journal.snapshot(self.state_topics())
        self._state.groups_journal.snapshot(self.state_groups())
