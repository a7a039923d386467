"""The three measurements: publish, read, and both with the way between them."""

import asyncio
import os
import time
from collections.abc import Callable

import click
import msgspec

from goqueue.cli.asking import Session, Stop, stopped_by_signals
from goqueue.cli.bench.echoes import Echoes
from goqueue.cli.bench.plan import SECOND_NS, Pace, Plan
from goqueue.cli.bench.producing import Publisher, gathering
from goqueue.cli.bench.reading import read_through
from goqueue.cli.bench.report import Measurement
from goqueue.cli.bench.stage import find_topic, make_topic
from goqueue.client import connect
from goqueue.client.producing import Producer

__all__ = ["Run", "measure_consuming", "measure_producing", "measure_roundtrip"]


class Run(msgspec.Struct, frozen=True):
    """What was measured, how long it took, and whether somebody broke it off."""

    measured: Measurement
    seconds: float
    is_stopped: bool


async def measure_producing(session: Session, plan: Plan) -> Run:
    """How fast messages are made durable; one duration is that of one batch."""
    topic = await make_topic(session, plan)
    measured = Measurement()
    value = os.urandom(plan.size)
    settings = session.settings
    key = settings.api_key or None
    async with connect(settings.server, api_key=key, timeout_s=settings.timeout_s) as connection:
        producers = [connection.producer(gathering(plan)) for _ in range(plan.concurrency)]
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
    topic = await find_topic(session, plan)
    if not topic.total_messages:
        raise click.ClickException(
            f"there is nothing to read in {plan.topic}; fill it with: goqueue bench produce"
        )
    measured = Measurement()
    settings = session.settings
    key = settings.api_key or None
    async with connect(settings.server, api_key=key, timeout_s=settings.timeout_s) as connection:
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
    settings = session.settings
    key = settings.api_key or None
    async with connect(settings.server, api_key=key, timeout_s=settings.timeout_s) as connection:
        # From where each partition ends now: nothing that is published from here on is missed.
        replays = [
            connection.stream(plan.topic, partition=number, from_=ends.latest + 1)
            for number, ends in topic.partition_offsets.items()
        ]
        producers = [connection.producer(gathering(plan)) for _ in range(plan.concurrency)]
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
                await echoes.wait_for_all(settings.timeout_s)
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
