"""Transactions and their producers, as the clients that use them know them.

Where an answer was lost both outcomes are possible; an outcome that was reported once stays.
"""

from collections.abc import Callable

from goqueue.model import SECOND, Instant
from goqueue.sim.oracle import Violation

__all__ = ["IdentityTruth", "KeyTruth", "TransactionTruth"]

_SILENCE_NS = 30 * SECOND


class TransactionTruth:
    """One transaction, from the request to begin it."""

    def __init__(self, number: int, process: str, epoch: int, began_at: Instant) -> None:
        self.number = number
        self.process = process
        self.epoch = epoch
        # It began no earlier, and no later than it was told.
        self.began_at = began_at
        self.told_at = began_at
        self.timeout_ns = 0
        self.transaction_id: str | None = None
        # Commits that were asked for and not refused: each may have been granted.
        self.commits = 0
        self.outcome: bool | None = None
        # Somebody wants it to wait for the decision of a group, and was told that it does.
        self.is_prepared = False
        self.is_closed = False
        # It must be whole to be of use; part of it failed or is in doubt: then it is not committed.
        self.is_strict = False
        self.is_spoiled = False
        # What is on its way and must be answered before an honest commit, and the messages of it.
        self.pending = 0
        self.sending = 0
        self._endings: list[Callable[[bool], None]] = []
        self._was_silent = False
        self._receipts: dict[str, None] = {}

    @property
    def may_commit(self) -> bool:
        return self.outcome is True or (self.outcome is None and self.commits > 0)

    def hold(self, receipt: str) -> None:
        """Add the message of a receipt, to be acked with the transaction."""
        self._receipts[receipt] = None

    def holds(self, receipt: str) -> bool:
        return receipt in self._receipts

    def when_ended(self, ending: Callable[[bool], None]) -> None:
        """Call back with the outcome once it is certain."""
        if self.outcome is None:
            self._endings.append(ending)
        else:
            ending(self.outcome)

    def end(self, *, is_commit: bool) -> bool:
        """Record the certain outcome; False if it was known."""
        if self.outcome is not None:
            if self.outcome != is_commit:
                raise Violation(
                    "ended-both-ways", f"{self.transaction_id}: {self.outcome} and {is_commit}"
                )
            return False
        if is_commit and not self.commits:
            raise Violation("committed-by-nobody", f"{self.transaction_id} of {self.process}")
        self.outcome = is_commit
        endings, self._endings = self._endings, []
        for ending in endings:
            ending(is_commit)
        return True

    def is_surely_over(self, served_at: Instant, heard_at: Instant, now: Instant) -> bool:
        """Whether it has certainly timed out."""
        if self.is_prepared:
            return False
        since = max(self.told_at, served_at)
        is_late = since + self.timeout_ns < now
        return is_late or max(heard_at, served_at) + _SILENCE_NS < now

    def is_surely_in_time(self, heard_at: Instant, now: Instant) -> bool:
        """Whether it has certainly not timed out, if clocks do not jump."""
        is_heard = now < heard_at + _SILENCE_NS and not self._was_silent
        return now < self.began_at + self.timeout_ns and is_heard

    def hear(self, heard_at: Instant, now: Instant) -> None:
        """Its holder is heard of, maybe too late."""
        self._was_silent = self._was_silent or heard_at + _SILENCE_NS <= now


class IdentityTruth:
    """One transactional id: its epochs and its transactions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.producer_id: int | None = None
        self.epochs: dict[int, None] = {}
        # Questions that may have raised the epoch and were never answered.
        self.doubts = 0
        self.transactions: list[TransactionTruth] = []

    @property
    def epoch(self) -> int:
        """The highest epoch that was granted, -1 for none."""
        return max(self.epochs, default=-1)

    def has_newer(self, epoch: int) -> bool:
        """Whether a newer epoch was, or may have been, granted."""
        return epoch < self.epoch or self.doubts > 0

    def granted(self, producer_id: int, epoch: int, at_least: int) -> list[TransactionTruth]:
        """A new epoch was granted; returns the transactions of older epochs, which have ended.

        `at_least` is the highest epoch that was known when the request was sent.
        """
        if self.producer_id not in {None, producer_id}:
            raise Violation("producer-changed", f"{self.name}: {self.producer_id}, {producer_id}")
        if epoch in self.epochs or epoch <= at_least:
            raise Violation("epoch-given-again", f"{self.name}: {epoch} after {at_least}")
        self.producer_id = producer_id
        self.epochs[epoch] = None
        return [each for each in self.transactions if each.epoch < epoch and each.outcome is None]


class KeyTruth:
    """One key of group commits, and the commits that were requested under it."""

    def __init__(self, key: str, age: int) -> None:
        self.key = key
        # How often days had passed when it was first used.
        self.age = age
        # Groups of which it is not known that they were refused.
        self.asked: list[list[TransactionTruth]] = []
        self.winner: list[TransactionTruth] | None = None

    def may_be_used_before(self, group: list[TransactionTruth]) -> bool:
        """Whether another group commit may have used the key."""
        return any(each is not group for each in self.asked)

    def won(self, group: list[TransactionTruth]) -> None:
        """A group commit was told that it is the first under this key."""
        if self.winner is not None and self.winner is not group:
            raise Violation("key-forgotten", self.key)
        self.winner = group
