"""Real data directories made by a LocalLog, ways to spoil them, and the program run on them."""

import os
from pathlib import Path

import msgspec
import pytest

from goqueue.cli.log.directory import look_at
from goqueue.cli.log.verify import Problem, Verification, verify
from goqueue.cli.program import run
from goqueue.model import LogId, LogSettings, Message, Record
from goqueue.records import build, encode
from goqueue.runtime import LocalLog, OsFileSystem
from goqueue.storage import NameKind, segment_name

LOG = LogId("orders", 0)
VALUE = b"v" * 66
RECORD_SIZE = 34 + len(VALUE)
PER_SEGMENT = 10
SMALL = LogSettings(segment_bytes=RECORD_SIZE * PER_SEGMENT, index_interval_bytes=2 * RECORD_SIZE)


def write_log(
    root: Path, count: int = 25, log: LogId = LOG, messages: list[Message] | None = None
) -> Path:
    """A log of `count` records of 100 bytes, ten to a segment, stopped cleanly; its directory."""
    with LocalLog(str(root), log, SMALL) as local:
        for message in messages or [Message(value=VALUE)] * count:
            local.append(build([message]))
            local.wait_for_commit(local.log.end)
    return root / "logs" / log.topic / str(log.partition)


def segment(directory: Path, base: int, kind: NameKind = NameKind.SEGMENT) -> Path:
    return directory / segment_name(base, kind)


def spoil(path: Path, position: int) -> None:
    """Turn around the bits of one byte."""
    with path.open("r+b") as file:
        file.seek(position)
        octet = file.read(1)[0]
        file.seek(position)
        file.write(bytes([octet ^ 0xFF]))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def check(path: Path) -> Verification:
    tree = look_at(str(path))
    return verify(OsFileSystem(tree.root, is_read_only=True), tree.places, lambda _: None)


def problems(path: Path) -> list[Problem]:
    return list(check(path).verdict.problems)


def kinds(path: Path) -> list[str]:
    return [problem.kind.value for problem in problems(path)]


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything that a write would change: names, times and bytes."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [root, *root.rglob("*")]
    }


class Answer(msgspec.Struct, frozen=True):
    """What one run of the program came to."""

    code: int
    out: str
    err: str

    def json(self) -> object:
        return msgspec.json.decode(self.out)


class Terminal:
    """Runs the program in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def run(self, *arguments: str | Path) -> Answer:
        self._capture.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = self._capture.readouterr()
        return Answer(code, captured.out, captured.err)


def encode_at(offset: int) -> bytes:
    """The record that a log of these would have at this offset."""
    return encode(
        Record(offset=offset, timestamp=1, priority=2, flags=0, key=b"", value=VALUE, headers=())
    )
