"""Clients of delayed messages: they cancel (also too late and twice), look up and list them.

An answer is compared with what was certain when the request was sent: no answer outlives a crash,
so nothing that was certain then is lost by the time it arrives.
"""

from goqueue.model import Code, Offset, Refused
from goqueue.model.requests import (
    CancelDelayed,
    DelayedDescription,
    DelayedList,
    DelayState,
    DelayStatistics,
    DescribeDelays,
    Done,
    FindDelayed,
    ListDelayed,
    Reply,
)
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.ledger import DelayTruth, MessageTruth, Place, TopicTruth

__all__ = ["Delayers"]

_RECENT = 30
_LIMIT = 100_000
# Answers after which it is certain that nothing was cancelled.
_SURE_REFUSALS = frozenset({Code.STORAGE_FULL, Code.LOG_BUSY})


class _Known:
    """What was certain about a message when a request about it was sent."""

    def __init__(self, world: World, message: MessageTruth) -> None:
        assert message.delay is not None
        assert message.delay.first is not None
        self._world = world
        self.message = message
        self.delay: DelayTruth = message.delay
        self.first: Place = message.delay.first
        self.was_cancelled = message.delay.is_cancelled
        self.was_delivered = message.place is not None
        transaction, swarm = message.transaction, world.swarm
        # What is not committed need not be known of, nor what a log that failed was not told of. A
        # power cut may take the marker of a topic that flushes at intervals: until it is written
        # again, the messages before it are those of an open transaction.
        may_fail = swarm.sync_errors or swarm.write_errors or swarm.name_errors
        may_fail |= message.topic.is_loose and swarm.power_loss
        is_committed = transaction is not None and transaction.outcome is True
        self.is_promised = transaction is None or (is_committed and not may_fail)

    @property
    def is_clear(self) -> bool:
        """Whether an answer may be judged by what was known."""
        topic = self.message.topic
        return not (topic.is_leaving or topic.is_gone)

    @property
    def is_surely_pending(self) -> bool:
        is_untouched = not self.delay.cancels and not self._world.ledger.may_be_shown(self.message)
        return is_untouched and self.delay.first is not None and self.is_promised

    def check_missing(self) -> None:
        """The node does not know the message: right only if it ended and retention removed it."""
        if not self.is_clear or not self.is_promised:
            return
        if self.is_surely_pending or not self.message.topic.retires:
            raise Violation("delayed-message-unknown", self.name)

    def check(self, described: DelayedDescription) -> None:
        """Judge the state that the node reports."""
        if not self.is_clear:
            return
        if described.due != self.delay.due or described.priority != self.message.priority:
            raise Violation("wrong-delay", f"{self.name}: {described}")
        match described.state:
            case DelayState.PENDING:
                if self.was_cancelled or self.was_delivered:
                    raise Violation("ended-message-pending", self.name)
            case DelayState.DELIVERED:
                assert described.delivered_offset is not None
                self._world.ledger.delivered(self.message, described.delivered_offset)
            case DelayState.CANCELLED:
                self._world.ledger.cancelled(self.message)
            case DelayState.EXPIRED:
                raise Violation("delayed-message-expired", self.name)

    def check_cancelled(self, reply: Reply | Refused | None) -> None:
        if not self.is_clear:
            return
        if isinstance(reply, Done):
            self._world.ledger.cancelled(self.message)
        elif isinstance(reply, Refused) and reply.code is Code.ALREADY_DELIVERED:
            self.delay.cancels -= 1
            offset = reply.facts.get("delivered_offset")
            if offset is None:
                raise Violation("delivered-nowhere", self.name)
            self._world.ledger.delivered(self.message, offset)
        elif isinstance(reply, Refused) and reply.code is Code.MESSAGE_NOT_FOUND:
            self.check_missing()
        elif isinstance(reply, Refused) and reply.code in _SURE_REFUSALS:
            self.delay.cancels -= 1

    @property
    def offset(self) -> Offset:
        return Offset(self.first.offset)

    @property
    def name(self) -> str:
        return f"{self.message.serial} of {self.message.topic.name} {self.first}"


class Delayers:
    """Clients that look up, list and cancel delayed messages."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random

    def _choose(self) -> MessageTruth | None:
        """Choose a message: mostly a recent one, half of the time the one that is due first."""
        found = [each for each in self._world.ledger.delayed if _is_there(each)][-_RECENT:]
        if not found:
            return None
        if self._random.random() < 0.5:
            wall = self._world.now.wall
            return min(found, key=lambda each: abs(each.delay.due - wall) if each.delay else 0)
        return self._random.choice(found)

    def cancel(self) -> None:
        message = self._choose()
        if message is not None:
            for _ in range(self._random.choice([1, 1, 2])):
                self._cancel(message)

    def cancel_on_a_full_disk(self) -> None:
        """Cancel while the disk is full."""
        faults = self._world.faults
        if not faults.is_full:
            faults.fill(self._random.choice([0, 30, 300]))
        self.cancel()

    def _cancel(self, message: MessageTruth) -> None:
        known = _Known(self._world, message)
        known.delay.cancels += 1
        command = CancelDelayed(
            topic=message.topic.name, partition=known.first.partition, offset=known.offset
        )
        self._world.ask(command, known.check_cancelled)

    def find(self) -> None:
        message = self._choose()
        if message is not None:
            self._find(message)

    def _find(self, message: MessageTruth) -> None:
        known = _Known(self._world, message)

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, DelayedDescription):
                known.check(reply)
            elif isinstance(reply, Refused) and reply.code is Code.MESSAGE_NOT_FOUND:
                known.check_missing()

        command = FindDelayed(
            topic=message.topic.name, partition=known.first.partition, offset=known.offset
        )
        self._world.ask(command, done)

    def find_all(self) -> None:
        """Look up every known message."""
        for message in self._world.ledger.delayed:
            if _is_there(message):
                self._find(message)

    def list_any(self) -> None:
        topics = [each for each in self._world.ledger.topics.values() if not each.is_leaving]
        if topics:
            topic, limit = self._random.choice(topics), self._random.choice([1, 3, _LIMIT])
            self._list(topic, limit, skip=self._random.choice([0, 0, 2]))

    def list_all(self) -> list[DelayedDescription]:
        """List the pending messages of every topic."""
        world = self._world
        lists: list[DelayedList] = []
        for topic in list(world.ledger.topics.values()):
            self._list(topic, _LIMIT, lists)
        world.process.settle(world.now)
        found = [message for each in lists for message in each.messages]
        statistics = world.ask_now(DescribeDelays())
        if isinstance(statistics, DelayStatistics) and statistics.pending != len(found):
            raise Violation("wrong-total", f"{statistics} is not {len(found)}")
        return found

    def _list(
        self,
        topic: TopicTruth,
        limit: int,
        lists: list[DelayedList] | None = None,
        *,
        skip: int = 0,
    ) -> None:
        world = self._world
        messages = [each for each in world.ledger.delayed if each.topic is topic]
        known = {
            each.delay.first: _Known(world, each)
            for each in messages
            if each.delay is not None and each.delay.first is not None
        }

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, DelayedList) and not (topic.is_leaving or topic.is_gone):
                _check_list(known, reply, is_whole=limit == _LIMIT and not skip)
                if lists is not None:
                    lists.append(reply)

        world.ask(ListDelayed(topic=topic.name, limit=limit, skip=skip), done)


def _check_list(known: dict[Place, _Known], reply: DelayedList, *, is_whole: bool) -> None:
    places = [Place(each.log.partition, each.offset) for each in reply.messages]
    dues = [each.due for each in reply.messages]
    if dues != sorted(dues) or len(set(places)) != len(places):
        raise Violation("list-out-of-order", f"{reply}")
    if is_whole and len(places) != reply.total:
        raise Violation("wrong-total", f"{reply.total} of {len(places)}")
    for place, described in zip(places, reply.messages, strict=True):
        if described.state is not DelayState.PENDING:
            raise Violation("ended-message-listed", f"{described}")
        if place in known:
            known[place].check(described)
    if is_whole:
        missing = [known[place] for place in known if place not in places]
        for each in missing:
            if each.is_surely_pending:
                raise Violation("pending-message-not-listed", each.name)


def _is_there(message: MessageTruth) -> bool:
    is_known = message.delay is not None and message.delay.first is not None
    return is_known and not (message.topic.is_leaving or message.topic.is_gone)
