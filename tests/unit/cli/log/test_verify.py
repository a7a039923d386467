"""`goqueue log verify`: what is a problem, what is torn, and what is only odd."""

import errno
import os
import shutil
import time
from pathlib import Path
from random import Random

import pytest

from goqueue.cli.log.directory import look_at
from goqueue.cli.log.verify import Kind, verify
from goqueue.log import BatchMark
from goqueue.log.batch_mark import label
from goqueue.model import Message, Record
from goqueue.records import build, encode, stamp, walk
from goqueue.runtime import LocalLog, OsFile, OsFileSystem
from goqueue.storage import EPOCHS_FILE, POINT_FILE, NameKind
from tests.unit.cli.data_directories import (
    LOG,
    PER_SEGMENT,
    RECORD_SIZE,
    SMALL,
    append,
    check,
    contents,
    cut,
    encode_at,
    kinds,
    problems,
    segment,
    spoil,
    write_log,
)


def test_a_sound_log_has_no_problem_and_is_counted_exactly(tmp_path: Path) -> None:
    write_log(tmp_path)
    verification = check(tmp_path)
    assert verification.verdict.records == 25
    assert verification.verdict.segments == 3
    assert verification.verdict.bytes == 25 * RECORD_SIZE
    assert not verification.verdict.problems
    assert not verification.verdict.torn
    assert not verification.notes


def test_verifying_writes_nothing(tmp_path: Path) -> None:
    directory = write_log(tmp_path)
    spoil(segment(directory, 0), 250)
    append(segment(directory, 20), b"GQ\x01torn")
    (directory / "foreign").write_text("x")
    before = contents(tmp_path)
    check(tmp_path)
    assert contents(tmp_path) == before


# Damage


def test_a_bad_record_in_a_sealed_segment_is_damage_and_the_others_are_counted(
    directory: Path,
) -> None:
    spoil(segment(directory, 10), 3 * RECORD_SIZE + 50)
    verdict = check(directory).verdict
    [problem] = verdict.problems
    assert (problem.kind, problem.segment) == (Kind.DAMAGE, 10)
    assert (problem.position, problem.offset) == (3 * RECORD_SIZE, 13)
    assert problem.reason.startswith("crc: ")
    assert verdict.records == 24


def test_every_byte_of_a_sealed_record_matters_and_costs_that_record_alone(tmp_path: Path) -> None:
    directory = write_log(tmp_path, 11)
    for position in range(RECORD_SIZE, 2 * RECORD_SIZE):
        spoil(segment(directory, 0), position)
        verdict = check(directory).verdict
        assert [problem.position for problem in verdict.problems] == [RECORD_SIZE], position
        assert verdict.records == 10, position
        spoil(segment(directory, 0), position)
    assert not problems(directory)


def test_a_bad_record_below_the_recovery_point_is_damage_in_the_last_segment_too(
    directory: Path,
) -> None:
    spoil(segment(directory, 20), RECORD_SIZE + 50)
    verdict = check(directory).verdict
    assert [problem.kind for problem in verdict.problems] == [Kind.DAMAGE]
    assert not verdict.torn


def test_durable_bytes_that_are_gone_are_damage(directory: Path) -> None:
    cut(segment(directory, 20), 2 * RECORD_SIZE)
    [problem] = problems(directory)
    assert (problem.kind, problem.position, problem.offset) == (Kind.DAMAGE, 200, 22)
    assert "300 bytes that were durable are gone" in problem.reason


def test_a_durable_record_cut_in_half_is_told_once(directory: Path) -> None:
    cut(segment(directory, 20), 2 * RECORD_SIZE + 7)
    [problem] = problems(directory)
    assert (problem.kind, problem.position) == (Kind.DAMAGE, 200)


def test_a_sealed_segment_without_a_byte_is_damage(directory: Path) -> None:
    cut(segment(directory, 10), 0)
    assert Kind.DAMAGE in kinds(directory)


def test_a_segment_under_a_name_that_is_too_high_is_damage(directory: Path) -> None:
    segment(directory, 10).replace(segment(directory, 15))
    [gap, damage] = problems(directory)
    assert (gap.kind, gap.segment) == (Kind.GAP, 10)
    assert (damage.kind, damage.segment) == (Kind.DAMAGE, 15)
    assert damage.reason.startswith("offset: ")


def test_a_record_inside_a_damaged_value_is_not_taken_for_one_of_the_log(tmp_path: Path) -> None:
    inner = encode(
        Record(offset=5, timestamp=1, priority=2, flags=0, key=b"", value=b"x", headers=())
    )
    messages = [Message(value=b"first"), Message(value=b"pad" + inner), Message(value=b"last")]
    directory = write_log(tmp_path, messages=messages * 5)
    spoil(segment(directory, 0), 39 + 34)
    verdict = check(directory).verdict
    assert len(verdict.problems) == 1
    assert verdict.records == 14


def test_a_segment_full_of_starts_that_are_none_is_given_up_in_good_time(tmp_path: Path) -> None:
    directory = write_log(tmp_path)
    header = segment(directory, 0).read_bytes()[:28] + (1 << 20).to_bytes(4, "big") + b"\0\0"
    segment(directory, 0).write_bytes(header * 60_000)
    began = time.process_time()
    assert Kind.DAMAGE in kinds(directory)
    assert time.process_time() - began < 20


def test_a_segment_of_nothing_but_flaws_is_not_reported_without_end(tmp_path: Path) -> None:
    directory = write_log(tmp_path)
    good = segment(directory, 0).read_bytes()[:RECORD_SIZE]
    bad = good[:-1] + b"x"
    whole = b"".join(bad + encode_at(offset) for offset in range(1000))
    segment(directory, 0).write_bytes(whole)
    found = [p for p in problems(directory) if p.kind is Kind.DAMAGE and p.segment == 0]
    assert len(found) == 100
    assert "the rest of the segment was not read" in found[-1].reason


class Unreadable(OsFile):
    """A file on a disk with a bad sector."""

    def read_at(self, position: int, size: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error", f"{size} bytes at {position}")


class Failing(OsFileSystem):
    """A file system in which one segment cannot be read."""

    def open(self, path: str) -> OsFile:
        if path.endswith("00010.log"):
            return Unreadable(os.open("/dev/null", os.O_RDONLY))
        return super().open(path)


def test_a_segment_that_the_disk_cannot_read_is_damage_and_the_others_are_checked(
    directory: Path,
) -> None:
    tree = look_at(str(directory))
    verdict = verify(Failing(tree.root, is_read_only=True), tree.places, lambda _: None).verdict
    [problem] = verdict.problems
    assert (problem.kind, problem.segment) == (Kind.DAMAGE, 10)
    assert problem.reason == "unreadable: Input/output error"
    assert verdict.records == 15


# Torn tails


def test_half_a_record_above_the_recovery_point_is_torn_and_no_problem(directory: Path) -> None:
    append(segment(directory, 20), encode_at(25)[:50])
    verdict = check(directory).verdict
    assert not verdict.problems
    [torn] = verdict.torn
    assert (torn.kind, torn.segment, torn.position, torn.offset) == (Kind.TORN, 20, 500, 25)
    assert "the last 50 bytes are cut at the next start" in torn.reason


def test_whole_records_above_the_recovery_point_are_counted(directory: Path) -> None:
    append(segment(directory, 20), encode_at(25))
    verdict = check(directory).verdict
    assert verdict.records == 26
    assert not verdict.torn


def test_an_old_record_above_the_recovery_point_is_torn(directory: Path) -> None:
    append(segment(directory, 20), encode_at(24))
    verdict = check(directory).verdict
    assert not verdict.problems
    [torn] = verdict.torn
    assert torn.reason.startswith("offset: ")


def test_a_good_record_that_does_not_follow_the_recovery_point_is_a_problem(
    directory: Path,
) -> None:
    append(segment(directory, 20), encode_at(27))
    verdict = check(directory).verdict
    assert not verdict.torn
    [problem] = verdict.problems
    assert (problem.kind, problem.segment, problem.position) == (Kind.DAMAGE, 20, 500)
    assert problem.reason.startswith("offset: ")


def test_good_records_behind_a_bad_one_above_the_recovery_point_are_a_problem(
    directory: Path,
) -> None:
    bad = bytearray(encode_at(25))
    bad[-1] ^= 0xFF
    append(segment(directory, 20), bytes(bad) + encode_at(26))
    verdict = check(directory).verdict
    assert not verdict.torn
    [problem] = verdict.problems
    assert (problem.kind, problem.position, problem.offset) == (Kind.DAMAGE, 500, 25)
    assert "the last 200 bytes are cut at the next start" in problem.reason
    assert "a good record follows at byte 600" in problem.reason


def test_a_batch_that_misses_its_last_records_is_torn_and_no_problem(directory: Path) -> None:
    said = BatchMark(producer=1, epoch=0, sequence=0, count=3, transaction=0, at=0)
    batch = build([Message(value=b"v")] * 3)
    label(batch, said)
    stamp(batch, 25, 0)
    whole = walk(batch).positions[2]
    append(segment(directory, 20), bytes(batch[:whole]))
    verdict = check(directory).verdict
    assert not verdict.problems
    [torn] = verdict.torn
    assert f"the last {whole} bytes are cut at the next start" in torn.reason

    with LocalLog(str(directory.parents[2]), LOG, SMALL) as local:
        assert local.log.end == 25
        assert local.report.cut is not None
        assert local.report.cut.reason == "incomplete batch"


def test_what_a_start_cuts_although_good_records_are_in_it_is_kept_and_noted(
    directory: Path,
) -> None:
    append(segment(directory, 20), bytes(100) + encode_at(26))
    with LocalLog(str(directory.parents[2]), LOG, SMALL) as local:
        assert local.log.end == 25
    verification = check(directory)
    assert not verification.verdict.problems
    assert (directory / f"{20:020d}.log.cut-500").read_bytes() == bytes(100) + encode_at(26)
    assert any(".log.cut-500" in note for note in verification.notes)


@pytest.mark.parametrize("spoiled", ["missing", "empty", "garbage"])
def test_without_a_readable_recovery_point_all_of_the_last_segment_may_be_torn(
    directory: Path, spoiled: str
) -> None:
    point = directory / POINT_FILE
    point.unlink()
    if spoiled != "missing":
        point.write_bytes(b"" if spoiled == "empty" else b"\xff" * 1024)
    spoil(segment(directory, 20), 4 * RECORD_SIZE + 50)
    verification = check(directory)
    assert not verification.verdict.problems
    assert [torn.position for torn in verification.verdict.torn] == [4 * RECORD_SIZE]
    assert any("recovery-point" in note for note in verification.notes)


def test_a_sealed_segment_that_lost_its_successor_is_damaged_not_torn(directory: Path) -> None:
    segment(directory, 20).unlink()
    spoil(segment(directory, 10), RECORD_SIZE + 50)
    verdict = check(directory).verdict
    assert not verdict.torn
    assert [problem.kind for problem in verdict.problems] == [Kind.DAMAGE, Kind.GAP]


# The chain


@pytest.mark.parametrize("base", [0, 10, 20])
def test_a_segment_that_is_missing_is_a_gap(directory: Path, base: int) -> None:
    segment(directory, base).unlink()
    [problem] = problems(directory)
    assert (problem.kind, problem.segment, problem.offset) == (Kind.GAP, base, base)
    below = min(base + PER_SEGMENT, 25)
    assert f"offsets {base} to {below - 1} are in no segment" in problem.reason


def test_a_quarantined_segment_is_a_problem_and_no_gap(directory: Path) -> None:
    segment(directory, 10).replace(segment(directory, 10, NameKind.QUARANTINED))
    [problem] = problems(directory)
    assert (problem.kind, problem.segment, problem.offset) == (Kind.QUARANTINED, 10, 10)


def test_a_segment_that_begins_before_the_one_in_front_ends_is_an_overlap(directory: Path) -> None:
    shutil.copy(segment(directory, 20), segment(directory, 15))
    assert Kind.OVERLAP in kinds(directory)


def test_what_an_interrupted_merge_left_over_is_only_noted(directory: Path) -> None:
    append(segment(directory, 0), segment(directory, 10).read_bytes())
    for kind in (NameKind.INDEX, NameKind.TIMEINDEX):
        segment(directory, 0, kind).unlink()
    verification = check(directory)
    assert not verification.verdict.problems
    assert any("a leftover" in note for note in verification.notes)


# Indexes


@pytest.mark.parametrize("kind", [NameKind.INDEX, NameKind.TIMEINDEX])
@pytest.mark.parametrize("base", [0, 20])
def test_a_missing_index_is_fine(directory: Path, base: int, kind: NameKind) -> None:
    segment(directory, base, kind).unlink()
    assert not problems(directory)


@pytest.mark.parametrize("kind", [NameKind.INDEX, NameKind.TIMEINDEX])
def test_every_byte_of_an_index_matters(directory: Path, kind: NameKind) -> None:
    path = segment(directory, 10, kind)
    for position in range(path.stat().st_size):
        spoil(path, position)
        [problem] = problems(directory)
        assert (problem.kind, problem.segment) == (Kind.INDEX, 10), position
        assert problem.reason.startswith(f"{kind.value}: "), position
        spoil(path, position)


def test_an_index_of_half_an_entry_is_malformed(directory: Path) -> None:
    append(segment(directory, 0, NameKind.INDEX), b"1234567")
    [problem] = problems(directory)
    assert "malformed" in problem.reason


def test_an_index_that_ends_long_before_its_segment_is_short(tmp_path: Path) -> None:
    directory = tmp_path / "logs" / "orders" / "0"
    directory.mkdir(parents=True)
    segment(directory, 0).write_bytes(b"".join(encode_at(offset) for offset in range(100)))
    segment(directory, 0, NameKind.INDEX).write_bytes(bytes(16))
    segment(directory, 100).write_bytes(b"")
    [problem] = problems(directory)
    assert problem.reason == ".index: short, it ends before the segment does"


def test_two_index_files_that_were_not_made_together_are_a_problem(directory: Path) -> None:
    times = segment(directory, 10, NameKind.TIMEINDEX)
    cut(times, times.stat().st_size - 16)
    [problem] = problems(directory)
    assert problem.reason.startswith(".timeindex: not made with its .index")


def test_an_index_larger_than_its_segment_could_need_is_not_read(directory: Path) -> None:
    cut(segment(directory, 0, NameKind.INDEX), 1 << 40)
    [problem] = problems(directory)
    assert "more entries than the segment has room for" in problem.reason


def test_an_index_that_is_a_directory_is_an_index_problem(directory: Path) -> None:
    segment(directory, 0, NameKind.INDEX).unlink()
    segment(directory, 0, NameKind.INDEX).mkdir()
    assert kinds(directory) == [Kind.INDEX]


def test_an_index_of_a_damaged_segment_is_not_blamed(directory: Path) -> None:
    spoil(segment(directory, 0), 50)
    assert kinds(directory) == [Kind.DAMAGE]


# Names


@pytest.mark.parametrize("thing", ["directory", "link", "fifo"])
def test_a_thing_that_is_no_file_where_a_segment_should_be_is_a_problem(
    directory: Path, tmp_path: Path, thing: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    segment(directory, 10).replace(elsewhere)
    match thing:
        case "directory":
            segment(directory, 10).mkdir()
        case "link":
            segment(directory, 10).symlink_to(elsewhere)
        case _:
            os.mkfifo(segment(directory, 10))
    [problem] = problems(directory)
    assert (problem.kind, problem.segment) == (Kind.NOT_A_FILE, 10)


@pytest.mark.parametrize("name", [POINT_FILE, EPOCHS_FILE])
def test_a_directory_in_place_of_the_logs_own_files_is_a_problem(
    directory: Path, name: str
) -> None:
    (directory / name).unlink(missing_ok=True)
    (directory / name).mkdir()
    assert kinds(directory) == [Kind.NOT_A_FILE]


def test_foreign_files_are_noted_with_harmless_names(directory: Path) -> None:
    (directory / "core\x1b[2J").write_text("x")
    os.symlink("/", directory / "link")
    segment(directory, 0, NameKind.CLEANED).write_text("half")
    segment(directory, 7, NameKind.INDEX).write_text("orphan")
    verification = check(directory)
    assert not verification.verdict.problems
    assert len(verification.notes) == 4
    assert all(note.isprintable() for note in verification.notes)


# Anything at all


def test_whatever_is_written_over_the_files_the_check_ends_and_judges(directory: Path) -> None:
    chance = Random(7)
    sound = {path: path.read_bytes() for path in sorted(directory.iterdir())}
    for _ in range(150):
        for path in chance.sample(sorted(sound), 3):
            data = bytearray(sound[path])
            start = chance.randrange(len(data) + 1)
            data[start : start + chance.choice([0, 1, 40])] = chance.randbytes(chance.randrange(60))
            path.write_bytes(data)
        verdict = check(directory).verdict
        assert verdict.records <= 25
        for path, content in sound.items():
            path.write_bytes(content)
    assert not problems(directory)


def test_the_last_segment_cut_at_any_byte_is_damage_below_the_point_and_torn_above(
    directory: Path,
) -> None:
    last = segment(directory, 20)
    whole = last.read_bytes() + encode_at(25)
    for size in range(len(whole)):
        last.write_bytes(whole[:size])
        verdict = check(directory).verdict
        assert bool(verdict.problems) == (size < 500), size
        assert bool(verdict.torn) == (size > 500), size
        assert verdict.records == 20 + size // RECORD_SIZE, size
