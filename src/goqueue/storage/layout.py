"""The layout of a data directory, and the meaning of the names in it.

`logs/{topic}/{partition}/{base offset, 20 digits}.log`, with `.index` and `.timeindex` beside it,
and `.holes` if some of its records are damaged. Beside `logs`: `snapshots/{name}.json`, `trash` for
deleted logs whose files are not removed yet, `unclaimed/{number}/{topic}` for logs that no topic
claims, `journal-reserve`, which only occupies space, `replacement` while journals are replaced
(`staged_logs`), and `backups` and `restoring`, which belong to `goqueue.storage.backups`.
"""

import enum
import re
from collections.abc import Collection
from itertools import count

from goqueue.model import Code, LogId, Offset, Refused, check_name
from goqueue.storage.filesystem import EntryKind, FileSystem

__all__ = [
    "BACKUPS",
    "CLEANED_FILE",
    "EPOCHS_FILE",
    "LOGS",
    "POINT_FILE",
    "REPLACEMENT",
    "REPLACEMENT_FILE",
    "RESERVE_FILE",
    "RESTORING",
    "SNAPSHOTS",
    "TRASH",
    "UNCLAIMED",
    "NameKind",
    "classify",
    "cut_name",
    "directories_above",
    "find_logs",
    "is_topic",
    "log_directory",
    "quarantine_name",
    "segment_base",
    "segment_name",
]

LOGS = "logs"
BACKUPS = "backups"
RESTORING = "restoring"
SNAPSHOTS = "snapshots"
TRASH = "trash"
UNCLAIMED = "unclaimed"
POINT_FILE = "recovery-point"
RESERVE_FILE = "journal-reserve"
REPLACEMENT = "replacement"
REPLACEMENT_FILE = "journals.json"
EPOCHS_FILE = "epochs.json"
CLEANED_FILE = "cleaned-upto"

_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_SEGMENT = re.compile(r"([0-9]{20})(\.[a-z.]+)(-[0-9]+)?", re.ASCII)
# Far beyond what a log can reach, and far enough below the maximum offset to append after it.
_BASE_MAX = 1 << 62


class NameKind(enum.StrEnum):
    """The kind of a file beside a log; the value is its suffix, if it has one."""

    SEGMENT = ".log"
    INDEX = ".index"
    TIMEINDEX = ".timeindex"
    HOLES = ".holes"
    CLEANED = ".log.cleaned"
    QUARANTINED = ".log.quarantined"
    CUT = ".log.cut"
    TEMPORARY = ".tmp"
    OWN = ""
    FOREIGN = "foreign"


_SEGMENT_KINDS = (
    NameKind.SEGMENT,
    NameKind.INDEX,
    NameKind.TIMEINDEX,
    NameKind.HOLES,
    NameKind.CLEANED,
    NameKind.QUARANTINED,
    NameKind.CUT,
)
_NUMBERED = (NameKind.QUARANTINED, NameKind.CUT)


def is_topic(name: str) -> bool:
    """Whether a directory name is a valid topic name."""
    try:
        check_name(name, "topic")
    except Refused:
        return False
    return True


def log_directory(log: LogId) -> str:
    check_name(log.topic, "topic")
    if not _PARTITION.fullmatch(str(log.partition)):
        raise Refused(Code.NAME_INVALID, field="partition")
    return f"{LOGS}/{log.topic}/{log.partition}"


def directories_above(path: str) -> list[str]:
    """Every parent directory of this path, from the data directory down."""
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(len(names))]


def segment_name(base: int, kind: NameKind = NameKind.SEGMENT) -> str:
    return f"{base:020d}{kind.value}"


def quarantine_name(base: int, taken: Collection[str]) -> str:
    """A name for a quarantined segment that is not in use."""
    name = segment_name(base, NameKind.QUARANTINED)
    if name not in taken:
        return name
    return next(other for n in count(1) if (other := f"{name}-{n}") not in taken)


def cut_name(base: int, position: int) -> str:
    """A name for the bytes cut off a segment at `position`."""
    return f"{segment_name(base, NameKind.CUT)}-{position}"


def classify(name: str) -> NameKind:
    """The kind of a name in a log's directory."""
    if name in {POINT_FILE, EPOCHS_FILE, CLEANED_FILE}:
        return NameKind.OWN
    if name.removesuffix(NameKind.TEMPORARY) in {POINT_FILE, EPOCHS_FILE}:
        return NameKind.TEMPORARY
    match = _SEGMENT.fullmatch(name)
    if match is None or int(match[1]) > _BASE_MAX:
        return NameKind.FOREIGN
    for kind in _SEGMENT_KINDS:
        # There may be several such files beside a log, distinguished by a number.
        if match[2] == kind.value and (match[3] is None or kind in _NUMBERED):
            return kind
    return NameKind.FOREIGN


def segment_base(name: str) -> Offset:
    """The base offset in the name of a segment's file."""
    match = _SEGMENT.fullmatch(name)
    assert match is not None
    return Offset(int(match[1]))


def find_logs(files: FileSystem) -> tuple[list[LogId], list[str]]:
    """The logs of a data directory in order, and the paths that are not logs."""
    logs: list[LogId] = []
    foreign: list[str] = []
    kinds = [entry.kind for entry in files.entries("") if entry.name == LOGS]
    if kinds != [EntryKind.DIRECTORY]:
        return logs, [LOGS] if kinds else []
    for topic in sorted(files.entries(LOGS), key=lambda entry: entry.name):
        if topic.kind is not EntryKind.DIRECTORY or not is_topic(topic.name):
            foreign.append(f"{LOGS}/{topic.name}")
            continue
        found = files.entries(f"{LOGS}/{topic.name}")
        for partition in sorted(found, key=lambda entry: (len(entry.name), entry.name)):
            if partition.kind is EntryKind.DIRECTORY and _PARTITION.fullmatch(partition.name):
                logs.append(LogId(topic.name, int(partition.name)))
            else:
                foreign.append(f"{LOGS}/{topic.name}/{partition.name}")
    return logs, foreign
