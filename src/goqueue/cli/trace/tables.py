"""Journeys drawn for a person: many as a table, one as a timeline."""

from goqueue.cli.render import console, table
from goqueue.cli.trace.timeline import elapsed, place, timeline
from goqueue.client.admin import Trace, TraceList, TraceStats
from goqueue.model import MILLISECOND, parse_duration

__all__ = ["draw_page", "draw_stats", "draw_trace"]


def draw_page(page: TraceList) -> None:
    if not page.traces:
        print("no such trace is kept")
        return
    # The day is told only where there are several.
    is_one_day = len({each.start_time.date() for each in page.traces}) == 1
    form = "%H:%M:%S" if is_one_day else "%m-%d %H:%M"
    rows = [
        (
            each.trace_id,
            each.start_time.strftime(form),
            each.status,
            elapsed(round(each.duration_ms * MILLISECOND)),
            place(each.topic, each.partition, each.offset) or "-",
        )
        for each in page.traces
    ]
    drawn = table(("TRACE", "UTC", "STATUS", "TOOK", "MESSAGE"), rows)
    # Close together: of 80 columns the id alone takes 32, and one that is broken cannot be copied.
    drawn.padding = (0, 1, 0, 0)
    for column in drawn.columns[:-1]:
        column.no_wrap = True
    console().print(drawn)
    left = page.total - len(rows)
    if left > 0:
        print(f"{left} more are kept: -n N, up to 1000")


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
