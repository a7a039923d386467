"""The answers of `goqueue log` for people: tables, and a last line that sums them up."""

import sys
from collections.abc import Iterable, Sequence

import msgspec

from goqueue.cli.log.messages import ShownMessage
from goqueue.cli.log.reindexing import Reindexed
from goqueue.cli.log.statistics import LogStatistics, Statistics
from goqueue.cli.log.verification import Problem, Verification
from goqueue.cli.render import console, cut, printable, sized, table
from goqueue.records import Flag

__all__ = ["MessageTable", "print_reindexed", "print_statistics", "print_verification"]

_NOTES_MAX = 50
_VALUE_WIDTH = 80
_KEY_WIDTH = 24
_SECOND_DIGITS = len("2026-01-01T00:00:00")


def print_verification(verification: Verification) -> None:
    """Problems, torn tails, notes, and one line that sums them up."""
    verdict = verification.verdict
    _print_problems("Problems", verdict.problems)
    _print_problems(
        "Torn tails (cut at the next start, nothing that was committed is lost)", verdict.torn
    )
    _print_notes(verification.notes)
    size = sized(verdict.bytes)
    print(
        f"{_count(verdict.records, 'record')} in {_count(verdict.segments, 'segment')} ({size}): "
        f"{_outcome(verdict.problems, verdict.torn)}"
    )


def print_reindexed(reindexed: Reindexed) -> None:
    _print_problems("Problems", reindexed.problems)
    _print_problems("Torn tails", reindexed.torn)
    rebuilt = _count(reindexed.rebuilt, "index", "indexes")
    print(
        f"{rebuilt} of {_count(reindexed.segments, 'segment')} ({sized(reindexed.bytes)}) rebuilt: "
        f"{_outcome(reindexed.problems, reindexed.torn)}"
    )


def print_statistics(statistics: Statistics) -> None:
    headings = (
        "log",
        "segments",
        "size",
        "earliest",
        "latest",
        "from",
        "to",
        "recovery point",
        "indexes",
        "not served",
    )
    if statistics.logs:
        console().print(table(headings, [_row(log) for log in statistics.logs]))
    _print_cuts(statistics.logs)
    print(
        f"{_count(len(statistics.logs), 'log')}, {_count(statistics.segments, 'segment')}, "
        f"{sized(statistics.bytes)}, {_count(statistics.offsets, 'offset')}, "
        f"{statistics.quarantined} quarantined"
    )


def _row(log: LogStatistics) -> Sequence[str | int]:
    states = msgspec.structs.asdict(log.indexes)
    return (
        f"{log.topic}-{log.partition}",
        log.segments,
        sized(log.bytes),
        log.earliest,
        log.latest,
        _to_the_second(log.earliest_timestamp),
        _to_the_second(log.latest_timestamp),
        "none" if log.recovery_point is msgspec.UNSET else str(log.recovery_point),
        ", ".join(f"{count} {state}" for state, count in states.items() if count) or "none needed",
        f"{_count(log.unserved, 'offset')}, {log.quarantined} quarantined"
        if log.unserved or log.quarantined
        else "",
    )


def _print_cuts(logs: Sequence[LogStatistics]) -> None:
    for log in logs:
        for name in log.cuts:
            print(f"{log.topic}-{log.partition}: {printable(name)} was cut off at a start and kept")


def _to_the_second(timestamp: str | msgspec.UnsetType) -> str:
    return "" if timestamp is msgspec.UNSET else f"{timestamp[:_SECOND_DIGITS]}Z"


def _print_problems(title: str, problems: Sequence[Problem]) -> None:
    if not problems:
        return
    print(f"{title}:")
    headings = ("topic", "partition", "segment", "byte", "offset", "kind", "reason")
    rows = [
        (
            problem.topic,
            problem.partition,
            problem.segment,
            problem.position,
            "" if problem.offset is msgspec.UNSET else str(problem.offset),
            problem.kind,
            problem.reason,
        )
        for problem in problems
    ]
    sys.stdout.flush()
    console().print(table(headings, rows))


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes[:_NOTES_MAX]:
        print(f"note: {note}")
    if len(notes) > _NOTES_MAX:
        print(f"note: and {len(notes) - _NOTES_MAX} more of these")


def _outcome(problems: Sequence[Problem], torn: Sequence[Problem]) -> str:
    words = []
    if problems:
        words.append(_count(len(problems), "problem"))
    if torn:
        words.append(_count(len(torn), "torn tail"))
    return ", ".join(words) or "no problem found"


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or f'{one}s'}"


class MessageTable:
    """Messages line by line as they come, in columns of fixed width: it needs no memory."""

    def __init__(self) -> None:
        print(_line("log", "offset", "timestamp", "priority", "flags", "key", "value"))

    def add(self, message: ShownMessage) -> None:
        key = "" if message.key is msgspec.UNSET else message.key
        print(
            _line(
                f"{message.topic}-{message.partition}",
                str(message.offset),
                message.timestamp,
                message.priority,
                ",".join(_flag_names(message.flags)),
                cut(printable(key[: _KEY_WIDTH + 1]), _KEY_WIDTH),
                _value(message),
            )
        )

    def close(self) -> None:
        """Nothing: the lines are out."""


def _value(message: ShownMessage) -> str:
    if message.value is None:
        return "(null)"
    shown = cut(printable(message.value[: _VALUE_WIDTH + 1]), _VALUE_WIDTH)
    return shown if message.encoding is msgspec.UNSET else f"base64:{shown}"


def _flag_names(flags: int) -> Iterable[str]:
    return (flag.name.lower() for flag in Flag if flag & flags and flag.name)


def _line(*cells: str) -> str:
    log, offset, timestamp, priority, flags, key, value = cells
    line = f"{log:<16} {offset:>10} {timestamp:<30} {priority:<10} {flags:<12} {key:<24} {value}"
    return line.rstrip()
