"""Judges the audit logs of a cluster: each has every change that the metadata log says, once."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from goqueue.model import Offset
from goqueue.model.requests import Command, Read, Records
from goqueue.records import Buffer, Flag, decode, last_offset, walk
from goqueue.security import AuditRecord, AuditRecorded
from goqueue.sim.oracle import Violation

__all__ = ["check_audit"]

_changes = msgspec.json.Decoder(list[msgspec.Raw])
_kind = msgspec.json.Decoder(dict[str, object])
_recorded = msgspec.json.Decoder(AuditRecorded)
_record = msgspec.json.Decoder(AuditRecord)


class _Told(NamedTuple):
    """What tells the record of a change from all others, on any node."""

    version: int
    part: int
    time: str
    action: str
    resource: str


def check_audit(name: str, metadata: Buffer, ask: Callable[[Command], object]) -> None:
    """`metadata` is what the log of a broker has, and `ask` asks that broker."""
    told = [_told(each, each.version, each.part) for each in _read(name, ask)]
    places = [each[:2] for each in told]
    if places != sorted(places):
        raise Violation("audit logs are in order", f"{name}: {places}")
    counts = Counter(told)
    for expected in _expected(metadata):
        if not counts[expected]:
            raise Violation("no change without its audit record", f"{name} lacks {expected}")
        if counts[expected] > 1:
            raise Violation("no audit record twice", f"{name} repeats {expected}")


def _told(record: AuditRecord, version: int, part: int) -> _Told:
    return _Told(version, part, record.time, record.action, record.resource)


def _expected(metadata: Buffer) -> Iterator[_Told]:
    for position in walk(metadata).positions:
        record = decode(metadata, position)
        if record.flags & Flag.CONTROL:
            continue
        changes = _changes.decode(record.value or b"")
        audited = [each for each in changes if _kind.decode(each)["type"] == "audit"]
        for part, each in enumerate(audited):
            yield _told(_recorded.decode(each).record, record.offset + 1, part)


def _read(name: str, ask: Callable[[Command], object]) -> list[AuditRecord]:
    found: list[AuditRecord] = []
    offset = Offset(0)
    while True:
        reply = ask(Read(topic="__audit", partition=0, offset=offset))
        if not isinstance(reply, Records):
            raise Violation("liveness", f"the audit log of {name} cannot be read: {reply}")
        if not reply.data:
            return found
        for data in reply.data:
            positions = walk(data).positions
            found += (_record.decode(decode(data, each).value or b"") for each in positions)
        offset = Offset(last_offset(reply.data[-1]) + 1)
