"""Topics kept as Parquet, by topic and date: each row once, for anything that reads Parquet."""

from goqueue.pipelines.packaged.archive.bundles import bundle
from goqueue.pipelines.packaged.archive.compaction import (
    Compacted,
    Merge,
    compact,
    merge_files,
    plan_merges,
)
from goqueue.pipelines.packaged.archive.drafts import Draft, Drafts
from goqueue.pipelines.packaged.archive.layout import Layout, part_path
from goqueue.pipelines.packaged.archive.manifest import (
    Commit,
    Entry,
    Landing,
    Manifest,
    Run,
    Snapshot,
    read_manifest,
)
from goqueue.pipelines.packaged.archive.options import ArchiveOptions, CompactOptions
from goqueue.pipelines.packaged.archive.running import Archived, archive, landings
from goqueue.pipelines.packaged.archive.shelf import COMPACTION, Shelf, open_shelf

__all__ = [
    "COMPACTION",
    "ArchiveOptions",
    "Archived",
    "Commit",
    "CompactOptions",
    "Compacted",
    "Draft",
    "Drafts",
    "Entry",
    "Landing",
    "Layout",
    "Manifest",
    "Merge",
    "Run",
    "Shelf",
    "Snapshot",
    "archive",
    "bundle",
    "compact",
    "landings",
    "merge_files",
    "open_shelf",
    "part_path",
    "plan_merges",
    "read_manifest",
]
