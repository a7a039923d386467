"""Checkers of reads: in order, without gaps, and nothing above the last stable offset."""

from collections.abc import Iterator
from itertools import pairwise

from goqueue.sim.history.events import Polled
from goqueue.sim.history.evidence import Evidence

__all__ = [
    "nonmonotonic_polls",
    "nonmonotonic_polls_within",
    "precommitted_reads",
    "skipping_polls",
    "skipping_polls_within",
    "unstable_reads",
]


def nonmonotonic_polls_within(evidence: Evidence) -> Iterator[str]:
    """Offsets fall within one answer, or lie outside the requested range."""
    for _, poll in evidence.polls:
        offsets = [offset for offset, _ in poll.values]
        is_rising = all(before < after for before, after in pairwise(offsets))
        is_inside = all(poll.first <= offset < poll.upto for offset in offsets)
        if not is_rising or not is_inside:
            yield f"{poll.reader} was shown {offsets} of {poll.log} {poll.first}..{poll.upto}"


def skipping_polls_within(evidence: Evidence) -> Iterator[str]:
    """One answer leaves out an offset that other readers see."""
    known = _committed_offsets(evidence)
    for _, poll in evidence.polls:
        end = min(poll.upto, evidence.shaken.get(poll.log, poll.upto))
        shown = {offset for offset, _ in poll.values}
        for offset, value in known.get(poll.log, {}).items():
            if poll.first <= offset < end and offset not in shown:
                yield f"{poll.reader} was not shown {value} at {poll.log}:{offset}"


def _committed_offsets(evidence: Evidence) -> dict[str, dict[int, int]]:
    """What readers of committed messages saw, by log and offset."""
    known: dict[str, dict[int, int]] = {}
    for value in evidence.committed:
        for log, offset in evidence.places.get(value, {}):
            known.setdefault(log, {})[offset] = value
    return known


def _followed(evidence: Evidence) -> Iterator[tuple[Polled, Polled]]:
    """Each two neighbouring answers to one reader that follows a log."""
    last: dict[tuple[str, str], Polled] = {}
    for _, poll in evidence.polls:
        key = (poll.reader, poll.log)
        before = last.get(key)
        is_shaken = poll.first > evidence.shaken.get(poll.log, poll.first)
        if before is not None and not is_shaken:
            yield before, poll
        last[key] = poll


def nonmonotonic_polls(evidence: Evidence) -> Iterator[str]:
    """A reader that follows a log gets the same offset twice."""
    for before, after in _followed(evidence):
        highest = max((offset for offset, _ in before.values), default=-1)
        lowest = min((offset for offset, _ in after.values), default=highest + 1)
        if lowest <= highest:
            yield f"{after.reader} was shown {after.log}:{lowest} after {highest}"


def skipping_polls(evidence: Evidence) -> Iterator[str]:
    """A reader that follows a log misses offsets between two answers."""
    known = _committed_offsets(evidence)
    for before, after in _followed(evidence):
        for offset, value in known.get(after.log, {}).items():
            if before.upto <= offset < after.first and offset >= after.start:
                yield f"{after.reader} went past {value} at {after.log}:{offset}"


def precommitted_reads(evidence: Evidence) -> Iterator[str]:
    """A reader of committed messages saw one before its commit was requested."""
    for value, at in evidence.committed.items():
        trial = evidence.trial_of(value)
        if trial is not None and trial.commits_asked and at < trial.commits_asked[0]:
            yield f"{value} of transaction {trial.number} was seen while that was open"


def unstable_reads(evidence: Evidence) -> Iterator[str]:
    """A reader of committed messages saw one above the last stable offset."""
    for _, poll in evidence.polls:
        beyond = [offset for offset, _ in poll.values if offset >= poll.stable]
        if poll.is_committed and beyond:
            yield f"{poll.reader} was shown {poll.log}:{beyond}, stable is {poll.stable}"
