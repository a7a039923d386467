"""A registry with 10,000 schemas: how it starts, finds and compares."""

import asyncio
import json
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator

from bench.broker_process import RestartedBroker
from bench.figure import Figure, Target
from bench.wire import Wire
from goqueue.model import SchemaJob, SchemaPlace, SchemaSource, SchemaText, SchemaType, Written
from goqueue.schemas import SchemaChecker, SchemaRegistry, content_digest

__all__ = ["compatibility", "lookup", "start"]

_SCHEMAS = 10_000
_CONNECTIONS = 4
_LOOKUPS = 100_000
_FIELDS = 200
_VERSIONS = 50
_STARTS = 3
_ROUNDS = 5
# Near to the largest schema.
_FIELDS_LARGE = 4000


def _record(number: int, fields: int = 5) -> str:
    said = [{"name": f"f{each}", "type": "long", "default": number} for each in range(fields)]
    return json.dumps({"type": "record", "name": "Order", "fields": said})


def start(folder: str, scale: float) -> Iterator[Figure]:
    """Starts of a node with a full registry, compared with an empty one."""
    count = max(50, int(_SCHEMAS * scale))
    empty, full = (tempfile.mkdtemp(prefix="data-", dir=folder) for _ in range(2))
    broker = RestartedBroker(full)
    broker.ready_s()
    began = time.perf_counter()
    asyncio.run(_register(broker.port, count))
    seconds = time.perf_counter() - began
    broker.end(signal.SIGTERM)
    yield Figure(figure="register", value=round(count / seconds), unit="schemas/s")
    RestartedBroker(empty).end(signal.SIGTERM)
    times: dict[str, list[float]] = {empty: [], full: []}
    for _ in range(_STARTS):
        for data, spent in times.items():
            life = RestartedBroker(data)
            life.ready_s()
            spent.append(life.usage.cpu_s)
            life.end(signal.SIGTERM)
    more = statistics.median(times[full]) - statistics.median(times[empty])
    yield Figure(
        figure="start_more",
        value=round(more, 3),
        unit="cpu s",
        target=Target(below=1.0),
        details={"schemas": count},
    )


async def _register(port: int, count: int) -> None:
    numbers = iter(range(count))
    wires = [await Wire.open(port) for _ in range(_CONNECTIONS)]

    async def run(wire: Wire) -> None:
        for number in numbers:
            body = {"schema": _record(number), "schemaType": "AVRO"}
            await wire.ask("POST", f"/schemas/subjects/subject-{number}/versions", body)

    await asyncio.gather(*map(run, wires))
    for wire in wires:
        wire.close()


def lookup(_folder: str, scale: float) -> Iterator[Figure]:
    """Lookups by id in the registry itself."""
    registry = SchemaRegistry()
    for number in range(_SCHEMAS):
        text = SchemaText(type=SchemaType.AVRO, text=_record(number))
        digest = content_digest(text.type, text.text, ())
        for change in registry.register(f"subject-{number}", text, digest):
            registry.apply(change)
    spent: list[int] = []
    for number in range(max(1000, int(_LOOKUPS * scale))):
        id_ = number * 7919 % _SCHEMAS + 1
        began = time.perf_counter_ns()
        registry.content(id_)
        registry.describe(SchemaPlace(f"subject-{id_ - 1}", 1))
        spent.append(time.perf_counter_ns() - began)
    p95 = statistics.quantiles(spent, n=20)[-1] / 1000
    yield Figure(
        figure="lookup_by_id_p95", value=round(p95, 2), unit="us", target=Target(below=50.0)
    )


def _text(language: SchemaType, number: int, fields: int) -> str:
    """A schema of many optional fields; each number has another text."""
    match language:
        case SchemaType.AVRO:
            return _record(number, fields)
        case SchemaType.JSON:
            named = {f"f{each}": {"type": "integer", "minimum": 0} for each in range(fields)}
            closed = {"type": "object", "properties": named, "additionalProperties": False}
            return json.dumps({"title": f"number {number}", **closed})
        case SchemaType.PROTOBUF:
            body = "".join(f"int64 f{each} = {each}; " for each in range(1, fields + 1))
            return f'syntax = "proto3"; package n{abs(number)}; message Order {{ {body} }}'


def _job(language: SchemaType, versions: int) -> SchemaJob:
    def source(number: int, fields: int) -> SchemaSource:
        return SchemaSource(type=language, text=_text(language, number, fields))

    against = tuple(
        Written(version=number, id=number, source=source(number, _FIELDS))
        for number in range(1, versions + 1)
    )
    return SchemaJob(source=source(0, _FIELDS + 1), against=against, is_backward=True)


def compatibility(_folder: str, scale: float) -> Iterator[Figure]:
    """A record of 200 fields against 50 versions, and how long another thread waits meanwhile."""
    versions = max(2, int(_VERSIONS * scale)) if scale < 1 else _VERSIONS
    for language in SchemaType:
        name = language.value.lower()
        job, checker = _job(language, versions), SchemaChecker()
        for figure, target in (("check_cold", None), ("check_warm", Target(below=100.0))):
            began = time.process_time()
            assert not checker.check(1, job).messages
            spent_ms = (time.process_time() - began) * 1000
            yield Figure(
                figure=f"{figure}_{name}",
                value=round(spent_ms, 1),
                unit="cpu ms",
                target=target,
                details={"versions": versions},
            )
        yield _stall(f"loop_wait_{name}", checker, job, Target(below=10.0))
        large = SchemaSource(type=language, text=_text(language, 0, _FIELDS_LARGE))
        yield _stall(
            f"loop_wait_large_{name}", checker, SchemaJob(source=large), Target(below=10.0)
        )


def _stall(figure: str, checker: SchemaChecker, job: SchemaJob, target: Target | None) -> Figure:
    """The longest wait of a thread that wants to run while another one checks a schema."""
    longest: list[float] = []
    for _ in range(_ROUNDS):
        is_over = threading.Event()

        def check(is_over: threading.Event = is_over) -> None:
            checker.check(1, job)
            is_over.set()

        thread = threading.Thread(target=check)
        waits = [0.0]
        thread.start()
        while not is_over.is_set():
            began = time.perf_counter()
            time.sleep(0)
            waits.append(time.perf_counter() - began)
        thread.join()
        longest.append(max(waits))
    return Figure(
        figure=figure,
        # The smallest of the rounds: other programs make single waits longer, never shorter.
        value=round(min(longest) * 1000, 2),
        unit="ms",
        target=target,
        details={"longest_ms": round(max(longest) * 1000, 1), "bytes": len(job.source.text)},
    )
