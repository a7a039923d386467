"""One publish on its way: what its sender concludes about each message from the answer."""

import msgspec

from goqueue.model import Code, Message, Refused
from goqueue.model.requests import Published, Reply
from goqueue.sim.history import Failed, Sent, Taken
from goqueue.sim.node.truth import (
    DELIVER_AT,
    Fate,
    MessageTruth,
    Place,
    TopicTruth,
    TransactionTruth,
    log_name,
)
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation

__all__ = ["Sender", "Sending", "built", "dues_of"]

# Answers after which it is certain that nothing was taken.
_SURE_REFUSALS = frozenset(
    {
        Code.LOG_BUSY,
        Code.PRODUCER_FENCED,
        Code.QUOTA_EXCEEDED,
        Code.SEQUENCE_OUT_OF_ORDER,
        Code.STORAGE_FULL,
        Code.TRANSACTION_STATE_INVALID,
    }
)


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """In whose name messages are sent, and as part of what."""

    process: str
    transaction: TransactionTruth | None = None
    # The number of the first, and the partition that all of them go to.
    sequence: int | None = None
    partition: int | None = None


class Sending:
    """Messages that were sent together."""

    def __init__(
        self, world: World, topic: TopicTruth, messages: list[MessageTruth], sender: Sender
    ) -> None:
        self._world = world
        self._topic = topic
        self._messages = messages
        self._asked: dict[int, int] = {}
        for index, message in enumerate(messages):
            message.doubts += 1
            if message.fate is Fate.REFUSED:
                message.fate = Fate.UNKNOWN
            if sender.transaction is not None:
                message.transaction = message.transaction or sender.transaction
            if message.delay is None:
                self._note_sent(index, message, sender)

    def _note_sent(self, index: int, message: MessageTruth, sender: Sender) -> None:
        transaction = message.transaction
        log = None if sender.partition is None else log_name(self._topic, sender.partition)
        sent = Sent(
            value=message.serial,
            process=sender.process,
            log=log,
            transaction=None if transaction is None else transaction.number,
            sequence=None if sender.sequence is None else sender.sequence + index,
        )
        self._asked[message.serial] = self._world.history.note(sent)

    def answered(self, reply: Reply | Refused | None, *, waits: bool = True) -> None:
        """Conclude what there is to conclude; None: no answer will come."""
        if isinstance(reply, Refused):
            for message in self._messages:
                self._refused(message)
        elif isinstance(reply, Published):
            self._published(reply, waits=waits)

    def _refused(self, message: MessageTruth) -> None:
        message.doubts -= 1
        if not message.doubts and message.fate is not Fate.TAKEN:
            message.fate = Fate.REFUSED
        if message.delay is None:
            failed = Failed(value=message.serial, asked=self._asked[message.serial])
            self._world.history.note(failed)

    def _published(self, reply: Published, *, waits: bool) -> None:
        placed = {each.partition: each for each in reply.placed}
        counts: dict[int, int] = {}
        for message, target in zip(self._messages, reply.targets, strict=True):
            if target < 0:
                self._refused(message)
            elif target not in placed:
                if waits:
                    raise Violation("answer-without-place", f"{reply}")
            elif placed[target].refused is not None:
                if placed[target].refused in _SURE_REFUSALS:
                    self._refused(message)
            else:
                index = counts[target] = counts.get(target, -1) + 1
                place = Place(target, placed[target].first + index)
                self._taken(message, place, is_duplicate=placed[target].is_duplicate)

    def _taken(self, message: MessageTruth, place: Place, *, is_duplicate: bool) -> None:
        self._world.ledger.taken(message, place)
        if message.delay is None and not self._topic.is_gone:
            taken = Taken(
                value=message.serial,
                log=log_name(self._topic, place.partition),
                offset=place.offset,
                asked=self._asked[message.serial],
                is_duplicate=is_duplicate,
            )
            self._world.history.note(taken)


def dues_of(messages: list[MessageTruth]) -> list[int] | None:
    """When each of some messages is due, 0 for at once; None if none of them waits."""
    dues = [0 if each.delay is None else each.delay.due for each in messages]
    return dues if any(dues) else None


def built(message: MessageTruth) -> Message:
    """What is sent of a message."""
    headers: tuple[tuple[str, bytes], ...] = ()
    if message.delay is not None:
        headers = ((DELIVER_AT, b"%d" % message.delay.due),)
    if message.padding:
        headers += (("padding", b"x" * message.padding),)
    return Message(
        value=message.value,
        key=message.key,
        headers=headers,
        priority=message.priority,
        is_delayed=message.delay is not None,
    )
