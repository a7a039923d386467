"""What was measured, as numbers and as words."""

import msgspec

from goqueue.cli.bench.latencies import Latencies
from goqueue.cli.bench.plan import Plan
from goqueue.cli.output import Output
from goqueue.cli.render import console, table, write_document

__all__ = ["Measurement", "show_report"]

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
_MIB = 1024 * 1024
_SHOWN_MAX = 5


class Measurement:
    """Counts of one run; the clock is its caller's."""

    def __init__(self) -> None:
        self.messages = 0
        self.octets = 0
        self.failures = 0
        self.duplicates = 0
        self.latencies = Latencies()
        self.reasons: dict[str, int] = {}

    def note(self, messages: int, octets: int, latency_ns: int) -> None:
        self.messages += messages
        self.octets += octets
        self.latencies.add(latency_ns)

    def note_failed(self, messages: int, reason: str) -> None:
        self.failures += messages
        self.reasons[reason] = self.reasons.get(reason, 0) + messages


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a document."""

    benchmark: str
    topic: str
    size: int
    batch: int
    concurrency: int
    rate: float | None
    seconds: float
    messages: int
    messages_per_second: float
    mib_per_second: float
    failures: int
    duplicates: int
    failure_reasons: dict[str, int]
    latency_of: str
    latency_ms: dict[str, float]


def show_report(
    benchmark: str,
    plan: Plan,
    measured: Measurement,
    *,
    seconds: float,
    latency_of: str,
    output: Output,
) -> None:
    """Print a run; `latency_of` says what one duration is the duration of."""
    latencies = measured.latencies
    in_ms = {
        name: round(latencies.percentile(share) / 1e6, 3) for name, share in _PERCENTILES.items()
    }
    in_ms["max"] = round(latencies.longest_ns / 1e6, 3)
    seconds = max(seconds, 1e-9)
    report = _Report(
        benchmark=benchmark,
        topic=plan.topic,
        size=plan.size,
        batch=plan.batch,
        concurrency=plan.concurrency,
        rate=plan.rate,
        seconds=round(seconds, 3),
        messages=measured.messages,
        messages_per_second=round(measured.messages / seconds, 1),
        mib_per_second=round(measured.octets / seconds / _MIB, 2),
        failures=measured.failures,
        duplicates=measured.duplicates,
        failure_reasons=measured.reasons,
        latency_of=latency_of,
        latency_ms=in_ms,
    )
    if output is Output.TABLE:
        _draw(report)
    else:
        write_document(report, output)


def _draw(report: _Report) -> None:
    rows: list[tuple[str, str]] = [
        ("messages", f"{report.messages:,} in {report.seconds:.1f} s"),
        ("rate", f"{report.messages_per_second:,.0f} messages/s, {report.mib_per_second} MiB/s"),
        ("failures", f"{report.failures:,}"),
    ]
    if report.duplicates:
        rows.append(("duplicates", f"{report.duplicates:,}"))
    rows += [(f"{report.latency_of} {name}", f"{ms} ms") for name, ms in report.latency_ms.items()]
    reasons = sorted(report.failure_reasons.items(), key=lambda each: -each[1])
    rows += [("failed", f"{count:,}: {reason}") for reason, count in reasons[:_SHOWN_MAX]]
    console().print(table((f"BENCH {report.benchmark.upper()}", report.topic), rows))
