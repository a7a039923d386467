"""Latencies as a command shows them: three tables."""

from collections.abc import Mapping
from typing import Any

from goqueue.cli.asking import draw
from goqueue.cli.output import Output
from goqueue.cli.pipeline.packaged.plays.endeavour import endeavour, is_drawn, write_result
from goqueue.pipelines.packaged.traces import TraceReport, TracesOptions, trace_report

__all__ = ["run_traces"]

_NAME = "traces"


def run_traces(given: Mapping[str, Any], master: str, output: Output) -> None:
    with endeavour(_NAME, master) as run:
        options = TracesOptions(**given)
        with run.spark() as spark:
            report = trace_report(spark, options)
    if is_drawn(output):
        _draw(report)
    else:
        write_result(_NAME, report, output)


def _draw(report: TraceReport) -> None:
    hops = [
        (
            each.topic,
            each.hop,
            each.journeys,
            _ms(each.p50_ms),
            _ms(each.p90_ms),
            _ms(each.p99_ms),
            _ms(each.p999_ms),
            _ms(each.max_ms),
        )
        for each in report.latencies
    ]
    headings = ("TOPIC", "HOP", "JOURNEYS", "P50 ms", "P90 ms", "P99 ms", "P99.9 ms", "MAX ms")
    draw(headings, hops, empty="no journeys in these files")
    if report.slowest:
        slow = [
            (
                each.trace_id,
                f"{each.topic}-{each.partition}:{each.offset}",
                each.consumer_group or "",
                *(_ms(took) for took in (each.publish_ms, each.wait_ms, each.work_ms)),
                _ms(each.total_ms),
            )
            for each in report.slowest
        ]
        names = ("SLOWEST", "PLACE", "GROUP", "PUBLISH ms", "WAIT ms", "WORK ms", "TOTAL ms")
        draw(names, slow, empty="")
    if report.incomplete:
        rows = [(each.topic, each.state, each.journeys, each.example) for each in report.incomplete]
        draw(("TOPIC", "NOT FINISHED", "JOURNEYS", "EXAMPLE"), rows, empty="")
    broken = f"; {report.broken_lines:,} lines could not be read" if report.broken_lines else ""
    done = f"{report.completed:,} of {report.journeys:,} journeys ended"
    print(f"{report.events:,} events; {done}{broken}")


def _ms(took: float | None) -> str:
    return "" if took is None else f"{took:,.2f}"
