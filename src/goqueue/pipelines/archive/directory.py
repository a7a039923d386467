"""The folder of an archive while one writes to it: what is staged, decided, and put in place.

A batch goes through these steps, and may be cut off after each:

    1  tasks write and flush files of the stage     nothing is decided: the stage is thrown away
    2  the commit is written beside its place       the same
    3  the commit is renamed into its place         decided: from here on the batch is archived
    4  staged files are renamed to their places     `recover` renames the rest
    5  the stage is removed                         `recover` removes it
    6  Spark notes that the batch is done           the batch comes again: its commit is there

So a file that readers see is always in the manifest. Between 3 and 5 of a run that was cut off,
readers miss some rows of one batch until the next run; they never see a row twice.

A compaction replaces a whole `date=` folder: kept files are linked into a new one, which trades
places with the old one in a single system call where the system can do that. Elsewhere the old one
is moved away first, and readers may miss that date for the moment between two renames.
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from goqueue.pipelines.archive.manifest import Commit, Layout, Manifest, read_commits, read_manifest
from goqueue.pipelines.connection import PipelineFailed

__all__ = ["COMPACTION", "ArchiveDirectory", "open_archive"]

# The query of commits that only replace files by others with the same rows.
COMPACTION = "compaction"
_COMMITS_MAX = 256
_AT_CWD = -100
_EXCHANGE = 2


@contextlib.contextmanager
def open_archive(layout: Layout) -> Iterator["ArchiveDirectory"]:
    """The directory, recovered, and locked as long as the block runs."""
    layout.manifest.mkdir(parents=True, exist_ok=True)
    with layout.lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            words = f"another run writes to {layout.root}: stop it, or archive into another folder"
            raise PipelineFailed(words) from None
        yield ArchiveDirectory(layout)


class ArchiveDirectory:
    """Brings batches into the archive. To be opened by `open_archive`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._manifest = read_manifest(layout)
        self._recover()

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    def begin(self, query: str, batch: int) -> Path:
        """An empty stage for a batch."""
        stage = self.layout.stage(query, batch)
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        return stage

    def commit(self, commit: Commit) -> None:
        """Decide a batch, and put its files in place."""
        if commit.query != COMPACTION:
            self._manifest.check_new(landing.entry for landing in commit.landings)
        stage = self.layout.stage(commit.query, commit.batch)
        if stage.exists():
            _sync(stage)
        _write_durably(self.layout.commit(commit.query, commit.batch), msgspec.json.encode(commit))
        self._manifest.add(commit)
        self._finish(commit)

    def fold(self, commits_max: int = _COMMITS_MAX) -> None:
        """Write one snapshot for all commits, if they have become many."""
        paths = sorted(self.layout.manifest.glob("*/*.json"))
        if len(paths) < commits_max:
            return
        snapshot = self._manifest.snapshot()
        _write_durably(self.layout.snapshot, msgspec.json.encode(snapshot))
        for path in paths:
            path.unlink()

    def _recover(self) -> None:
        """Finish what was decided, and throw away what was not."""
        for commit in read_commits(self.layout, {}):
            if self.layout.stage(commit.query, commit.batch).exists():
                self._finish(commit)
        shutil.rmtree(self.layout.staging, ignore_errors=True)

    def _finish(self, commit: Commit) -> None:
        """Put the files of a commit in place; may be done again and again."""
        stage = self.layout.stage(commit.query, commit.batch)
        root = self.layout.root
        if commit.removed:
            for folder in _folders(commit):
                self._replace(commit, stage, folder)
        else:
            for landing in commit.landings:
                staged, place = stage / landing.staged, root / landing.entry.path
                if staged.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    staged.replace(place)
            for folder in _folders(commit):
                _sync(root / folder)
                _sync((root / folder).parent)
        _sync(root)
        shutil.rmtree(stage, ignore_errors=True)

    def _replace(self, commit: Commit, stage: Path, folder: str) -> None:
        """Let a folder hold what the manifest says."""
        place, made = self.layout.root / folder, stage / "made" / folder
        names = {
            Path(entry.path).name for entry in self._manifest.entries if _in(entry.path, folder)
        }
        if place.exists() and {each.name for each in place.iterdir()} == names:
            return
        if place.exists():
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
            staged = {Path(each.entry.path).name: each.staged for each in commit.landings}
            for name in sorted(names):
                here = place / name
                (made / name).hardlink_to(here if here.exists() else stage / staged[name])
            _sync(made)
            _trade(made, place, stage / "old" / folder)
        else:
            # Cut off between the two renames of `_trade`.
            made.replace(place)
        _sync(place.parent)


def _folders(commit: Commit) -> list[str]:
    paths = [*(landing.entry.path for landing in commit.landings), *commit.removed]
    return sorted({str(Path(path).parent) for path in paths})


def _in(path: str, folder: str) -> bool:
    return str(Path(path).parent) == folder


def _trade(made: Path, place: Path, aside: Path) -> None:
    """Put a folder in another's place, at once if the system can."""
    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange is not None:
        both = (os.fsencode(made), os.fsencode(place))
        if exchange(_AT_CWD, both[0], _AT_CWD, both[1], _EXCHANGE) == 0:
            return
    aside.parent.mkdir(parents=True, exist_ok=True)
    place.replace(aside)
    made.replace(place)


def _write_durably(path: Path, content: bytes) -> None:
    """As a whole or not at all, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    _sync(path.parent)
    _sync(path.parent.parent)


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
