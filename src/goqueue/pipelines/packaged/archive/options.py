"""What an archive is asked to do, checked before anything is begun."""

import re
from pathlib import Path

import msgspec

from goqueue.pipelines.packaged.wiring import OptionWrong, Wiring, check_topic

__all__ = ["ArchiveOptions", "CompactOptions"]

MEBIBYTE = 1 << 20
COMPRESSIONS = ("snappy", "zstd", "lz4", "gzip", "none")


class ArchiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Topics into a folder of Parquet.

    `file_bytes` is about how large a file gets before the next one is begun. A batch takes at most
    `batch_bytes` of the topics, and a run that goes on makes one every `every_s` seconds: the
    longer, the fewer and larger are the files.
    """

    wiring: Wiring
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
