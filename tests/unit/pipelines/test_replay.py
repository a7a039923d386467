"""What a replay sends: bounds, chunks, the pace, and what is kept of it."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

from hypothesis import given
from hypothesis import strategies as st

from goqueue.pipelines.archive.manifest import Entry, Manifest, Run, Snapshot
from goqueue.pipelines.connection import ConnectionOptions, OptionWrong, PipelineFailed
from goqueue.pipelines.packaged_options import ReplayOptions
from goqueue.pipelines.replay import (
    Done,
    Plan,
    Stretch,
    chunk,
    files_of,
    load,
    pause_s,
    plan_of_archive,
    save,
)

WIRING = ConnectionOptions(server="http://127.0.0.1:1")

HOUR_US = 3_600_000_000


def options(**more: object) -> ReplayOptions:
    return ReplayOptions(**{"connection": WIRING, "topic": "orders", "to": "copy", **more})  # type: ignore[arg-type]  # Wrong ones are what is tested.


def plan(*stretches: tuple[int, int, int], chunk_rows: int = 10) -> Plan:
    return Plan(
        identity="i",
        fingerprint="f",
        topic="orders",
        stretches=tuple(
            Stretch(partition=partition, start=start, end=end)
            for partition, start, end in stretches
        ),
        chunk_rows=chunk_rows,
    )


@given(
    bounds=st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)), max_size=5),
    chunk_rows=st.integers(10**4, 10**6),
)
def test_chunks_touch_and_never_overlap(bounds: list[tuple[int, int]], chunk_rows: int) -> None:
    stretches = [(number, start, start + span) for number, (start, span) in enumerate(bounds)]
    whole = plan(*stretches, chunk_rows=chunk_rows)
    reached = {number: start for number, start, _ in stretches}

    for number in range(whole.chunks):
        for each in chunk(whole, number):
            assert each.start == reached[each.partition]
            assert each.end > each.start
            reached[each.partition] = each.end
        sizes = [each.end - each.start for each in chunk(whole, number)]
        assert sum(sizes) <= chunk_rows + len(sizes)

    assert reached == {number: end for number, _, end in stretches}


def test_nothing_to_send_has_no_chunks() -> None:
    assert plan().chunks == 0
    assert plan((0, 5, 5)).chunks == 0


def test_a_pause_makes_up_for_what_was_too_fast() -> None:
    assert pause_s(rows=100, elapsed_s=2.0, rate=10.0) == 8.0
    assert pause_s(rows=100, elapsed_s=20.0, rate=10.0) == 0.0
    assert pause_s(rows=100, elapsed_s=0.0, rate=0.0) == 0.0


def test_a_rate_bounds_what_is_published_at_once() -> None:
    assert options(rate=100.0).rows_at_once == 500
    assert options(rate=0.01).rows_at_once == 1
    assert options().rows_at_once == 200_000


def test_a_plan_is_taken_up_by_the_same_replay_only(tmp_path: Path) -> None:
    kept = plan((0, 0, 100))
    assert load(tmp_path, "f") is None
    save(tmp_path, kept)
    assert load(tmp_path, "f") == (kept, Done())
    save(tmp_path, Done(3, 30))
    assert load(tmp_path, "f") == (kept, Done(3, 30))

    with pytest.raises(OptionWrong, match="--checkpoint"):
        load(tmp_path, "another")
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(PipelineFailed, match="no checkpoint of a replay"):
        load(tmp_path, "f")


def test_the_pace_makes_no_other_replay_but_bounds_do() -> None:
    assert options(rate=5.0).fingerprint() == options().fingerprint()
    assert options(since="-5m").fingerprint() != options().fingerprint()


def entry(path: str, partition: int, first: int, last: int, hour: int) -> Entry:
    run = Run(partition=partition, first_offset=first, last_offset=last, rows=last - first + 1)
    return Entry(
        path=path,
        topic="orders",
        date="2026-11-15",
        runs=(run,),
        rows=run.rows,
        size_bytes=1,
        sha256="",
        first_time_us=hour * HOUR_US,
        last_time_us=(hour + 1) * HOUR_US - 1,
    )


def test_an_archive_is_planned_from_its_manifest_alone(tmp_path: Path) -> None:
    manifest = Manifest(
        Snapshot((entry("a", 0, 0, 9, 1), entry("b", 0, 10, 19, 2), entry("c", 1, 0, 4, 3)))
    )

    everything = plan_of_archive(options(archive=tmp_path), manifest, 0)
    later = plan_of_archive(options(archive=tmp_path, since="-2h"), manifest, 4 * HOUR_US)

    assert [file.path for file in everything.files] == ["a", "b", "c"]
    assert files_of(everything, [Stretch(partition=0, start=9, end=10)]) == ["a"]
    assert files_of(everything, [Stretch(partition=0, start=9, end=11)]) == ["a", "b"]
    assert files_of(everything, [Stretch(partition=1, start=5, end=9)]) == []
    assert everything.stretches == (
        Stretch(partition=0, start=0, end=20),
        Stretch(partition=1, start=0, end=5),
    )
    assert [file.path for file in later.files] == ["b", "c"]
    assert later.stretches[0] == Stretch(partition=0, start=10, end=20)
    assert later.since_us == 2 * HOUR_US
    with pytest.raises(PipelineFailed, match="holds no rows of 'other'"):
        plan_of_archive(options(topic="other", archive=tmp_path), manifest, 0)


@pytest.mark.parametrize(
    ("wrong", "option"),
    [
        ({"topic": "no name"}, "--topic"),
        ({"to": "orders"}, "--to"),
        ({"archive": Path("/no/such/folder")}, "--archive"),
        ({"rate": -1.0}, "--rate"),
        ({"rate": float("nan")}, "--rate"),
        ({"chunk_rows": 0}, "--chunk"),
        ({"starting": "earliest", "since": "-1h"}, "--since"),
        ({"ending": "latest", "until": "-1h"}, "--until"),
        ({"starting": "yesterday"}, "--from"),
        ({"since": "2026-11-15T12:00:00"}, "--since"),
        ({"until": "soon"}, "--until"),
        ({"archive": Path("/"), "starting": "earliest"}, "--from"),
    ],
)
def test_a_wrong_option_is_named(wrong: dict[str, object], option: str) -> None:
    with pytest.raises(OptionWrong) as refused:
        options(**wrong)
    assert refused.value.option == option
