"""What a broker does with batches in memory: draft, route, survey and read them, record by record.

Batches of a thousand records with values of 100 bytes. There is no raw figure: each pass makes
objects or buffers, and no system call does the same.
"""

import statistics
from collections.abc import Callable, Iterator
from time import perf_counter

from bench.figure import Figure, Target, rounded
from bench.log.amounts import BATCH_RECORDS, MIB, Amounts
from bench.log.append import make_messages
from goqueue import records
from goqueue.model import Message

__all__ = ["measure_passes"]

_VALUE_SIZE = 100
_PARTITIONS = 3
_TARGETS = {
    "pass_draft": Target(at_least=1_500_000),
    "pass_pick": Target(at_least=2_000_000),
    "pass_route": Target(at_least=15_000_000),
    "pass_visible": Target(at_least=2_000_000),
}

_HEADERS = (("content-type", b"application/json"), ("traceparent", bytes(55)))


def measure_passes(_root: str, amounts: Amounts) -> Iterator[Figure]:
    plain = make_messages(_VALUE_SIZE)
    headed = [Message(value=message.value, headers=_HEADERS) for message in plain]
    keyed = [
        Message(value=message.value, key=f"user-{number}".encode())
        for number, message in enumerate(plain)
    ]
    passes: dict[str, tuple[Callable[[bytearray], object], bytearray]] = {
        "pass_draft": (lambda _: _draft(plain), _stored(plain)),
        "pass_draft_headers": (lambda _: _draft(headed), _stored(headed)),
        "pass_pick": (lambda data: records.pick(data, range(BATCH_RECORDS)), _stored(plain)),
        "pass_route": (_route, _stored(plain)),
        "pass_route_keys": (_route, _stored(keyed)),
        "pass_survey": (
            lambda data: records.scan_messages(data, 0, with_keys=True),
            _stored(keyed),
        ),
        "pass_visible": (lambda data: records.visible(data, 0, BATCH_RECORDS), _stored(plain)),
        "pass_visible_headers": (
            lambda data: records.visible(data, 0, BATCH_RECORDS),
            _stored(headed),
        ),
    }
    for name, (run, batch) in passes.items():
        repeats = max(min(amounts.append_bytes, 32 * MIB) // len(batch), 1)
        seconds = [_time(run, batch, repeats) for _ in range(amounts.read_rounds)]
        yield Figure(
            figure=name,
            value=round(repeats * BATCH_RECORDS / statistics.median(seconds)),
            unit="records/s",
            target=_TARGETS.get(name),
            details={"seconds": rounded(seconds), "batches": repeats},
        )


def _stored(messages: list[Message]) -> bytearray:
    batch = records.build(messages)
    records.stamp(batch, 0, 1)
    return batch


def _draft(messages: list[Message]) -> bytearray:
    draft = records.Draft()
    for message in messages:
        draft.add(message.key, message.value, message.headers, message.priority)
    return draft.take()


def _route(batch: bytearray) -> records.Routed:
    return records.route(batch, _PARTITIONS, 0, None, body_bytes_max=MIB, needs_key=False)


def _time(run: Callable[[bytearray], object], batch: bytearray, repeats: int) -> float:
    began = perf_counter()
    for _ in range(repeats):
        run(batch)
    return perf_counter() - began
