"""Small files of an archive into larger ones, with the same rows in the same order.

Files of a date are merged by runs: rows of a partition that lie together go one after the other, in
the order of (partition, first offset), so that the merged files are sorted again. One task of Spark
writes one new file; rows never leave the task.
"""

import functools
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from goqueue.pipelines.archive.directory import COMPACTION, open_archive
from goqueue.pipelines.archive.files import Draft, Drafts
from goqueue.pipelines.archive.manifest import Commit, Entry, Layout
from goqueue.pipelines.archive.run import landings
from goqueue.pipelines.packaged_options import CompactOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Compacted", "Merge", "compact", "merge_files", "plan_merges"]


class Merge(msgspec.Struct, frozen=True):
    """Files of one topic and date that become one."""

    entries: tuple[Entry, ...]


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction has done."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0


_MERGES = msgspec.json.Decoder(Merge)
_DRAFTS = msgspec.json.Decoder(Draft)


def plan_merges(entries: Sequence[Entry], file_bytes: int) -> list[Merge]:
    """Which files to merge: those below three quarters of the size that is aimed at, in groups."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.size_bytes < file_bytes * 3 // 4:
            groups.setdefault((entry.topic, entry.date), []).append(entry)
    merges = []
    for _, small in sorted(groups.items()):
        # By offsets across partitions, so that a merged file holds what came at about one time.
        small.sort(key=lambda entry: (entry.first_time_us, entry.path))
        together: list[Entry] = []
        size = 0
        for entry in small:
            if together and size + entry.size_bytes > file_bytes:
                merges.append(Merge(tuple(together)))
                together, size = [], 0
            together.append(entry)
            size += entry.size_bytes
        merges.append(Merge(tuple(together)))
    return [merge for merge in merges if len(merge.entries) > 1]


def compact(spark: "SparkSession", options: CompactOptions) -> Compacted:
    """Merge what is worth it; readers see the old files or the new ones."""
    with open_archive(Layout(options.to)) as directory:
        entries = [
            entry
            for entry in directory.manifest.entries
            if not options.topics or entry.topic in options.topics
        ]
        merges = plan_merges(entries, options.file_bytes)
        if not merges:
            return Compacted(files_before=len(entries), files_after=len(entries))
        batch = directory.manifest.next_batch(COMPACTION)
        stage = directory.begin(COMPACTION, batch)
        drafts = _merged(spark, merges, stage.resolve(), options)
        found = landings(COMPACTION, batch, drafts)
        removed = tuple(entry.path for merge in merges for entry in merge.entries)
        directory.commit(Commit(query=COMPACTION, batch=batch, landings=found, removed=removed))
        directory.fold()
        return Compacted(
            files_before=len(entries),
            files_after=len(entries) - len(removed) + len(found),
            rows=sum(each.entry.rows for each in found),
        )


def _merged(
    spark: "SparkSession", merges: Sequence[Merge], stage: Path, options: CompactOptions
) -> list[Draft]:
    work = functools.partial(_work, options.to.resolve(), stage, options.compression)
    # Not as rows of a table: those reach Python as Arrow only where pandas is installed, too.
    texts = [msgspec.json.encode(each).decode() for each in merges]
    found = spark.sparkContext.parallelize(texts, len(texts)).map(work).collect()
    return [_DRAFTS.decode(text) for text in found]


def _work(root: Path, stage: Path, compression: str, text: str) -> str:
    """A task: both ways as text, since decoders do not travel."""
    draft = merge_files(root, _MERGES.decode(text), stage, compression)
    return msgspec.json.encode(draft).decode()


def merge_files(root: Path, merge: Merge, stage: Path, compression: str) -> Draft:
    """Write the rows of all files to one."""
    first = merge.entries[0]
    drafts = Drafts(
        stage, uuid.uuid4().hex, first.topic, compression=compression, file_bytes_max=1 << 62
    )
    runs = []
    for entry in merge.entries:
        row = 0
        for run in entry.runs:
            runs.append((run.partition, run.first_offset, row, run.rows, entry.path))
            row += run.rows
    for partition, _, start, count, path in sorted(runs):
        for rows in _slice(root / path, start, count):
            drafts.add(partition, rows)
    (draft,) = drafts.finish()
    return draft


def _slice(path: Path, start: int, count: int) -> Iterator[pa.RecordBatch]:
    """Some rows of a file; row groups beside them are not read."""
    with pq.ParquetFile(path) as file:
        begin = 0
        for number in range(file.num_row_groups):
            rows = file.metadata.row_group(number).num_rows
            first, last = max(start, begin), min(start + count, begin + rows)
            if first < last:
                table = file.read_row_group(number).slice(first - begin, last - first)
                yield from table.to_batches()
            begin += rows
