"""Replays a topic or its archive into another topic, exactly once.

The plan is made once and kept in the checkpoint, so a replay that is resumed sends the same chunks
under the same keys. Each chunk is published by one decision of the broker, whose key is that of the
replay and the number of the chunk. A process killed before it has recorded the decision sends the
chunk again, and the broker recognises the key: every row is stored once. Within a chunk one task
has all rows of a partition, so rows of a key stay in order.

Invariant: chunks cut the offsets of every partition into ranges that touch and never overlap; a
chunk follows from the plan and its number.
"""

import datetime as dt
import os
import re
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from goqueue.pipelines.archive.manifest import Layout, Manifest, read_manifest
from goqueue.pipelines.connection import OptionWrong, PipelineFailed
from goqueue.pipelines.packaged_options import ReplayOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "FROM_HEADER",
    "Done",
    "FileSpan",
    "Plan",
    "Replayed",
    "Stretch",
    "chunk",
    "files_of",
    "load",
    "make_plan",
    "pause_s",
    "plan_of_archive",
    "replay",
    "save",
    "shown",
]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a partition, the end not included. There may be fewer rows than offsets."""

    partition: int
    start: int
    end: int


class FileSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an archive, and the offsets that are in it."""

    path: str
    stretches: tuple[Stretch, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that is sent. `since_us` and `until_us` also bound the rows of an archive by time."""

    identity: str
    fingerprint: str
    topic: str
    stretches: tuple[Stretch, ...]
    chunk_rows: int
    files: tuple[FileSpan, ...] = ()
    since_us: int | None = None
    until_us: int | None = None

    @property
    def span(self) -> int:
        """Offsets in sum: as many rows at most."""
        return sum(each.end - each.start for each in self.stretches)

    @property
    def chunks(self) -> int:
        return -(-self.span // self.chunk_rows)


class Done(msgspec.Struct, frozen=True):
    """How many chunks were sent, and the rows in them."""

    chunks: int = 0
    rows: int = 0


def chunk(plan: Plan, number: int) -> list[Stretch]:
    """The part of every stretch that is sent by one decision; all advance at the same pace."""
    count = plan.chunks
    found = []
    for each in plan.stretches:
        span = each.end - each.start
        start, end = (each.start + span * edge // count for edge in (number, number + 1))
        if start < end:
            found.append(Stretch(partition=each.partition, start=start, end=end))
    return found


def files_of(plan: Plan, wanted: Sequence[Stretch]) -> list[str]:
    """The files that may hold some of these rows."""
    bounds = {each.partition: each for each in wanted}

    def overlaps(held: Stretch) -> bool:
        each = bounds.get(held.partition)
        return each is not None and held.start < each.end and each.start < held.end

    return [file.path for file in plan.files if any(map(overlaps, file.stretches))]


def pause_s(rows: int, elapsed_s: float, rate: float) -> float:
    """How long to wait after this number of rows to stay below the rate."""
    return max(0.0, rows / rate - elapsed_s) if rate else 0.0


_PLANS = msgspec.json.Decoder(Plan)
_DONE = msgspec.json.Decoder(Done)


def load(checkpoint: Path, fingerprint: str) -> tuple[Plan, Done] | None:
    """The replay that this folder keeps; None if there is none yet."""
    path = checkpoint / "plan.json"
    if not path.exists():
        return None
    done = checkpoint / "done.json"
    try:
        plan = _PLANS.decode(path.read_bytes())
        progress = _DONE.decode(done.read_bytes()) if done.exists() else Done()
    except msgspec.MsgspecError as error:
        raise PipelineFailed(f"{checkpoint} is no checkpoint of a replay: {error}") from error
    if plan.fingerprint != fingerprint:
        raise OptionWrong("--checkpoint", f"{checkpoint} is of a replay with other options")
    return plan, progress


def save(checkpoint: Path, kept: Plan | Done) -> None:
    """Keep the plan, or how far it has come: as a whole or not at all."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    path = checkpoint / ("plan.json" if isinstance(kept, Plan) else "done.json")
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(msgspec.json.encode(kept))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


FROM_HEADER = "goqueue.replayed.from"
_TASK_BYTES = str(1 << 62)
_UNITS = {"ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}

Told = Callable[["Replayed"], None]


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replay has come; `rows_at_most` counts offsets, some of which hold no row."""

    topic: str
    to: str
    chunks: int
    chunks_done: int
    rows: int
    rows_at_most: int
    stretches: tuple[Stretch, ...]
    seconds: float = 0.0

    @property
    def is_done(self) -> bool:
        return self.chunks_done >= self.chunks


def make_plan(options: ReplayOptions, now_us: int) -> Plan:
    """Resolve the bounds, once. Asks the broker, or reads the manifest of the archive."""
    if options.archive is not None:
        return plan_of_archive(options, read_manifest(Layout(options.archive)), now_us)
    from goqueue.spark import GoQueueSource

    bounds = {
        "startingOffsets": options.starting,
        "endingOffsets": options.ending,
        "startingTimestamp": options.since,
        "endingTimestamp": options.until,
    }
    given = {name: text for name, text in bounds.items() if text is not None}
    source = GoQueueSource(
        options.connection.options(
            subscribe=options.topic, maxBytesPerPartition=_TASK_BYTES, **given
        )
    )
    tasks = source.reader(source.schema()).partitions()
    ranges = [task.value for task in tasks if task.value is not None]
    stretches = [
        Stretch(partition=each.partition, start=each.start, end=each.end) for each in ranges
    ]
    return _plan(options, stretches)


def plan_of_archive(options: ReplayOptions, manifest: Manifest, now_us: int) -> Plan:
    """What the manifest says of a topic between two times."""
    since, until = _micros(options.since, now_us), _micros(options.until, now_us)
    entries = [entry for entry in manifest.entries if entry.topic == options.topic]
    if not entries:
        raise PipelineFailed(f"{options.archive} holds no rows of {options.topic!r}")
    bounds: dict[int, Stretch] = {}
    files = []
    for entry in entries:
        if since is not None and entry.last_time_us < since:
            continue
        if until is not None and entry.first_time_us >= until:
            continue
        held = tuple(
            Stretch(partition=run.partition, start=run.first_offset, end=run.last_offset + 1)
            for run in entry.runs
        )
        files.append(FileSpan(path=entry.path, stretches=held))
        for each in held:
            known = bounds.get(each.partition, each)
            start, end = min(each.start, known.start), max(each.end, known.end)
            bounds[each.partition] = Stretch(partition=each.partition, start=start, end=end)
    plan = _plan(options, [bounds[number] for number in sorted(bounds)])
    return msgspec.structs.replace(plan, files=tuple(files), since_us=since, until_us=until)


def replay(
    spark: "SparkSession",
    options: ReplayOptions,
    *,
    told: Told | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Replayed:
    """Send what was not sent yet; `told` hears of every chunk, `is_stopped` is asked between."""
    kept = load(options.place, options.fingerprint())
    if kept is None:
        plan, done = make_plan(options, time.time_ns() // 1000), Done()
        save(options.place, plan)
    else:
        plan, done = kept
    began, rows = time.monotonic(), 0
    for number in range(done.chunks, plan.chunks):
        if is_stopped():
            break
        sent = _send(spark, options, plan, number)
        rows += sent
        done = Done(number + 1, done.rows + sent)
        save(options.place, done)
        if told is not None:
            told(shown(options, plan, done, time.monotonic() - began))
        if number + 1 < plan.chunks:
            time.sleep(pause_s(rows, time.monotonic() - began, options.rate))
    return shown(options, plan, done, time.monotonic() - began)


def shown(options: ReplayOptions, plan: Plan, done: Done, seconds: float = 0.0) -> Replayed:
    return Replayed(
        topic=options.topic,
        to=options.to,
        chunks=plan.chunks,
        chunks_done=done.chunks,
        rows=done.rows,
        rows_at_most=plan.span,
        stretches=plan.stretches,
        seconds=round(seconds, 3),
    )


def _plan(options: ReplayOptions, stretches: list[Stretch]) -> Plan:
    return Plan(
        identity=uuid.uuid4().hex,
        fingerprint=options.fingerprint(),
        topic=options.topic,
        stretches=tuple(stretches),
        chunk_rows=options.rows_at_once,
    )


def _send(spark: "SparkSession", options: ReplayOptions, plan: Plan, number: int) -> int:
    from pyspark.sql import Observation, functions

    stretches = chunk(plan, number)
    rows = (
        _of_topic(spark, options, stretches)
        if options.archive is None
        else _of_archive(spark, options, plan, stretches)
    )
    counted = Observation()
    rows = rows.observe(counted, functions.count(functions.lit(1)).alias("rows"))
    writer = rows.write.format("goqueue").options(
        **options.connection.options(
            topic=options.to,
            transactionalId=f"replay.{plan.identity}",
            transactionalVersion=str(number),
        )
    )
    writer.mode("append").save()
    return int(counted.get["rows"])


def _of_topic(
    spark: "SparkSession", options: ReplayOptions, stretches: list[Stretch]
) -> "DataFrame":
    numbers = [each.partition for each in stretches]
    starts = {str(each.partition): each.start for each in stretches}
    ends = {str(each.partition): each.end for each in stretches}

    def text(value: object) -> str:
        return msgspec.json.encode({options.topic: value}).decode()

    reader = spark.read.format("goqueue").options(
        **options.connection.options(
            assign=text(numbers),
            startingOffsets=text(starts),
            endingOffsets=text(ends),
            includeHeaders="true",
            headersAs="array",
            # One task for each partition keeps the order of its keys.
            maxBytesPerPartition=_TASK_BYTES,
        )
    )
    return _copies(reader.load(), options)


def _of_archive(
    spark: "SparkSession", options: ReplayOptions, plan: Plan, stretches: list[Stretch]
) -> "DataFrame":
    assert options.archive is not None
    # Some chunks fall into a gap: a file that holds none of their rows is as good as any.
    paths = files_of(plan, stretches) or [plan.files[0].path]
    rows = spark.read.parquet(*(str(options.archive / path) for path in paths))
    ranges = " OR ".join(
        f"(partition = {each.partition} AND offset >= {each.start} AND offset < {each.end})"
        for each in stretches
    )
    rows = rows.where(ranges)
    for comparison, bound in ((">=", plan.since_us), ("<", plan.until_us)):
        if bound is not None:
            rows = rows.where(f"timestamp {comparison} timestamp_micros({bound})")
    rows = rows.repartition(len(stretches), "partition").sortWithinPartitions("partition", "offset")
    return _copies(rows, options)


def _copies(rows: "DataFrame", options: ReplayOptions) -> "DataFrame":
    """The rows as they are published: a header says where each came from."""
    place = f"concat_ws('/', '{options.topic}', partition, offset)"
    others = f"filter(coalesce(headers, array()), each -> each.key != '{FROM_HEADER}')"
    added = f"array(named_struct('key', '{FROM_HEADER}', 'value', cast({place} AS BINARY)))"
    columns = ["key", "value", "priority", f"concat({others}, {added}) AS headers"]
    if options.keeps_time:
        columns.append("timestamp")
    if options.keeps_partition:
        columns.append("partition")
    return rows.selectExpr(*columns)


def _micros(text: str | None, now_us: int) -> int | None:
    if text is None:
        return None
    ago = re.fullmatch(r"-(\d+)([a-z]+)", text)
    if ago is not None:
        return now_us - int(ago[1]) * _UNITS[ago[2]]
    since = dt.datetime.fromisoformat(text) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return since // dt.timedelta(microseconds=1)
