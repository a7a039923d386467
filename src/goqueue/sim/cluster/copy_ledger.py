"""What clients of transactions in a cluster were promised, and the judge of what readers see.

Each value that is written names its attempt, which is one transaction as its client knows it. What
was committed is there, whole and once; what was aborted is not; where the answer was lost it is all
or nothing. Values that are copies name their source, and each source has one copy.
"""

from goqueue.model import LogId, TransactionKey
from goqueue.sim.oracle import Violation

__all__ = ["Attempt", "CopyLedger"]


class Attempt:
    """One transaction of a client."""

    __slots__ = ("is_committed", "may_commit", "name", "partitions", "transaction", "values")

    def __init__(self, name: str, transaction: TransactionKey) -> None:
        self.name = name
        self.transaction = transaction
        # Values that were stored, by their partition; those of unknown outcome are not among them.
        self.values: dict[bytes, int] = {}
        # Partitions that it surely takes part in.
        self.partitions: dict[LogId, None] = {}
        # Whether a commit was asked for, and what became of it; None: not known.
        self.may_commit = False
        self.is_committed: bool | None = None


class CopyLedger:
    """All attempts, and what readers of committed messages have seen so far."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}
        # What a reader that goes on has seen of each partition.
        self._seen: dict[int, dict[int, bytes]] = {}
        self.committed_total = 0
        self.aborted_total = 0

    def begin(self, client: str, transaction: str) -> Attempt:
        producer, number = map(int, transaction.split("-"))
        name = f"{client}/{len(self._attempts)}"
        attempt = Attempt(name, TransactionKey(producer, number))
        self._attempts[name] = attempt
        return attempt

    def end(self, attempt: Attempt, *, is_commit: bool) -> None:
        """A client was told the outcome."""
        if attempt.is_committed not in {None, is_commit}:
            raise Violation("a decision is final", f"{attempt.name}: {attempt.is_committed}")
        if is_commit and not attempt.may_commit:
            raise Violation("nobody commits but the client", attempt.name)
        if attempt.is_committed is None:
            self.committed_total += is_commit
            self.aborted_total += not is_commit
        attempt.is_committed = is_commit

    def see(self, partition: int, offset: int, value: bytes) -> None:
        """A reader of committed messages got one."""
        attempt = self._of(value)
        if attempt.is_committed is False or not attempt.may_commit:
            raise Violation("nobody sees what is not committed", f"{value!r}: {attempt.name}")
        known = self._seen.setdefault(partition, {})
        if known.setdefault(offset, value) != value:
            raise Violation("the message is the one at its offset", f"{known[offset]!r} {value!r}")

    def _of(self, value: bytes) -> Attempt:
        attempt = self._attempts.get(value.decode().split("|")[0])
        if attempt is None:
            raise Violation("only what was sent", f"{value!r}")
        return attempt

    # The end

    def check_end(self, found: dict[int, dict[int, bytes]], sources: set[str]) -> None:
        """All that readers see in the end, by partition and offset, and what there was to copy."""
        for partition, seen in self._seen.items():
            for offset, value in seen.items():
                if found[partition].get(offset) != value:
                    raise Violation("what was seen stays", f"{partition} {offset}: {value!r}")
            # It went on in order: whatever is before its end it has seen.
            last = max(seen, default=-1)
            missed = [each for each in found[partition] if each <= last and each not in seen]
            if missed:
                raise Violation("no reader overtakes a transaction", f"{partition} {missed[:3]}")
        values = [value for content in found.values() for value in content.values()]
        there = dict.fromkeys(values)
        if len(there) != len(values):
            twice = [each for each in there if values.count(each) > 1]
            raise Violation("stored once", f"{twice[:3]}")
        shown: dict[str, None] = {}
        for value in values:
            attempt = self._of(value)
            shown[attempt.name] = None
            if attempt.is_committed is False or not attempt.may_commit:
                raise Violation("nobody sees what is not committed", f"{value!r}")
        for attempt in self._attempts.values():
            is_shown = bool(attempt.is_committed) or attempt.name in shown
            missing = [each for each in attempt.values if each not in there]
            if is_shown and missing:
                raise Violation("all or nothing", f"{attempt.name} lacks {missing[:3]}")
        self._check_copies(values, sources)

    def _check_copies(self, values: list[bytes], sources: set[str]) -> None:
        copied: dict[str, bytes] = {}
        for value in values:
            _, kind, source = value.decode().split("|")
            if kind != "copy":
                continue
            if source in copied:
                raise Violation("copied once", f"{source}: {copied[source]!r} and {value!r}")
            copied[source] = value
        missing = sorted(sources - set(copied))
        if missing:
            raise Violation("everything is copied", f"{missing[:5]}")
