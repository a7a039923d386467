"""Records as the messages that the API shows, read directly from the files.

A message has the fields of the API's messages, and `flags`: the flags byte of the record as stored,
an integer, so that nothing is lost (1 compressed, 2 headers, 4 tombstone, 8 control, 16 commit, 32
delayed).
"""

import base64
import contextlib
import datetime as dt
from collections.abc import Callable, Iterator

import msgspec

from goqueue.cli.log.directory import Flaw, Place, Segment, take_snapshot, walk
from goqueue.cli.log.verify import Problem, problem_of
from goqueue.model import SECOND, Header, LogId, Priority, Record
from goqueue.records import Corrupt, decode, decompress
from goqueue.storage import Chunk, Entry, EntryKind, FileSystem

__all__ = ["Selection", "ShownMessage", "read_messages", "show", "timestamp_text"]


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as JSON shows it."""

    topic: str
    partition: int
    offset: int
    timestamp: str
    key: str | msgspec.UnsetType = msgspec.UNSET
    value: str | None
    priority: str
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    encoding: str | msgspec.UnsetType = msgspec.UNSET
    base64_headers: list[str] | msgspec.UnsetType = msgspec.UNSET
    flags: int


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are wanted, and in what state."""

    first_offset: int = 0
    is_raw: bool = False
    has_quarantined: bool = False


def read_messages(
    files: FileSystem, place: Place, selection: Selection, report: Callable[[Problem], None]
) -> Iterator[ShownMessage]:
    """The good records of one log in the order of their offsets; flaws on the way are reported."""
    for record in _records(files, place, selection, report):
        yield show(record, place.log, is_raw=selection.is_raw)


def _records(
    files: FileSystem, place: Place, selection: Selection, report: Callable[[Problem], None]
) -> Iterator[Record]:
    snapshot = take_snapshot(files, place)
    segments = snapshot.segments()
    if selection.has_quarantined:
        segments = sorted(segments + snapshot.set_aside(), key=lambda segment: segment.base)
    offset = selection.first_offset
    for index, segment in enumerate(segments):
        is_before = index + 1 < len(segments) and segments[index + 1].base <= offset
        if is_before or segment.entry.kind is not EntryKind.FILE:
            continue
        for part in _parts(files, place, segment):
            if isinstance(part, Flaw):
                report(problem_of(place.log, segment, part))
                continue
            # A leftover of an interrupted compaction repeats offsets: each is shown once.
            for found, position in zip(part.columns.offsets, part.columns.positions, strict=True):
                if found >= offset:
                    offset = found + 1
                    yield decode(part.data, position)


def _parts(files: FileSystem, place: Place, segment: Segment) -> Iterator[Chunk | Flaw]:
    try:
        file = files.open(f"{place.directory}/{segment.entry.name}")
    except FileNotFoundError:
        # Retention or compaction of a broker at work has just removed it.
        return
    try:
        yield from walk(file, segment if segment.is_last else _resized(segment, file.size()))
    finally:
        file.close()


def _resized(segment: Segment, size: int) -> Segment:
    """A sealed segment as opened: compaction may have replaced it since the listing."""
    entry = Entry(segment.entry.name, segment.entry.kind, size)
    return msgspec.structs.replace(segment, entry=entry, promised=size)


def show(record: Record, log: LogId, *, is_raw: bool = False) -> ShownMessage:
    """One record as a message. A value that cannot be decompressed is shown as it is stored."""
    flags = record.flags
    if not is_raw:
        with contextlib.suppress(Corrupt):
            record = decompress(record)
    key, value = _text(record.key), _text(record.value or b"")
    is_binary = key is None or value is None
    if is_binary:
        key, value = _base64(record.key), _base64(record.value or b"")
    headers, binary = _headers(record.headers)
    return ShownMessage(
        topic=log.topic,
        partition=log.partition,
        offset=record.offset,
        timestamp=timestamp_text(record.timestamp),
        key=key or msgspec.UNSET,
        value=None if record.value is None else value,
        priority=Priority(record.priority).name.lower(),
        headers=headers or msgspec.UNSET,
        encoding="base64" if is_binary else msgspec.UNSET,
        base64_headers=binary or msgspec.UNSET,
        flags=flags,
    )


def _headers(headers: tuple[Header, ...]) -> tuple[dict[str, str], list[str]]:
    """Headers as a map, where the last of equal names stands, and the names given in base64."""
    shown: dict[str, str] = {}
    binary: list[str] = []
    for name, value in dict(headers).items():
        text = _text(value)
        shown[name] = _base64(value) if text is None else text
        if text is None:
            binary.append(name)
    return shown, binary


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def timestamp_text(timestamp: int) -> str:
    """RFC 3339 in UTC, to the nanosecond, without trailing zeros."""
    seconds, fraction = divmod(timestamp, SECOND)
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{digits}Z"
