"""All checkers by name: the first finding in a history is the verdict about it."""

from collections.abc import Callable, Iterable, Iterator

from goqueue.sim.history.atomicity import (
    copied_twice,
    delivered_while_held,
    passed_while_open,
    torn_groups,
    torn_progress,
    torn_transactions,
    uncopied,
    wrong_stands,
)
from goqueue.sim.history.events import Event
from goqueue.sim.history.evidence import Evidence, gather
from goqueue.sim.history.polls import (
    nonmonotonic_polls,
    nonmonotonic_polls_within,
    precommitted_reads,
    skipping_polls,
    skipping_polls_within,
    unstable_reads,
)
from goqueue.sim.history.sends import (
    aborted_reads,
    duplicates,
    failed_reads,
    fenced_appends,
    inconsistent_offsets,
    lost_writes,
    nonmonotonic_sends,
    nonmonotonic_sends_within,
    repeated_sequences,
    unseen,
)
from goqueue.sim.oracle import Violation

__all__ = ["CHECKERS", "judge"]

Checker = Callable[[Evidence], Iterator[str]]

CHECKERS: dict[str, Checker] = {
    "lost-write": lost_writes,
    "unseen": unseen,
    "failed-read": failed_reads,
    "aborted-read": aborted_reads,
    "inconsistent-offsets": inconsistent_offsets,
    "duplicate": duplicates,
    "repeated-sequence": repeated_sequences,
    "fenced-append": fenced_appends,
    "nonmonotonic-send": nonmonotonic_sends,
    "nonmonotonic-send-within": nonmonotonic_sends_within,
    "nonmonotonic-poll": nonmonotonic_polls,
    "nonmonotonic-poll-within": nonmonotonic_polls_within,
    "poll-skip": skipping_polls,
    "poll-skip-within": skipping_polls_within,
    "precommitted-read": precommitted_reads,
    "unstable-read": unstable_reads,
    "torn-transaction": torn_transactions,
    "torn-group": torn_groups,
    "torn-progress": torn_progress,
    "wrong-stand": wrong_stands,
    "passed-while-open": passed_while_open,
    "delivered-while-held": delivered_while_held,
    "copied-twice": copied_twice,
    "uncopied": uncopied,
}


def judge(events: Iterable[Event]) -> None:
    """Raise a violation for the first thing that is wrong with a history."""
    evidence = gather(events)
    for name, checker in CHECKERS.items():
        for finding in checker(evidence):
            raise Violation(name, finding)
