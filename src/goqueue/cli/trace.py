"""`goqueue trace`: follow one message, list and search traces.

A trace is drawn as a tree of spans with the time since its start. A span is drawn below the one
that it follows from; one whose parent is not kept is drawn at the root. What a line has in common
with its parent is not repeated. Text from the server is shown without control characters.
"""

import datetime as dt
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import click
import msgspec

from goqueue.cli.client import Session, ask, run_session
from goqueue.cli.errors import ServerRefusal
from goqueue.cli.options import (
    Output,
    Place,
    Whole,
    complete_groups,
    complete_topics,
    limit_option,
    output_option,
    place_argument,
    server_options,
    topic_argument,
)
from goqueue.cli.output import Reply, console, printable, show, table, write_items
from goqueue.cli.quantities import read_time, shown_time
from goqueue.client.traces import (
    Trace,
    TraceCriteria,
    TraceEvent,
    TraceFacts,
    TraceList,
    TraceStats,
)
from goqueue.model import MILLISECOND, SECOND, format_duration, parse_duration

__all__ = [
    "draw_page",
    "draw_stats",
    "draw_trace",
    "elapsed",
    "find_message",
    "place",
    "read_criteria",
    "timeline",
    "trace",
]

_DETAIL_COLUMNS_MIN = 20
_COLUMNS_WITH_DURATION = 100
_LISTED_MAX = 1000
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
        f"start    {shown_time(trace.start_time)}",
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
        words.append(f"due {shown_time(facts.deliver_at)}")
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


def draw_page(page: TraceList) -> None:
    if not page.traces:
        print("no matching traces")
        return
    screen = console()
    # Of 80 columns id and time alone take 58, and an id that is broken cannot be copied.
    has_room = screen.width >= _COLUMNS_WITH_DURATION
    rows = []
    for each in page.traces:
        took = (elapsed(round(each.duration_ms * MILLISECOND)),) if has_room else ()
        message = place(each.topic, each.partition, each.offset) or "-"
        rows.append((each.trace_id, shown_time(each.start_time), each.status, *took, message))
    headings = ("TRACE", "START", "STATUS", *(("TOOK",) if has_room else ()), "MESSAGE")
    drawn = table(headings, rows)
    drawn.padding = (0, 1, 0, 0)
    for column in drawn.columns[:-1]:
        column.no_wrap = True
    screen.print(drawn)
    left = page.total - len(rows)
    if left > 0:
        print(f"{left} more: use -n N, up to 1000")


def draw_trace(trace: Trace) -> None:
    for line in timeline(trace, console().width):
        print(line)


def draw_stats(stats: TraceStats) -> None:
    facts = [
        ("traces", str(stats.traces_total)),
        ("completed", str(stats.traces_completed)),
        ("error", str(stats.traces_error)),
        ("pending", str(stats.traces_pending)),
        ("average latency", elapsed(parse_duration(stats.avg_latency))),
        ("sampling", f"{stats.sampling_rate:g}"),
        ("spans kept", f"{stats.spans_in_buffer} of {stats.buffer_capacity}"),
    ]
    console().print(table(("FIELD", "VALUE"), facts))


async def find_message(session: Session, topic: str, wanted: Place) -> Reply[Trace]:
    """The trace of the message at a place; one sentence if none is kept."""
    traces = session.q.traces
    found = await traces.search(
        topic=topic, partition=wanted.partition, offset=wanted.offset, limit=1
    )
    if found.traces:
        return await session.ask(lambda q: q.traces.get(found.traces[0].trace_id))
    stats = await traces.stats()
    raise ServerRefusal(_sentence(f"{topic} {wanted}", stats))


def _sentence(message: str, stats: TraceStats) -> str:
    if not stats.sampling_rate:
        return f"no trace of {message}: tracing is off on the server (tracing.sampling is 0)"
    return (
        f"no trace of {message}: the server keeps the last {stats.buffer_capacity:,} spans since "
        "it started; older ones are only where it exports them (settings tracing.*)"
    )


_TIMES = ("start", "end")


def read_criteria(given: Mapping[str, str | int | None]) -> TraceCriteria:
    """What the flags ask for; a time that is none is a usage error."""
    now_ns = time.time_ns()
    wanted = {
        flag: read_time(flag, value, now_ns) if flag in _TIMES and isinstance(value, str) else value
        for flag, value in given.items()
        if value is not None
    }
    return cast("TraceCriteria", wanted)


_limit = limit_option("traces, up to 1000")


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.completion import known_traces

    return known_traces(context, incomplete)


@click.group("trace")
@server_options
@output_option
def trace(output: Output) -> None:
    """Show what happened to messages: publish, delay, delivery, dead letter, ack.

    The server keeps the newest events since it started, in memory.
    """


@trace.command("message", short_help="Show the trace of one message.")
@topic_argument
@place_argument
@server_options
@output_option
def message_command(topic: str, place: Place, output: Output) -> None:
    """Show the trace of the message that is, or was, at PARTITION:OFFSET of TOPIC."""
    found = run_session(lambda session: find_message(session, topic, place))
    show(found, output, draw_trace)


@trace.command("list", short_help="List the newest traces.")
@_limit
@click.option("--all", "is_all", is_flag=True, help="Also traces without a message: rebalances.")
@server_options
@output_option
def list_command(limit: int, output: Output, *, is_all: bool) -> None:
    """List traces of messages, newest first."""
    asked = limit if is_all else _LISTED_MAX
    reply = ask(lambda q: q.traces.list(limit=asked))
    document = msgspec.json.decode(reply.body)
    if not is_all:
        listed = document["traces"]
        kept = [each for each in listed if each["partition"] >= 0 or each["status"] != "completed"]
        document = {"traces": kept[:limit], "total": document["total"] - len(listed) + len(kept)}
    if output.is_table:
        draw_page(msgspec.convert(document, type=TraceList))
    else:
        write_items(document, "traces", output)


@trace.command("get", short_help="Show one trace.")
@click.argument("trace_id", metavar="ID", shell_complete=_complete)
@server_options
@output_option
def get_command(trace_id: str, output: Output) -> None:
    """Show the events of the trace ID as a tree."""
    show(ask(lambda q: q.traces.get(trace_id)), output, draw_trace)


@trace.command("search", short_help="List traces with a matching event.")
@click.option(
    "--topic", metavar="TOPIC", shell_complete=complete_topics, help="Topic of the event."
)
@click.option("--partition", type=Whole(0), metavar="N", help="Partition of the event.")
@click.option("--offset", type=Whole(0), metavar="N", help="Offset of the event.")
@click.option("--key", metavar="KEY", help="Key that the message was published with.")
@click.option(
    "--group", metavar="GROUP", shell_complete=complete_groups, help="Consumer group of the event."
)
@click.option("--consumer", metavar="ID", help="Member of the group.")
@click.option("--start", metavar="TIME", help="Not before a timestamp, or a duration ago (15m).")
@click.option("--end", metavar="TIME", help="Not after a timestamp, or a duration ago (15m).")
@click.option(
    "--status",
    type=click.Choice(["completed", "error", "pending"]),
    help="Status of the trace.",
)
@_limit
@server_options
@output_option
def search_command(output: Output, limit: int, **given: str | int | None) -> None:
    """List the traces with an event that matches all options, newest first."""
    wanted = read_criteria(given)
    show(ask(lambda q: q.traces.search(limit=limit, **wanted)), output, draw_page, items="traces")


@trace.command("stats", short_help="Count traces.")
@server_options
@output_option
def stats_command(output: Output) -> None:
    """Count the traces that are kept, and show the sampling rate."""
    show(ask(lambda q: q.traces.stats()), output, draw_stats)
