"""What one micro-batch did, made of what Spark reports about it.

Pure. Owns the names under which a plan counts, because what is counted under them is read here:
`goqueue.out` for the rows of the result and the aggregates of `observe`, `goqueue.in:<view>` and
`goqueue.letters:<view>` for a source with dead letters, `goqueue:<step>` for the expectations about
a step.

Invariant: positions are those after the batch; lag is how far the topic went on beyond them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

__all__ = [
    "IN",
    "LETTERS",
    "OUT",
    "ROWS",
    "BatchProgress",
    "PartitionProgress",
    "Violations",
    "batch_progress",
    "counter_name",
    "positions",
    "total_lag",
]

OUT = "goqueue.out"
IN = "goqueue.in:"
LETTERS = "goqueue.letters:"
ROWS = "goqueue_rows"


def counter_name(step: str) -> str:
    """Under which name a plan counts the violations of a step."""
    return f"goqueue:{step}"


class PartitionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The next offset to read of a partition, and where it ended then (None: not told)."""

    topic: str
    partition: int
    offset: int
    end: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.offset)


class Violations(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows of a batch were not as expected."""

    expectation: str
    count: int


class BatchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One micro-batch. Rows that left are None if nobody counted them."""

    query_id: str
    batch: int
    at: str
    rows_in: int
    rows_out: int | None
    rows_per_s: float
    batch_ms: int
    lag: int | None
    partitions: tuple[PartitionProgress, ...]
    violations: tuple[Violations, ...] = ()
    observed: dict[str, Any] = {}
    dead_letters: int = 0
    watermark: str | None = None
    state_rows: int = 0
    durations_ms: dict[str, int] = {}


def batch_progress(reported: Mapping[str, Any]) -> BatchProgress:
    """Read a report of Spark: the JSON of a StreamingQueryProgress."""
    observed = dict(reported.get("observedMetrics") or {})
    out = dict(observed.pop(OUT, None) or {})
    durations = dict(reported.get("durationMs") or {})
    partitions = _partitions(reported.get("sources") or ())
    rows_out = out.pop(ROWS, None)
    # Spark counts a row as often as it is read; where that is twice, the plan counts itself.
    rows_in = _counted(observed, IN) or int(reported.get("numInputRows") or 0)
    watermark = (reported.get("eventTime") or {}).get("watermark")
    return BatchProgress(
        query_id=str(reported["id"]),
        batch=int(reported["batchId"]),
        at=str(reported["timestamp"]),
        rows_in=rows_in,
        rows_out=None if rows_out is None else int(rows_out),
        rows_per_s=float(reported.get("processedRowsPerSecond") or 0.0),
        batch_ms=int(durations.get("triggerExecution", 0)),
        lag=total_lag(partitions),
        partitions=partitions,
        violations=_violations(observed),
        observed=out,
        dead_letters=_counted(observed, LETTERS),
        # Spark tells the beginning of time while it has seen no event.
        watermark=None if str(watermark).startswith("1970-") else watermark,
        state_rows=sum(int(each["numRowsTotal"]) for each in reported.get("stateOperators") or ()),
        durations_ms=durations,
    )


def total_lag(partitions: tuple[PartitionProgress, ...]) -> int | None:
    lags = [each.lag for each in partitions if each.lag is not None]
    return sum(lags) if lags else None


def _counted(observed: Mapping[str, Mapping[str, Any]], prefix: str) -> int:
    return sum(
        int(counts.get(ROWS) or 0)
        for counter, counts in observed.items()
        if counter.startswith(prefix)
    )


def _violations(observed: Mapping[str, Mapping[str, Any]]) -> tuple[Violations, ...]:
    counted = [
        Violations(expectation=name, count=int(count or 0))
        for counter, counts in observed.items()
        if counter.startswith("goqueue:")
        for name, count in counts.items()
    ]
    return tuple(sorted(counted, key=lambda each: each.expectation))


class _Position(msgspec.Struct, frozen=True):
    """The part of a stored offset that counts here: that of one topic."""

    offsets: dict[str, int]


def _partitions(sources: Iterable[Mapping[str, Any]]) -> tuple[PartitionProgress, ...]:
    found = [
        PartitionProgress(
            topic=topic, partition=number, offset=offset, end=ends.get(topic, {}).get(number)
        )
        for source in sources
        for ends in [positions(source.get("latestOffset"))]
        for topic, offsets in positions(source.get("endOffset")).items()
        for number, offset in offsets.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.topic, each.partition)))


def positions(stored: object) -> dict[str, dict[int, int]]:
    """Offsets as the connector stores them, by topic and partition; none of another source."""
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except ValueError:
            return {}
    try:
        topics = msgspec.convert(stored, dict[str, _Position])
    except msgspec.ValidationError:
        return {}
    return {
        topic: {int(number): offset for number, offset in each.offsets.items()}
        for topic, each in topics.items()
    }
