"""The folder layout and the manifest of an archive: which files belong to it, and what they hold.

    topic=orders/date=2026-11-15/part-<query>-<batch>-<number>.parquet  what readers see
    _manifest/<query>/<batch>.json, _manifest/snapshot.json             what the archive consists of
    _staging/<query>/<batch>/*.staged                                   what may become part of it
    _checkpoint/<topics>/                                               Spark's, unless elsewhere
    _manifest/lock                                                      held by the one writer

Most readers of Parquet folders ignore names that begin with an underscore. For one that does not
(DuckDB) use `topic=*/*/*.parquet`: while a compaction exchanges folders, staged files have their
final names.

A commit is one file, put in place by one rename, so it exists as a whole or not at all. The archive
holds what commits add without what others remove; names are never reused, so the order of commits
does not matter. A snapshot stands for the commits that were folded into it.

Invariant: the batches of each query are committed in order, so the last one says which exist.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from goqueue.pipelines.connection import PipelineFailed

__all__ = [
    "Commit",
    "Entry",
    "Layout",
    "Manifest",
    "Run",
    "Snapshot",
    "StagedFile",
    "part_path",
    "read_commits",
    "read_manifest",
]


def part_path(topic: str, date: str, query: str, batch: int, number: int) -> str:
    """The place of a file in the archive; names never come twice."""
    return f"topic={topic}/date={date}/part-{query}-{batch:08d}-{number:05d}.parquet"


class Layout(msgspec.Struct, frozen=True):
    """The folder of an archive."""

    root: Path

    @property
    def manifest(self) -> Path:
        return self.root / "_manifest"

    @property
    def snapshot(self) -> Path:
        return self.manifest / "snapshot.json"

    @property
    def staging(self) -> Path:
        return self.root / "_staging"

    def commit(self, query: str, batch: int) -> Path:
        return self.manifest / query / f"{batch:020d}.json"

    def stage(self, query: str, batch: int) -> Path:
        return self.staging / query / f"{batch:020d}"

    @property
    def lock(self) -> Path:
        return self.manifest / "lock"

    def checkpoint(self, topics: Sequence[str]) -> Path:
        """One for each set of topics: a checkpoint knows which ones it is of."""
        name = ",".join(sorted(topics))
        if len(name) > 200:
            name = hashlib.sha256(name.encode()).hexdigest()
        return self.root / "_checkpoint" / name


T = TypeVar("T")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one partition that lie together in a file, in the order of their offsets."""

    partition: int
    first_offset: int
    last_offset: int
    rows: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the archive; its rows are those of the runs, one after the other."""

    path: str
    topic: str
    date: str
    runs: tuple[Run, ...]
    rows: int
    size_bytes: int
    sha256: str
    first_time_us: int
    last_time_us: int


class StagedFile(msgspec.Struct, frozen=True):
    """A file on its way: where it is staged, within its stage, and what it becomes."""

    staged: str
    entry: Entry


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch of one query changes."""

    query: str
    batch: int
    landings: tuple[StagedFile, ...] = ()
    removed: tuple[str, ...] = ()


class Snapshot(msgspec.Struct, frozen=True):
    """Commits folded into one: the files, and the last batch of each query."""

    entries: tuple[Entry, ...] = ()
    batches: dict[str, int] = {}


_COMMITS = msgspec.json.Decoder(Commit)
_SNAPSHOTS = msgspec.json.Decoder(Snapshot)


class Manifest:
    """What an archive holds, after a snapshot and the commits since."""

    def __init__(self, snapshot: Snapshot, commits: Iterable[Commit] = ()) -> None:
        self._entries = {entry.path: entry for entry in snapshot.entries}
        self._batches = dict(snapshot.batches)
        self._upto: dict[tuple[str, int], int] = {}
        self._removed: set[str] = set()
        for entry in snapshot.entries:
            self._cover(entry)
        for commit in commits:
            self.add(commit)

    @property
    def entries(self) -> list[Entry]:
        """The files, by topic, date, and the offsets that they begin with."""
        return sorted(
            self._entries.values(),
            key=lambda entry: (
                entry.topic,
                entry.date,
                entry.runs[0].partition if entry.runs else -1,
                entry.runs[0].first_offset if entry.runs else -1,
                entry.path,
            ),
        )

    def add(self, commit: Commit) -> None:
        for landing in commit.landings:
            self._cover(landing.entry)
            if landing.entry.path not in self._removed:
                self._entries[landing.entry.path] = landing.entry
        for path in commit.removed:
            self._removed.add(path)
            self._entries.pop(path, None)
        self._batches[commit.query] = max(commit.batch, self._batches.get(commit.query, -1))

    def has(self, query: str, batch: int) -> bool:
        return batch <= self._batches.get(query, -1)

    def next_batch(self, query: str) -> int:
        return self._batches.get(query, -1) + 1

    def upto(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The offsets after the last that is archived, by topic and partition."""
        found: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in sorted(self._upto.items()):
            if topic in topics:
                found.setdefault(topic, {})[partition] = offset
        return found

    def check_new(self, entries: Iterable[Entry]) -> None:
        """Refuse rows that are archived already: some other run with another checkpoint did so."""
        for entry in entries:
            for run in entry.runs:
                upto = self._upto.get((entry.topic, run.partition), 0)
                if run.first_offset < upto:
                    place = f"{entry.topic}/{run.partition}/{run.first_offset}"
                    raise PipelineFailed(
                        f"{place} is in the archive already, which goes up to {upto}: continue "
                        "with the checkpoint that brought it there, or archive into another folder"
                    )

    def snapshot(self) -> Snapshot:
        return Snapshot(tuple(self.entries), dict(sorted(self._batches.items())))

    def _cover(self, entry: Entry) -> None:
        for run in entry.runs:
            place = (entry.topic, run.partition)
            self._upto[place] = max(run.last_offset + 1, self._upto.get(place, 0))


def read_manifest(layout: Layout) -> Manifest:
    """The manifest as it is on the disk."""
    snapshot = Snapshot()
    if layout.snapshot.exists():
        snapshot = _decoded(layout.snapshot, _SNAPSHOTS)
    return Manifest(snapshot, read_commits(layout, snapshot.batches))


def read_commits(layout: Layout, folded: Mapping[str, int]) -> list[Commit]:
    """The commits that are not in the snapshot, by query and batch."""
    return [
        _decoded(path, _COMMITS)
        for path in sorted(layout.manifest.glob("*/*.json"))
        if int(path.stem) > folded.get(path.parent.name, -1)
    ]


def _decoded(path: Path, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(path.read_bytes())
    except msgspec.MsgspecError as error:
        raise PipelineFailed(f"{path} is no manifest of an archive: {error}") from error
