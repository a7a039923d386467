"""Where things are in the folder of an archive.

    topic=orders/date=2026-11-15/part-<query>-<batch>-<number>.parquet  what readers see
    _manifest/<query>/<batch>.json, _manifest/snapshot.json             what the archive consists of
    _staging/<query>/<batch>/*.staged                                   what may become part of it
    _checkpoint/<topics>/                                               Spark's, unless elsewhere
    _manifest/lock                                                      held by the one who writes

Most readers of Parquet folders pass over names that begin with an underscore. One that does not
(DuckDB) takes `topic=*/*/*.parquet`: while a compaction trades folders, files lie in the stage
under their own names.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

__all__ = ["Layout", "part_path"]


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
