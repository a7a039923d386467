"""Checkers of writes: nothing is lost, invented, moved or stored twice.

Each takes the evidence and returns one line per finding.
"""

from collections.abc import Iterator

from goqueue.sim.history.evidence import Evidence, Send

__all__ = [
    "aborted_reads",
    "duplicates",
    "failed_reads",
    "fenced_appends",
    "inconsistent_offsets",
    "lost_writes",
    "nonmonotonic_sends",
    "nonmonotonic_sends_within",
    "repeated_sequences",
    "unseen",
]


def lost_writes(evidence: Evidence) -> Iterator[str]:
    """An acknowledged value was never seen, although a later one was."""
    seen_upto: dict[str, int] = {}
    for value in evidence.committed:
        for log, offset in evidence.places.get(value, {}):
            seen_upto[log] = max(offset, seen_upto.get(log, -1))
    starts = evidence.starts()
    for value, send in evidence.sends.items():
        if not evidence.must_be_seen(value) or value in evidence.committed:
            continue
        assert send.taken is not None
        log, offset = send.taken
        if starts.get(log, 0) <= offset < seen_upto.get(log, -1):
            yield f"{value} at {log}:{offset} was never seen, {log}:{seen_upto[log]} was"


def unseen(evidence: Evidence) -> Iterator[str]:
    """An acknowledged value is missing in a complete read at the end."""
    starts = evidence.starts()
    for (reader, log), contents in evidence.finals.items():
        for value, send in evidence.sends.items():
            if send.taken is None or send.taken[0] != log or not evidence.must_be_seen(value):
                continue
            offset = send.taken[1]
            if offset >= starts[log] and contents.get(offset) != value:
                yield f"{reader} sees {contents.get(offset)} instead of {value} at {log}:{offset}"


def failed_reads(evidence: Evidence) -> Iterator[str]:
    """A value that was certainly refused was seen, in any isolation."""
    for value, send in evidence.sends.items():
        if send.has_failed and (value in evidence.seen or value in evidence.committed):
            yield f"{value} failed and is at {list(evidence.places[value])}"


def aborted_reads(evidence: Evidence) -> Iterator[str]:
    """A reader of committed messages saw one that was aborted or never committed."""
    for value in evidence.committed:
        trial = evidence.trial_of(value)
        if trial is not None and not trial.may_commit:
            yield f"{value} of transaction {trial.number} at {list(evidence.places[value])}"


def inconsistent_offsets(evidence: Evidence) -> Iterator[str]:
    """One offset held two values."""
    for (log, offset), values in evidence.holders.items():
        if len(values) > 1:
            yield f"{log}:{offset} holds {list(values)}"


def duplicates(evidence: Evidence) -> Iterator[str]:
    """One value is at several offsets."""
    for value, places in evidence.places.items():
        if len(places) > 1:
            yield f"{value} is at {list(places)}"


def repeated_sequences(evidence: Evidence) -> Iterator[str]:
    """One number of one producer and epoch is in a log twice."""
    known: dict[tuple[str, str, int], tuple[int, tuple[str, int]]] = {}
    for value, send in evidence.sends.items():
        sequence = send.first.sequence
        if sequence is None:
            continue
        for place in evidence.places.get(value, {}):
            key = (send.first.process, place[0], sequence)
            other = known.setdefault(key, (value, place))
            if other != (value, place):
                yield f"{key} is both {other} and {(value, place)}"


def fenced_appends(evidence: Evidence) -> Iterator[str]:
    """A value is stored that a producer sent after it was fenced."""
    for value, send in evidence.sends.items():
        fenced_at = evidence.fenced.get(send.first.process)
        if fenced_at is not None and send.times[0] > fenced_at and evidence.places.get(value):
            yield f"{value} of {send.first.process} at {list(evidence.places[value])}"


def nonmonotonic_sends(evidence: Evidence) -> Iterator[str]:
    """A value that a process sent later has a lower offset."""
    lines: dict[tuple[str, str], list[Send]] = {}
    for send in evidence.sends.values():
        if send.taken is not None:
            lines.setdefault((send.first.process, send.taken[0]), []).append(send)
    for sends in lines.values():
        yield from _backwards(sends)


def nonmonotonic_sends_within(evidence: Evidence) -> Iterator[str]:
    """The same within one transaction, from any sender."""
    lines: dict[tuple[int, str], list[Send]] = {}
    for send in evidence.sends.values():
        if send.taken is not None and send.first.transaction is not None:
            lines.setdefault((send.first.transaction, send.taken[0]), []).append(send)
    for sends in lines.values():
        yield from _backwards(sends)


def _backwards(sends: list[Send]) -> Iterator[str]:
    """Sends with a lower offset than a value that was acknowledged before they were sent."""
    highest: tuple[int, Send] | None = None
    answered = sorted(
        (send for send in sends if send.taken_at is not None), key=lambda send: send.taken_at or 0
    )
    pending = sorted(sends, key=lambda send: send.times[0])
    index = 0
    for send in pending:
        while index < len(answered) and (answered[index].taken_at or 0) < send.times[0]:
            done = answered[index]
            assert done.taken is not None
            if highest is None or done.taken[1] > highest[0]:
                highest = (done.taken[1], done)
            index += 1
        assert send.taken is not None
        if highest is not None and send.taken[1] < highest[0]:
            yield f"{send.first.value} at {send.taken} was sent after {highest[1].first.value}"
