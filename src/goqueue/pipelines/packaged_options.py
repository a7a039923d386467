"""Options of the packaged pipelines (archive, audit, redrive, replay, traces).

One Struct each. All are checked as a whole before anything starts, and none asks a broker.
"""

import datetime as dt
import hashlib
import re
from pathlib import Path

import msgspec

from goqueue.pipelines.connection import ConnectionOptions, OptionWrong, check_topic

__all__ = [
    "ArchiveOptions",
    "AuditOptions",
    "CompactOptions",
    "CopyOptions",
    "RedriveOptions",
    "ReplayOptions",
    "TracesOptions",
]

MEBIBYTE = 1 << 20
COMPRESSIONS = ("snappy", "zstd", "lz4", "gzip", "none")


class ArchiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Topics into a folder of Parquet.

    `file_bytes` is about how large a file gets before the next one is begun. A batch takes at most
    `batch_bytes` of the topics, and a continuous run makes one every `every_s` seconds: the
    longer, the fewer and larger are the files.
    """

    connection: ConnectionOptions
    topics: tuple[str, ...]
    to: Path
    checkpoint: Path | None = None
    is_once: bool = False
    every_s: float = 60.0
    file_bytes: int = 128 * MEBIBYTE
    batch_bytes: int = 1024 * MEBIBYTE
    starting: str = "earliest"
    compression: str = "snappy"
    fails_on_loss: bool = True

    def __post_init__(self) -> None:
        if not self.topics:
            raise OptionWrong("--topic", "name at least one topic")
        for topic in self.topics:
            check_topic("--topic", topic)
        if len(set(self.topics)) < len(self.topics):
            raise OptionWrong("--topic", "a topic is named twice")
        if self.every_s < 0:
            raise OptionWrong("--every", "is not negative")
        if self.starting not in {"earliest", "latest"}:
            raise OptionWrong("--from", f"is earliest or latest, not {self.starting!r}")
        if self.batch_bytes < MEBIBYTE:
            raise OptionWrong("--batch-size", "is at least 1 MiB")
        if self.checkpoint is not None and is_elsewhere(self.checkpoint):
            raise OptionWrong("--checkpoint", "is a folder that this machine sees as its own")
        check_files("--to", self.to, self.file_bytes, self.compression)


class CompactOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Small files of an archive into larger ones; without topics, of all."""

    to: Path
    topics: tuple[str, ...] = ()
    file_bytes: int = 128 * MEBIBYTE
    compression: str = "snappy"

    def __post_init__(self) -> None:
        if not is_elsewhere(self.to) and not self.to.is_dir():
            raise OptionWrong("--to", f"{self.to} is no folder")
        check_files("--to", self.to, self.file_bytes, self.compression)


def is_elsewhere(path: Path) -> bool:
    """Whether a path is the address of a store, of which a path leaves only one slash."""
    return re.match(r"[a-z][a-z0-9+.-]+:/", str(path)) is not None


def check_files(option: str, to: Path, file_bytes: int, compression: str) -> None:
    if is_elsewhere(to):
        # Files are brought in by renames, which stores of objects do not have.
        raise OptionWrong(option, "is a folder that this machine and all executors see")
    if to.exists() and not to.is_dir():
        raise OptionWrong(option, f"{to} is no folder")
    if file_bytes < 64 * 1024:
        raise OptionWrong("--file-size", "is at least 64 KiB")
    if compression not in COMPRESSIONS:
        raise OptionWrong("--compression", f"is one of {', '.join(COMPRESSIONS)}")


class AuditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Loss, duplicates and order in a topic. Expressions are SQL over the columns of the connector.

    With `sequence` all three are looked for: who numbers (`producer`, by itself the key) begins at
    `first` if that is given, and used `expected` numbers. With `identity` only duplicates are.
    """

    connection: ConnectionOptions
    topic: str
    sequence: str | None = None
    producer: str | None = None
    identity: str | None = None
    first: int | None = None
    expected: dict[str, int] = {}
    starting: str = "earliest"
    ending: str = "latest"

    def __post_init__(self) -> None:
        check_topic("--topic", self.topic)
        if (self.sequence is None) is (self.identity is None):
            words = "say by --sequence how rows are numbered, or by --id what tells them apart"
            raise OptionWrong("--sequence", words)
        for option, given in (
            ("--producer", self.producer is not None),
            ("--first", self.first is not None),
            ("--expected", bool(self.expected)),
        ):
            if given and self.sequence is None:
                raise OptionWrong(option, "goes with --sequence")
        if any(count < 0 for count in self.expected.values()):
            raise OptionWrong("--expected", "is not negative")


class CopyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a topic holds each row of another once, and rows of a key in the same order."""

    connection: ConnectionOptions
    topic: str
    against: str
    identity: str = "concat_ws(':', hex(key), md5(value))"
    target_identity: str | None = None
    starting: str = "earliest"
    ending: str = "latest"

    def __post_init__(self) -> None:
        check_topic("--topic", self.topic)
        check_topic("--against", self.against)
        if self.topic == self.against:
            raise OptionWrong("--against", "is the same topic")


class RedriveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of a topic; one is selected if all conditions that are given hold.

    `reason` is its reason or cause, `origin` the topic that it came from (by default the topic
    named), `group` the one that it died in. `where` is an SQL condition over the columns of
    `letters`. Nothing is sent unless `is_sent` is true.
    """

    connection: ConnectionOptions
    topic: str
    reason: str | None = None
    origin: str | None = None
    group: str | None = None
    where: str | None = None
    letters_max: int = 1_000_000
    to: str | None = None
    is_sent: bool = False
    samples: int = 3

    def __post_init__(self) -> None:
        check_topic("--topic", self.topic)
        for option, topic in (("--origin", self.origin), ("--to", self.to)):
            if topic is not None:
                check_topic(option, topic)
        if self.letters_max < 1:
            raise OptionWrong("--max", "is at least 1")
        if self.where is not None and not self.where.strip():
            raise OptionWrong("--where", "is empty")
        if not 0 <= self.samples <= 100:
            raise OptionWrong("--samples", "is from 0 to 100")


_PLACE = re.compile(r"earliest|latest|-\d{1,18}|\{.*\}", re.DOTALL)
_AGO = re.compile(r"-\d{1,9}(ms|s|m|h|d)")


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a topic, or of the archive of one, to another topic.

    Bounds are offsets (`starting`, `ending`: words of the connector, topics only) or times
    (`since`, `until`). A rate of 0 is none. A chunk is what is published by one decision.
    """

    connection: ConnectionOptions
    topic: str
    to: str
    archive: Path | None = None
    starting: str | None = None
    ending: str | None = None
    since: str | None = None
    until: str | None = None
    rate: float = 0.0
    chunk_rows: int = 200_000
    keeps_time: bool = False
    keeps_partition: bool = False
    checkpoint: Path | None = None

    def __post_init__(self) -> None:
        check_topic("--topic", self.topic)
        check_topic("--to", self.to)
        if self.archive is None and self.topic == self.to:
            raise OptionWrong("--to", "is the topic that is read: it would never end")
        if self.archive is not None and not self.archive.is_dir():
            raise OptionWrong("--archive", f"{self.archive} is no folder")
        if self.rate < 0 or self.rate != self.rate:
            raise OptionWrong("--rate", "is not negative")
        if self.chunk_rows < 1:
            raise OptionWrong("--chunk", "is at least 1")
        self._check_bounds()

    def _check_bounds(self) -> None:
        for first, second in (("starting", "since"), ("ending", "until")):
            if getattr(self, first) is not None and getattr(self, second) is not None:
                raise OptionWrong(_FLAGS[second], f"contradicts {_FLAGS[first]}: give one of them")
        for name in ("starting", "ending"):
            text: str | None = getattr(self, name)
            if text is not None and self.archive is not None:
                raise OptionWrong(_FLAGS[name], "is for topics: bound an archive by times")
            if text is not None and not _PLACE.fullmatch(text):
                words = 'is earliest, latest, -N or JSON such as {"orders":{"0":23}}'
                raise OptionWrong(_FLAGS[name], f"{words}, not {text!r}")
        for name in ("since", "until"):
            text = getattr(self, name)
            if text is not None and not (_AGO.fullmatch(text) or _is_time(text)):
                words = "is a time such as 2026-11-15T12:00:00Z, or -15m"
                raise OptionWrong(_FLAGS[name], f"{words}, not {text!r}")

    @property
    def rows_at_once(self) -> int:
        """Rows of a chunk: with a rate, what it allows in a few seconds."""
        return (
            max(1, min(self.chunk_rows, int(self.rate * _CHUNK_S)))
            if self.rate
            else (self.chunk_rows)
        )

    @property
    def place(self) -> Path:
        """Where it is remembered what was sent: the same for the same replay."""
        return self.checkpoint or Path("_pipelines") / f"replay-{self.fingerprint()}"

    def fingerprint(self) -> str:
        """What makes this replay another one than others; how fast it goes does not."""
        facts = (
            self.connection.server,
            self.topic,
            self.to,
            str(self.archive and self.archive.resolve()),
            *(self.starting, self.ending, self.since, self.until),
            *(self.keeps_time, self.keeps_partition),
        )
        return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]


_FLAGS = {"starting": "--from", "ending": "--upto", "since": "--since", "until": "--until"}
_CHUNK_S = 5.0


def _is_time(text: str) -> bool:
    try:
        return dt.datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


class TracesOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Span files: paths, folders or patterns. Without topics, all are read."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    slowest: int = 10

    def __post_init__(self) -> None:
        if not self.paths:
            raise OptionWrong("--spans", "name a file or a folder of spans")
        for path in self.paths:
            # Patterns are Spark's to resolve, and it says so if they match nothing.
            if not set(path) & set("*?[{") and not Path(path).exists():
                raise OptionWrong("--spans", f"there is nothing at {path}")
        for topic in self.topics:
            check_topic("--topic", topic)
        if not 0 <= self.slowest <= 10_000:
            raise OptionWrong("--slowest", "is from 0 to 10000")
