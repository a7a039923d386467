"""Batches brought into an archive, and cut off at every step of it."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

import pyarrow as pa
import pyarrow.dataset as ds

from goqueue.pipelines.archive.compaction import merge_files, plan_merges
from goqueue.pipelines.archive.directory import COMPACTION, ArchiveDirectory, open_archive
from goqueue.pipelines.archive.files import Draft, Drafts
from goqueue.pipelines.archive.manifest import Commit, Layout, read_manifest
from goqueue.pipelines.archive.run import landings
from goqueue.pipelines.connection import PipelineFailed

DAY_US = 86_400_000_000

ROOT = Path(__file__).resolve().parents[4]


def rows(partition: int, first: int, count: int, day: int = 20_000) -> pa.RecordBatch:
    """Rows of a partition as the connector yields them."""
    offsets = list(range(first, first + count))
    columns = {
        "topic": ["orders"] * count,
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array(
            [day * DAY_US + offset for offset in offsets], pa.timestamp("us", tz="UTC")
        ),
        "key": pa.array([None] * count, pa.binary()),
        "value": pa.array([f"{partition}:{offset}".encode() for offset in offsets], pa.binary()),
        "priority": pa.array([2] * count, pa.int32()),
        "headers": pa.array(
            [[]] * count, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
    }
    return pa.RecordBatch.from_pydict(columns)


def drafted(stage: Path, *batches: pa.RecordBatch, file_bytes_max: int = 1 << 30) -> list[Draft]:
    """Each batch in files of its own."""
    found = []
    for number, batch in enumerate(batches):
        drafts = Drafts(
            stage, f"t{number}", "orders", compression="snappy", file_bytes_max=file_bytes_max
        )
        drafts.add(batch.column("partition")[0].as_py(), batch)
        found += drafts.finish()
    return found


def bring(directory: ArchiveDirectory, query: str, batch: int, *batches: pa.RecordBatch) -> None:
    stage = directory.begin(query, batch)
    found = landings(query, batch, drafted(stage, *batches))
    directory.commit(Commit(query=query, batch=batch, landings=found))


def seen(lake: Path) -> Counter[str]:
    """What a plain reader finds: every value, and how often."""
    if not visible(lake):
        return Counter()
    table = ds.dataset(lake, partitioning="hive").to_table()
    return Counter(value.decode() for value in table.column("value").to_pylist())


def visible(lake: Path) -> set[str]:
    return {str(path.relative_to(lake)) for path in lake.glob("topic=*/*/*.parquet")}


def known(lake: Path) -> set[str]:
    return {entry.path for entry in read_manifest(Layout(lake)).entries}


def values(partition: int, first: int, count: int) -> set[str]:
    return {f"{partition}:{offset}" for offset in range(first, first + count)}


def test_a_batch_is_seen_as_a_whole_by_plain_readers(tmp_path: Path) -> None:
    with open_archive(Layout(tmp_path)) as directory:
        bring(directory, "q", 0, rows(0, 0, 3), rows(1, 0, 2))
        bring(directory, "q", 1, rows(0, 3, 2))

        assert directory.manifest.has("q", 1)
        assert not directory.manifest.has("q", 2)
        assert directory.manifest.upto(["orders"]) == {"orders": {0: 5, 1: 2}}
    assert seen(tmp_path) == Counter(values(0, 0, 5) | values(1, 0, 2))
    assert visible(tmp_path) == known(tmp_path)
    assert not list((tmp_path / "_staging").rglob("*.staged"))


def test_rows_of_several_days_lie_in_folders_of_their_dates(tmp_path: Path) -> None:
    midnight = pa.concat_batches([rows(0, 0, 2, day=20_000), rows(0, 2, 2, day=20_001)])
    with open_archive(Layout(tmp_path)) as directory:
        bring(directory, "q", 0, midnight)

    folders = sorted(path.parent.name for path in tmp_path.rglob("*.parquet"))
    assert folders == ["date=2024-10-04", "date=2024-10-05"]
    assert seen(tmp_path) == Counter(values(0, 0, 4))


def test_files_do_not_grow_without_end(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path, "t", "orders", compression="none", file_bytes_max=1)
    for first in (0, 2, 4):
        drafts.add(0, rows(0, first, 2))
    found = drafts.finish()

    assert [draft.rows for draft in found] == [2, 2, 2]
    assert all(draft.size_bytes == (tmp_path / draft.staged).stat().st_size for draft in found)


def test_rows_that_another_run_archived_are_refused(tmp_path: Path) -> None:
    with open_archive(Layout(tmp_path)) as directory:
        bring(directory, "q", 0, rows(0, 0, 3))
        with pytest.raises(PipelineFailed, match="orders/0/2 is in the archive already"):
            bring(directory, "other", 0, rows(0, 2, 3))

    assert seen(tmp_path) == Counter(values(0, 0, 3))


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    with (
        open_archive(Layout(tmp_path)),
        pytest.raises(PipelineFailed, match="another run"),
        open_archive(Layout(tmp_path)),
    ):
        pass


def test_what_is_no_manifest_is_named(tmp_path: Path) -> None:
    with open_archive(Layout(tmp_path)) as directory:
        bring(directory, "q", 0, rows(0, 0, 1))
    Layout(tmp_path).commit("q", 0).write_text("{")

    with pytest.raises(PipelineFailed, match="is no manifest"):
        read_manifest(Layout(tmp_path))


def test_many_commits_are_folded_into_one_snapshot_that_says_the_same(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with open_archive(layout) as directory:
        bring(directory, "q", 0, rows(0, 0, 3))
        bring(directory, "q", 1, rows(0, 3, 3))
        before = directory.manifest.entries
        directory.fold(commits_max=2)

    assert not list(layout.manifest.glob("*/*.json"))
    manifest = read_manifest(layout)
    assert manifest.entries == before
    assert manifest.has("q", 1)
    assert manifest.upto(["orders"]) == {"orders": {0: 6}}


def compacted(directory: ArchiveDirectory, root: Path) -> Commit:
    """What a compaction of all files decides; the new files are staged."""
    merges = plan_merges(directory.manifest.entries, 1 << 30)
    batch = directory.manifest.next_batch(COMPACTION)
    stage = directory.begin(COMPACTION, batch)
    found = landings(
        COMPACTION, batch, [merge_files(root, merge, stage, "snappy") for merge in merges]
    )
    removed = tuple(entry.path for merge in merges for entry in merge.entries)
    return Commit(query=COMPACTION, batch=batch, landings=found, removed=removed)


def test_merged_files_hold_the_same_rows_sorted_by_partition_and_offset(tmp_path: Path) -> None:
    with open_archive(Layout(tmp_path)) as directory:
        bring(directory, "q", 0, rows(1, 0, 3), rows(0, 0, 3))
        bring(directory, "q", 1, rows(0, 3, 3), rows(1, 3, 3))
        directory.commit(compacted(directory, tmp_path))
        bring(directory, "q", 2, rows(0, 6, 2))
        # Merged files are merged again.
        directory.commit(compacted(directory, tmp_path))
        (entry,) = directory.manifest.entries

    (path,) = tmp_path.rglob("*.parquet")
    table = ds.dataset(path).to_table()
    places = [(row["partition"], row["offset"]) for row in table.to_pylist()]
    assert places == [(0, offset) for offset in range(8)] + [(1, offset) for offset in range(6)]
    assert [(run.partition, run.first_offset, run.last_offset) for run in entry.runs] == [
        (0, 0, 7),
        (1, 0, 5),
    ]
    assert read_manifest(Layout(tmp_path)).upto(["orders"]) == {"orders": {0: 8, 1: 6}}


def test_files_are_merged_up_to_the_size_that_is_aimed_at(tmp_path: Path) -> None:
    with open_archive(Layout(tmp_path)) as directory:
        for batch in range(5):
            bring(directory, "q", batch, rows(0, batch, 1))
        entries = directory.manifest.entries
    size = max(entry.size_bytes for entry in entries)

    assert [len(merge.entries) for merge in plan_merges(entries, size * 2)] == [2, 2]
    assert [len(merge.entries) for merge in plan_merges(entries, size * 100)] == [5]
    # What is large enough is left alone.
    assert plan_merges(entries, size) == []


def cut_off(template: Path, folder: Path, *flags: str) -> int:
    """Commit at all lengths of life; how many there were."""
    program = [sys.executable, "-m", "tests.unit.pipelines.archive.cut_off"]
    ran = subprocess.run(
        [*program, str(template), str(folder), *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def test_a_batch_that_is_cut_off_at_any_step_is_there_once_after_a_restart(
    tmp_path: Path,
) -> None:
    template = tmp_path / "template"
    with open_archive(Layout(template / "lake")) as directory:
        bring(directory, "q", 0, rows(0, 0, 3))
    stage = template / "stage"
    stage.mkdir()
    found = landings("q", 1, drafted(stage, rows(0, 3, 2), rows(1, 0, 2)))
    # An attempt that Spark gave up leaves a file that nobody speaks of.
    (stage / "orphan.staged").write_bytes(b"PAR1")
    batch = Commit(query="q", batch=1, landings=found)
    (template / "commit.json").write_bytes(msgspec.json.encode(batch))
    before, after = values(0, 0, 3), values(0, 0, 5) | values(1, 0, 2)

    lives = cut_off(template, tmp_path / "lives")

    assert lives > 8
    undecided = 0
    for life in range(lives):
        lake = tmp_path / "lives" / str(life) / "lake"
        decided = read_manifest(Layout(lake)).has("q", 1)
        undecided += not decided
        # Whatever a plain reader sees now is known, and nothing of it twice.
        assert visible(lake) <= known(lake)
        assert before <= set(seen(lake)) <= after
        assert set(seen(lake).values()) == {1}
        with open_archive(Layout(lake)) as directory:
            assert seen(lake) == Counter(after if decided else before)
            assert visible(lake) == known(lake)
            if not directory.manifest.has("q", 1):
                restage = directory.begin("q", 1)
                for file in stage.iterdir():
                    shutil.copy(file, restage)
                directory.commit(batch)
        assert seen(lake) == Counter(after)
        assert visible(lake) == known(lake)
    assert 0 < undecided < lives


@pytest.mark.parametrize("flags", [(), ("without-exchange",)])
def test_a_compaction_that_is_cut_off_at_any_step_neither_loses_nor_repeats_rows(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    template = tmp_path / "template"
    lake = template / "lake"
    with open_archive(Layout(lake)) as directory:
        bring(directory, "q", 0, rows(0, 0, 3), rows(1, 0, 2))
        bring(directory, "q", 1, rows(0, 3, 2))
        merged = compacted(directory, lake)
        stage = Layout(lake).stage(COMPACTION, 0)
        stage.replace(template / "stage")
    (template / "commit.json").write_bytes(msgspec.json.encode(merged))
    every = Counter(values(0, 0, 5) | values(1, 0, 2))

    lives = cut_off(template, tmp_path / "lives", *flags)

    for life in range(lives):
        lake = tmp_path / "lives" / str(life) / "lake"
        # Without the exchange a date may be missing for a moment; nothing is ever there twice.
        assert seen(lake) in ([every] if not flags else [every, Counter()])
        with open_archive(Layout(lake)):
            assert seen(lake) == every
            assert visible(lake) == known(lake)
    assert len(visible(tmp_path / "lives" / str(lives - 1) / "lake")) == 1
