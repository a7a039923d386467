"""A redrive as a command plays it: the groups of letters, and what was put back."""

from collections.abc import Mapping
from typing import Any

from goqueue.cli.asking import draw
from goqueue.cli.output import Output
from goqueue.cli.pipeline.packaged.plays.endeavour import endeavour, is_drawn, write_result
from goqueue.cli.render import cut
from goqueue.pipelines.packaged.redrive import LetterGroup, RedriveOptions, Report, redrive

__all__ = ["run_redrive"]

_NAME = "redrive"
_HEADINGS = ("ORIGIN", "GROUP", "CAUSE", "REASON", "LETTERS", "REDRIVEN", "SELECTED", "FIRST")
_VALUE_WIDTH = 60


def run_redrive(given: Mapping[str, Any], master: str, output: Output) -> None:
    with endeavour(_NAME, master) as run:
        options = RedriveOptions(wiring=run.wiring, **given)
        with run.spark() as spark:
            report = redrive(spark, options)
    if not is_drawn(output):
        write_result(_NAME, report, output)
        return
    headings = (*_HEADINGS, "LAST", "SAMPLE")
    empty = f"no dead letters of {options.topic}"
    draw(headings, [_row(group) for group in report.groups], empty=empty)
    if report.groups:
        print(_sentence(report))


def _row(group: LetterGroup) -> tuple[str | int, ...]:
    sample = ""
    if group.samples:
        first = group.samples[0]
        sample = cut(f"{first.partition}:{first.offset} {first.value or '(null)'}", _VALUE_WIDTH)
    return (
        group.origin,
        group.consumer_group,
        group.cause,
        group.reason,
        group.letters,
        group.redriven,
        group.selected,
        group.first_died[:19],
        group.last_died[:19],
        sample,
    )


def _sentence(report: Report) -> str:
    if not report.is_sent:
        return f"{report.selected:,} letters are selected; nothing was sent: add --send"
    return f"{report.sent:,} letters were put back"
