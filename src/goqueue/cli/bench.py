"""`goqueue bench`: measure publishing, reading and end-to-end latency of a server.

Owns the commands and the order of the three measurements. The topic is created if it does not exist
and kept for the next measurement; the load itself is in `bench_load`.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
import msgspec

from goqueue.cli.bench_load import (
    SECOND_NS,
    Echoes,
    Measurement,
    Pace,
    Plan,
    Publisher,
    producer_config,
    read_through,
    show_report,
)
from goqueue.cli.client import Session, run_session
from goqueue.cli.errors import tell
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import (
    Output,
    Whole,
    output_option,
    server_options,
)
from goqueue.cli.signals import Stop, stopped_by_signals
from goqueue.client import TopicNotFound
from goqueue.client.admin_replies import Topic
from goqueue.client.producer import Producer

__all__ = [
    "Run",
    "bench",
    "make_topic",
    "measure_consuming",
    "measure_producing",
    "measure_roundtrip",
]


async def make_topic(session: Session, plan: Plan) -> Topic:
    """The topic; a new one has a partition for each worker."""
    try:
        return await session.q.topics.describe(plan.topic)
    except TopicNotFound:
        await session.q.topics.create(plan.topic, partitions=plan.concurrency)
        tell(f"created topic {plan.topic}; delete it with: goqueue topic delete {plan.topic}")
        return await session.q.topics.describe(plan.topic)


class Run(msgspec.Struct, frozen=True):
    """What was measured, how long it took, and whether it was interrupted."""

    measured: Measurement
    seconds: float
    is_stopped: bool


async def measure_producing(session: Session, plan: Plan) -> Run:
    """How fast messages are made durable; one duration is that of one batch."""
    topic = await make_topic(session, plan)
    measured = Measurement()
    value = os.urandom(plan.size)
    async with session.patient_connection() as connection:
        producers = [connection.producer(producer_config(plan)) for _ in range(plan.concurrency)]
        with stopped_by_signals() as stop:
            started = time.monotonic_ns()
            await _publish(
                producers,
                topic.partitions,
                plan,
                lambda _: value,
                measured=measured,
                stop=stop,
            )
            return _run(measured, started, stop)


async def measure_consuming(session: Session, plan: Plan) -> Run:
    """How fast messages are read from the beginning; one duration is that of one answer."""
    topic = await session.q.topics.describe(plan.topic)
    if not topic.total_messages:
        raise click.ClickException(f"{plan.topic} is empty; fill it with: goqueue bench produce")
    measured = Measurement()
    async with session.patient_connection() as connection:
        replays = [connection.stream(plan.topic) for _ in range(plan.concurrency)]
        with stopped_by_signals() as stop:
            started = time.monotonic_ns()
            async with asyncio.TaskGroup() as tasks:
                for replay in replays:
                    tasks.create_task(
                        read_through(replay, topic.total_messages, plan, measured, stop)
                    )
            return _run(measured, started, stop)


async def measure_roundtrip(session: Session, plan: Plan) -> Run:
    """How long a message takes from its sender to a reader that waits for it."""
    topic = await make_topic(session, plan)
    echoes = Echoes(plan, os.urandom(8))
    async with session.patient_connection() as connection:
        # From where each partition ends now: nothing that is published from here on is missed.
        replays = [
            connection.stream(plan.topic, partition=number, from_=ends.latest + 1)
            for number, ends in topic.partition_offsets.items()
        ]
        producers = [connection.producer(producer_config(plan)) for _ in range(plan.concurrency)]
        published = Measurement()
        with stopped_by_signals() as stop:
            started = time.monotonic_ns()
            async with asyncio.TaskGroup() as tasks:
                listening = [tasks.create_task(echoes.listen(replay)) for replay in replays]
                await _publish(
                    producers,
                    topic.partitions,
                    plan,
                    echoes.next_value,
                    measured=published,
                    stop=stop,
                )
                await echoes.wait_for_all(session.settings.timeout_s)
                for task in listening:
                    task.cancel()
            measured = echoes.result(published)
            return _run(measured, started, stop)


async def _publish(
    producers: list[Producer],
    partitions: int,
    plan: Plan,
    values: Callable[[int], bytes],
    *,
    measured: Measurement,
    stop: Stop,
) -> None:
    started = time.monotonic_ns()
    pace = Pace(plan, started)
    ends_ns = started + int(plan.duration_s * SECOND_NS)
    async with asyncio.TaskGroup() as tasks:
        for number, producer in enumerate(producers):
            publisher = Publisher(producer, number % partitions, plan, values, measured)
            tasks.create_task(publisher.run(pace, ends_ns, stop))


def _run(measured: Measurement, started_ns: int, stop: Stop) -> Run:
    seconds = (time.monotonic_ns() - started_ns) / SECOND_NS
    return Run(measured, seconds, stop.is_asked)


Decorated = TypeVar("Decorated", bound=Callable[..., object])


@click.group("bench")
@server_options
@output_option
def bench(output: Output) -> None:
    """Measure a server: rates, latency percentiles and failures."""


def _plan_options(decorated: Decorated) -> Decorated:
    """The flags of every measurement."""
    options = (
        click.option(
            "--topic",
            default="goqueue-bench",
            show_default=True,
            help="Topic to use; created if absent.",
        ),
        click.option(
            "--size",
            type=Whole(1),
            default=1024,
            show_default=True,
            help="Size of a value in bytes.",
        ),
        click.option(
            "--rate",
            type=click.FloatRange(0, min_open=True),
            help="Messages per second.  [default: unlimited]",
        ),
        click.option(
            "--batch",
            type=Whole(1, 1000),
            default=100,
            show_default=True,
            help="Messages per request.",
        ),
        click.option(
            "--concurrency",
            type=Whole(1, 256),
            default=4,
            show_default=True,
            help="Number of workers.",
        ),
        click.option(
            "--duration",
            "duration_s",
            type=click.FloatRange(0, 86_400, min_open=True),
            default=10,
            show_default=True,
            help="Seconds to run.",
        ),
    )
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


@bench.command("produce", short_help="Measure publishing.")
@_plan_options
@server_options
@output_option
def produce_command(**given: object) -> ExitCode:
    """Measure how fast messages are made durable. Latency is per request."""

    return _measure("produce", "request", measure_producing, given)


@bench.command("consume", short_help="Measure reading.")
@_plan_options
@server_options
@output_option
def consume_command(**given: object) -> ExitCode:
    """Measure how fast a topic is read from its beginning; each worker reads all of it.

    Latency is the time until the next batch is available.
    """

    return _measure("consume", "batch", measure_consuming, given)


@bench.command("roundtrip", short_help="Measure latency from sender to reader.")
@_plan_options
@server_options
@output_option
def roundtrip_command(**given: object) -> ExitCode:
    """Measure how long a message takes from its sender to a waiting reader.

    With --rate, latency counts from the time at which the message was due.
    """

    return _measure("roundtrip", "message", measure_roundtrip, given)


def _measure(
    name: str,
    latency_of: str,
    measure: Callable[[Session, Plan], Awaitable[Run]],
    given: dict[str, object],
) -> ExitCode:
    output = Output(str(given.pop("output")))
    plan = msgspec.convert(given, type=Plan)
    run = run_session(lambda session: measure(session, plan))
    show_report(name, plan, run.measured, seconds=run.seconds, latency_of=latency_of, output=output)
    if run.is_stopped:
        return ExitCode.INTERRUPTED
    return ExitCode.FAILED if run.measured.failures else ExitCode.DONE
