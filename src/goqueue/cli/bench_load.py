"""The load of `goqueue bench`: plan, workers, latencies and the report.

Publishing workers have a partition each and one request in flight; reading workers read to the end
that the topic had at the start, or until time is up. In an end-to-end run every message carries its
due time and its sender, so latency includes time spent waiting for a slow server.

Invariant: a message is counted once, when it is first received; one that never arrives is a
failure. Latencies are counted in buckets: constant memory, percentiles within 1.6 %.
"""

import asyncio
import struct
import time
from collections.abc import Callable

import msgspec

from goqueue.cli.options import Output
from goqueue.cli.output import console, table, write_document
from goqueue.cli.signals import Stop
from goqueue.client import GoQueueError
from goqueue.client.batch import ProducerConfig
from goqueue.client.producer import Producer
from goqueue.client.replay import Replay

__all__ = [
    "SECOND_NS",
    "Echoes",
    "Latencies",
    "Measurement",
    "Pace",
    "Plan",
    "Publisher",
    "producer_config",
    "read_through",
    "show_report",
]

SECOND_NS = 1_000_000_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`rate` is messages per second over all workers; None is as fast as it goes."""

    topic: str
    size: int
    rate: float | None
    batch: int
    concurrency: int
    duration_s: float


class Pace:
    """When the next batch is due. Pure: told the time.

    A batch that leaves late is still measured from the moment it was due: a server that stalls
    must not get the pause for free.
    """

    def __init__(self, plan: Plan, started_ns: int) -> None:
        self._gap_ns = None if plan.rate is None else int(plan.batch / plan.rate * SECOND_NS)
        self._next_ns = started_ns

    def due_ns(self, now_ns: int) -> int:
        """The moment of the next batch, which is now if there is no pace to keep."""
        if self._gap_ns is None:
            return now_ns
        due = self._next_ns
        self._next_ns += self._gap_ns
        return due


# A bucket keeps this many leading bits of a duration.
_BITS = 7


class Latencies:
    """Durations in nanoseconds; a negative one counts as none."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._count = 0
        self._longest_ns = 0

    def add(self, duration_ns: int, count: int = 1) -> None:
        duration_ns = max(duration_ns, 0)
        shift = max(duration_ns.bit_length() - _BITS, 0)
        bucket = duration_ns >> shift << shift
        self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._count += count
        self._longest_ns = max(self._longest_ns, duration_ns)

    @property
    def longest_ns(self) -> int:
        return self._longest_ns

    def percentile(self, share: float) -> int:
        """The duration that this share of all does not exceed; 0 when there is none."""
        wanted = share * self._count
        seen = 0
        for bucket, count in sorted(self._counts.items()):
            seen += count
            if seen >= wanted:
                return bucket
        return self._longest_ns


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
    if output.is_table:
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


# Below what a server takes in one request, unless it was told otherwise.
_REQUEST_BYTES = 8 * 1024 * 1024

_PAUSE_S = 0.05

# Given the moment that the batch was due, the value of the next message.
Values = Callable[[int], bytes]


def producer_config(plan: Plan) -> ProducerConfig:
    """A batch leaves as soon as it is whole, and is not sent twice: a failure is a failure."""
    return ProducerConfig(
        messages=plan.batch,
        messages_max=plan.batch,
        size_bytes=_REQUEST_BYTES,
        size_bytes_max=_REQUEST_BYTES,
        repeats=False,
    )


class Publisher:
    """One worker."""

    def __init__(
        self, producer: Producer, partition: int, plan: Plan, values: Values, measured: Measurement
    ) -> None:
        self._producer = producer
        self._partition = partition
        self._plan = plan
        self._values = values
        self._measured = measured

    async def run(self, pace: Pace, ends_ns: int, stop: Stop) -> None:
        """Publish until the time is up."""
        while not stop.is_asked:
            now = time.monotonic_ns()
            due = pace.due_ns(now)
            if max(due, now) >= ends_ns:
                return
            if due > now:
                await asyncio.sleep((due - now) / SECOND_NS)
            await self._publish(due)

    async def _publish(self, due_ns: int) -> None:
        plan = self._plan
        octets = 0
        try:
            receipts = []
            for _ in range(plan.batch):
                value = self._values(due_ns)
                octets += len(value)
                receipts.append(
                    await self._producer.send(plan.topic, value, partition=self._partition)
                )
            for receipt in receipts:
                await receipt
        except GoQueueError as error:
            self._measured.note_failed(plan.batch, str(error))
            # What is refused at once is refused again at once: count it, but do not spin.
            await asyncio.sleep(_PAUSE_S)
        else:
            self._measured.note(plan.batch, octets, time.monotonic_ns() - due_ns)


async def read_through(
    replay: Replay, total: int, plan: Plan, measured: Measurement, stop: Stop
) -> None:
    """Read `total` messages; what is read per second is held to the rate of the plan."""
    share = None if plan.rate is None else plan.rate / plan.concurrency
    count = 0
    started = time.monotonic_ns()
    try:
        async with asyncio.timeout(plan.duration_s):
            while count < total and not stop.is_asked:
                asked = time.monotonic_ns()
                messages = await replay.take(min(plan.batch, total - count))
                octets = sum(len(message.value or b"") for message in messages)
                measured.note(len(messages), octets, time.monotonic_ns() - asked)
                count += len(messages)
                if share is not None:
                    ahead_s = count / share - (time.monotonic_ns() - started) / SECOND_NS
                    await asyncio.sleep(max(ahead_s, 0))
    except TimeoutError:
        # The time is up, which is how a measurement ends.
        return
    except GoQueueError as error:
        measured.note_failed(total - count, str(error))


# Whose run, which message, when it was due.
_HEAD = struct.Struct(">8sQQ")


class Echoes:
    """What was sent and not yet received; `run_id` distinguishes our messages from others."""

    def __init__(self, plan: Plan, run_id: bytes) -> None:
        self._run_id = run_id
        self._padding = bytes(max(plan.size - _HEAD.size, 0))
        self._sent = 0
        self._unheard: set[int] = set()
        self._all_heard = asyncio.Event()
        self._is_over = False
        self._heard = Measurement()

    def next_value(self, due_ns: int) -> bytes:
        """The value of a message that is about to be sent."""
        number = self._sent
        self._sent += 1
        self._unheard.add(number)
        return _HEAD.pack(self._run_id, number, due_ns) + self._padding

    async def listen(self, replay: Replay) -> None:
        """Hear messages until cancelled."""
        while messages := await replay.take():
            now = time.monotonic_ns()
            for message in messages:
                self._hear(message.value or b"", now)
            if self._is_over and not self._unheard:
                self._all_heard.set()

    async def wait_for_all(self, timeout_s: float) -> None:
        """Nothing more is sent: wait until all was heard, but not for ever."""
        self._is_over = True
        if not self._unheard:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_heard.wait()
        except TimeoutError:
            # What is still unheard is a failure, and is counted as one.
            return

    def result(self, published: Measurement) -> Measurement:
        """What was heard, with the failures of both ways."""
        # A batch that failed may have been heard all the same: then it did not fail.
        lost = len(self._unheard)
        for reason, count in published.reasons.items():
            told = min(count, lost)
            if told:
                self._heard.note_failed(told, reason)
                lost -= told
        if lost:
            self._heard.note_failed(lost, "published and not heard in time")
        return self._heard

    def _hear(self, value: bytes, now_ns: int) -> None:
        if len(value) < _HEAD.size:
            return
        run_id, number, due_ns = _HEAD.unpack_from(value)
        if run_id != self._run_id:
            return
        if number not in self._unheard:
            self._heard.duplicates += 1
            return
        self._unheard.discard(number)
        self._heard.note(1, len(value), now_ns - due_ns)
