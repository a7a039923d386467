"""One journey as lines of text: what happened after how long, as a tree.

A span hangs below the one that it followed from; one whose parent is not kept hangs at the root.
What a line has in common with the line above it in the tree is not said again. Everything that
came from a server is shown without control characters.
"""

import datetime as dt
import textwrap
from collections.abc import Iterator, Sequence

import msgspec

from goqueue.cli.render import printable
from goqueue.client.admin import Trace, TraceEvent, TraceFacts
from goqueue.model import MILLISECOND, SECOND, format_duration

__all__ = ["elapsed", "place", "timeline"]

_DETAIL_COLUMNS_MIN = 20
# Of a tree that a server means well with: a message, its deliveries, what became of them.
_DEPTH_MAX = 8
_MICROSECOND = dt.timedelta(microseconds=1)
_NANOSECONDS = 1000
_MINUTE_SECONDS = 60
_BRANCH, _LAST_BRANCH, _TRUNK, _GAP = "├─ ", "└─ ", "│  ", "   "
_ENDS = {"completed": "completed in", "error": "error after", "pending": "pending; last seen after"}


class _Span(msgspec.Struct):
    """Events of one span, and the spans below it."""

    events: list[TraceEvent]
    children: "list[_Span]"
    is_placed: bool = False


class _Line(msgspec.Struct, frozen=True):
    """One event: when, the tree with its name, what else is said, and the tree below it."""

    after: str
    event: str
    words: str
    below: str


def timeline(trace: Trace, width: int) -> list[str]:
    """The whole journey, in lines of at most `width` columns where that can be."""
    roots = _tree(trace.events)
    begin = min((event.timestamp for event in trace.events), default=trace.start_time)
    lines = list(_lines(roots, begin, "", None))
    event_columns = max((len(line.event) for line in lines), default=0)
    after_columns = max((len(line.after) for line in lines), default=0)
    return [*_head(trace), "", *_laid_out(lines, after_columns, event_columns, width)]


def place(topic: str, partition: int, offset: int) -> str:
    """A topic, and partition and offset where something was written."""
    if partition < 0:
        return printable(topic)
    return printable(f"{topic} {partition}:{offset}" if offset >= 0 else f"{topic} {partition}")


def elapsed(span_ns: int) -> str:
    """A time that has passed, with as many digits as anybody follows."""
    if span_ns < SECOND:
        return f"{span_ns / MILLISECOND:.1f} ms" if span_ns else "0 ms"
    if span_ns < _MINUTE_SECONDS * SECOND:
        return f"{span_ns / SECOND:.3f} s"
    return format_duration(span_ns - span_ns % SECOND)


def _head(trace: Trace) -> list[str]:
    end = _ENDS.get(trace.status, f"{printable(trace.status)}; last seen after")
    took = elapsed(round(trace.duration_ms * MILLISECOND))
    where = place(trace.topic, trace.partition, trace.offset)
    return [
        f"trace    {printable(trace.trace_id)}",
        f"message  {where}",
        f"start    {trace.start_time:%Y-%m-%d %H:%M:%S} UTC",
        f"status   {end} {took}, {trace.event_count} events",
    ]


# The tree


def _tree(events: Sequence[TraceEvent]) -> list[_Span]:
    """The spans that have no parent here, each with those below it, in order of time."""
    spans: dict[str, _Span] = {}
    for event in events:
        spans.setdefault(event.span_id, _Span([], [])).events.append(event)
    roots: list[_Span] = []
    for span in spans.values():
        parent = spans.get(span.events[0].parent_span_id or "")
        (roots if parent is None else parent.children).append(span)
    for root in roots:
        _place(root)
    for span in spans.values():
        # What is too deep to be shown in its place, or part of a ring of parents.
        if not span.is_placed:
            roots.append(span)
            _place(span)
    return roots


def _place(root: _Span) -> None:
    """Mark what is reached from here; what is too deep, or was reached before, is let go."""
    root.is_placed = True
    level = [root]
    for depth in range(_DEPTH_MAX + 1):
        following: list[_Span] = []
        for span in level:
            fresh = [child for child in span.children if not child.is_placed]
            span.children = fresh if depth < _DEPTH_MAX else []
            for child in span.children:
                child.is_placed = True
            following += span.children
        level = following


def _lines(
    spans: Sequence[_Span], begin: dt.datetime, trunk: str, above: TraceFacts | None
) -> Iterator[_Line]:
    for index, span in enumerate(spans):
        lead = below = trunk
        if above is not None:
            is_last = index == len(spans) - 1
            lead += _LAST_BRANCH if is_last else _BRANCH
            below += _GAP if is_last else _TRUNK
        under = below + (_TRUNK if span.children else "")
        said = above
        for event in span.events:
            after = elapsed((event.timestamp - begin) // _MICROSECOND * _NANOSECONDS)
            yield _Line(after, lead + printable(event.event_type), _words(event, said), under)
            # What else belongs to the span stands below its first event.
            lead, said = below, event.details
        yield from _lines(span.children, begin, below, said)


def _words(event: TraceEvent, said: TraceFacts | None) -> str:
    """What is new against the line above."""
    facts = event.details
    words = []
    before = TraceFacts() if said is None else said
    where = place(facts.topic, facts.partition, facts.offset)
    if where != place(before.topic, before.partition, before.offset):
        words.append(where)
    has_attempt = facts.delivery_count not in (0, before.delivery_count)
    if facts.consumer_group not in ("", before.consumer_group) or has_attempt:
        words.append(printable(facts.consumer_group))
    if has_attempt:
        words.append(f"attempt {facts.delivery_count}")
    if facts.consumer_id not in ("", before.consumer_id):
        words.append(printable(facts.consumer_id))
    if facts.deliver_at is not None and event.event_type == "delay.scheduled":
        words.append(f"due {facts.deliver_at:%Y-%m-%d %H:%M:%S} UTC")
    if facts.error:
        words.append(printable(facts.error))
    return ", ".join(word for word in words if word)


# The page


def _laid_out(
    lines: Sequence[_Line], after_columns: int, event_columns: int, width: int
) -> Iterator[str]:
    indent = after_columns + 2
    room = max(_DETAIL_COLUMNS_MIN, width - indent - event_columns - 2)
    for line in lines:
        first, *rest = textwrap.wrap(line.words, room) or [""]
        yield f"{line.after:>{after_columns}}  {line.event:<{event_columns}}  {first}".rstrip()
        for words in rest:
            yield f"{' ' * indent}{line.below:<{event_columns}}  {words}"
