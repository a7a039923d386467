"""The commands of `goqueue bench`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from goqueue.cli.asking import Session
    from goqueue.cli.bench.plan import Plan
    from goqueue.cli.bench.runs import Run

__all__ = ["bench"]

DONE = 0
FAILED = 1
INTERRUPTED = 130

Decorated = TypeVar("Decorated", bound=Callable[..., object])


@click.group("bench")
@server_options
@output_option
def bench(output: Output) -> None:
    """Measure a server: rates, percentiles of latency, and failures counted as failures."""


def _plan_options(decorated: Decorated) -> Decorated:
    """The flags of every measurement."""
    options = (
        click.option("--topic", default="goqueue-bench", show_default=True, help="Made if absent."),
        click.option(
            "--size",
            type=click.IntRange(1),
            default=1024,
            show_default=True,
            help="Bytes of a value.",
        ),
        click.option(
            "--rate", type=click.FloatRange(0, min_open=True), help="Messages per second."
        ),
        click.option(
            "--batch",
            type=click.IntRange(1, 1000),
            default=100,
            show_default=True,
            help="Messages per request.",
        ),
        click.option(
            "--concurrency",
            type=click.IntRange(1, 256),
            default=4,
            show_default=True,
            help="Workers.",
        ),
        click.option(
            "--duration",
            "duration_s",
            type=click.FloatRange(0, 86_400, min_open=True),
            default=10,
            show_default=True,
            help="Seconds.",
        ),
    )
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


@bench.command("produce", short_help="Measure publishing.")
@_plan_options
@server_options
@output_option
def produce_command(**given: object) -> int:
    """Measure how fast messages are made durable. A latency is that of one request."""
    from goqueue.cli.bench.runs import measure_producing

    return _measure("produce", "request", measure_producing, given)


@bench.command("consume", short_help="Measure reading.")
@_plan_options
@server_options
@output_option
def consume_command(**given: object) -> int:
    """Measure how fast a topic is read from its beginning, by each worker in full.

    A latency is the time until the next batch was at hand.
    """
    from goqueue.cli.bench.runs import measure_consuming

    return _measure("consume", "batch", measure_consuming, given)


@bench.command("roundtrip", short_help="Measure from sender to reader.")
@_plan_options
@server_options
@output_option
def roundtrip_command(**given: object) -> int:
    """Measure how long a message takes from its sender to a reader that waits for it.

    With --rate a latency counts from the moment that the message was due.
    """
    from goqueue.cli.bench.runs import measure_roundtrip

    return _measure("roundtrip", "message", measure_roundtrip, given)


def _measure(
    name: str,
    latency_of: str,
    measure: "Callable[[Session, Plan], Awaitable[Run]]",
    given: dict[str, object],
) -> int:
    import msgspec

    from goqueue.cli.asking import Session, run_session
    from goqueue.cli.bench.plan import Plan
    from goqueue.cli.bench.report import show_report

    output = Output(str(given.pop("output")))
    plan = msgspec.convert(given, type=Plan)

    async def scene(session: Session) -> "Run":
        return await measure(session, plan)

    run = run_session(scene)
    show_report(name, plan, run.measured, seconds=run.seconds, latency_of=latency_of, output=output)
    if run.is_stopped:
        return INTERRUPTED
    return FAILED if run.measured.failures else DONE
