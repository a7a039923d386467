"""Which partition gets messages without a key that come one to a request.

The contract sends messages without a key round robin over the partitions. Where many clients send
one message at a time, one after the other in turn would make every group commit write and sync
every log of the topic. So messages that come within 5 ms go to one partition, then it is the turn
of the next. A client that sends less often than that sees plain round robin. The messages of one
batch are spread one by one by `records.route` and are not counted here.

Invariant: at any time no partition has got more than 512 messages more than another, whatever the
rhythm in which they come. The partitions are served in rounds, and each gets 512 messages in each
round, over as many turns as it takes; a change of their number begins a new round.

Cost: constant per message. Memory: one entry per partition that has had a turn in the round.
"""

from collections import deque

from goqueue.model import MILLISECOND, Instant

__all__ = ["ROUND_MESSAGES", "TURN_NS", "StickyPartitioner"]

# How long one partition gets all messages: about as long as a group commit with its sync takes.
TURN_NS = 5 * MILLISECOND
# How many messages each partition gets in a round.
ROUND_MESSAGES = 512


class StickyPartitioner:
    """Whose turn it is among the partitions of one topic."""

    __slots__ = ("_current", "_left", "_next", "_partitions", "_until", "_waiting")

    def __init__(self) -> None:
        self._partitions = 0
        # The first partition that has had no turn in this round.
        self._next = 0
        # Those that have had one and are owed more messages, and how many.
        self._waiting: deque[tuple[int, int]] = deque()
        self._current = self._left = 0
        self._until = Instant(0)

    def choose(self, partitions: int, now: Instant) -> int:
        """The partition of a message that comes now."""
        if partitions != self._partitions:
            self._partitions = partitions
            self._next = self._left = 0
            self._waiting.clear()
        if now >= self._until or not self._left:
            self._pass_turn()
            self._until = Instant(now + TURN_NS)
        self._left -= 1
        return self._current

    def _pass_turn(self) -> None:
        if self._left:
            self._waiting.append((self._current, self._left))
        if self._next == self._partitions and not self._waiting:
            self._next = 0
        if self._next < self._partitions:
            self._current, self._left = self._next, ROUND_MESSAGES
            self._next += 1
        else:
            self._current, self._left = self._waiting.popleft()
