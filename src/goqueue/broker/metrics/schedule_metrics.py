"""Metrics of schedules: how many there are, what they sent, and how late.

There may be a hundred thousand schedules, so none has a label of its own.
"""

from collections.abc import Iterator
from operator import attrgetter

from goqueue.broker.metrics.builders import counter, gauge, histogram, plain
from goqueue.broker.state import NodeState
from goqueue.metrics import Family

__all__ = ["schedule_families"]

_PREFIX = "goqueue_broker_schedule"
_COUNTERS = (
    ("_ticks_total", "ticks", "Ticks of schedules whose messages readers see."),
    ("_runs_total", "runs", "Messages of schedules that were published on request."),
    ("_skips_total", "skips", "Times that a schedule skipped ticks which it had missed."),
    ("_failures_total", "failures", "Times that the message of a tick was refused for now."),
)


def schedule_families(state: NodeState) -> Iterator[Family]:
    rows = [((), state.counts.schedules)]
    for name, field, meaning in _COUNTERS:
        yield counter(_PREFIX + name, meaning, (), plain(rows, attrgetter(field)))
    yield histogram(
        _PREFIX + "_lateness_seconds",
        "From the time of a tick until readers see its message.",
        (),
        plain(rows, attrgetter("lateness")),
    )
    yield gauge(_PREFIX + "s", "Schedules.", (), [((), len(state.schedules))])
    yield gauge(
        _PREFIX + "_message_bytes",
        "Bytes of the messages of all schedules.",
        (),
        [((), state.schedules.message_bytes)],
    )
