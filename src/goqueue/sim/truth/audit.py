"""What the audit log has to say of the changes that were asked for."""

from collections import Counter

from goqueue.model.requests import Command
from goqueue.security import AuditRecord, AuditSubject, subject_of
from goqueue.sim.oracle import Violation

__all__ = ["AuditTruth"]


class AuditTruth:
    """How often each change was asked for, and how often it is certain that it happened."""

    def __init__(self) -> None:
        self._asked: Counter[AuditSubject] = Counter()
        self._certain: Counter[AuditSubject] = Counter()

    def asked(self, command: Command) -> None:
        subject = subject_of(command)
        assert subject is not None, "only what is recorded is a change"
        self._asked[subject] += 1

    def happened(self, command: Command) -> None:
        """A command was answered: its change is durable."""
        subject = subject_of(command)
        assert subject is not None
        self._certain[subject] += 1

    def is_there(self, command: Command) -> None:
        """What a command makes is there, whichever of its tries did it."""
        subject = subject_of(command)
        assert subject is not None
        self._certain[subject] = max(1, self._certain[subject])

    def check(self, records: list[AuditRecord]) -> None:
        """No change without its record, none twice, and no record without a change."""
        numbers = [record.number for record in records]
        if numbers != sorted(set(numbers)):
            raise Violation("audit-out-of-order", f"{numbers}")
        found = Counter(AuditSubject(each.action, each.resource) for each in records)
        for subject, certain in self._certain.items():
            if found[subject] < certain:
                raise Violation("change-without-record", f"{subject}: {found[subject]} < {certain}")
        for subject, asked in self._asked.items():
            if found[subject] > asked:
                raise Violation("record-without-change", f"{subject}: {found[subject]} > {asked}")
