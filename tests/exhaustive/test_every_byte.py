"""A three-segment log with every byte cut off or flipped: reopened, read, written to again.

After each: no exception, no wrong byte, and every committed record is served, or refused as damaged
and reported. It may be missing only where it lay above the recovery point, and then the report says
that something was cut. `GOQUEUE_EXHAUSTIVE=1` tries every byte, otherwise a sample is tried.
"""

import os
import traceback
from collections.abc import Callable

import pytest

from goqueue.model import Code, Refused
from goqueue.storage import EPOCHS_FILE, POINT_FILE
from tests.exhaustive.stopped_log import SEGMENTS, STOPS, StoppedLog, stopped_log
from tests.unit.storage.driven_log import DrivenLog, path_of
from tests.unit.storage.memory_files import MemoryFiles

STRIDE = 1 if os.environ.get("GOQUEUE_EXHAUSTIVE") == "1" else 29
FAILURES_SHOWN = 3


def cut(data: bytes, position: int) -> bytes:
    return data[:position]


def flip(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    # Another bit in each byte and in each entry of an index, so that small and large lies are told.
    changed[position] ^= 1 << (3 * position + position // 8) % 8
    return bytes(changed)


HARMS: dict[str, Callable[[bytes, int], bytes]] = {"cut": cut, "flipped": flip}


class Case:
    """One harm done to one file of a stopped log."""

    def __init__(self, stopped: StoppedLog, name: str, harm: str, position: int) -> None:
        self.stopped = stopped
        self.name = name
        self.harm = harm
        self.position = position
        content = dict(stopped.content)
        content[path_of(name)] = HARMS[harm](content[path_of(name)], position)
        self.files = MemoryFiles(content)

    def run(self) -> None:
        driven = DrivenLog(self.files)
        missing = self.check_records(driven)
        if self.name.endswith(".log"):
            self.check_losses(driven, missing)
        else:
            self.check_cache_changes_nothing(driven, missing)
        self.check_appending(driven, missing)

    def check_records(self, driven: DrivenLog) -> list[int]:
        """Read every committed offset; returns those that are neither served nor refused."""
        missing = []
        served: dict[int, bytes] = {}
        for offset, truth in self.stopped.committed.items():
            if offset >= driven.log.end:
                missing.append(offset)
                continue
            try:
                served = served if offset in served else driven.read(offset)
            except Refused as refused:
                assert refused.code is Code.RECORDS_DAMAGED, refused
                assert any(gap.first <= offset < gap.below for gap in driven.log.damaged)
                assert offset in self.stopped.held_by(self.name), f"{offset} was not harmed"
            else:
                assert offset in served, f"nothing is served at offset {offset}"
                assert served[offset] == truth, f"a wrong byte at offset {offset}"
        return missing

    def check_losses(self, driven: DrivenLog, missing: list[int]) -> None:
        """Records may be missing only from a torn tail, and the report must say so."""
        if not missing:
            return
        stopped, report = self.stopped, driven.opened.report
        assert min(missing) >= stopped.promised, f"{min(missing)} had been promised"
        harmed = stopped.reaches(self.name, self.position)
        assert min(missing) >= harmed, f"{min(missing)} lies before the harm"
        if self.harm == "flipped":
            assert harmed >= stopped.promised, f"{missing} are whole, and above the damage"
            assert report.cut is not None, f"{missing} gone without a word"
        else:
            # Nothing tells a file that ends between two records from one that was never longer.
            is_seamless = stopped.is_boundary(self.name, self.position)
            is_told = report.cut is not None or report.damaged
            assert is_seamless or is_told, f"{missing} gone without a word"

    def check_cache_changes_nothing(self, driven: DrivenLog, missing: list[int]) -> None:
        """Indexes, epochs and the recovery point can be lost without losing anything else."""
        stopped = self.stopped
        assert not missing
        assert not driven.log.damaged
        assert driven.log.epochs.history == stopped.epochs
        for timestamp in stopped.stamps.values():
            sought, truth = driven.seek(timestamp), stopped.first_stamped(timestamp)
            assert sought == truth, f"sought {timestamp}: {sought}, not {truth}"

    def check_appending(self, driven: DrivenLog, missing: list[int]) -> None:
        """The log continues, gives no committed offset again, and reads the same the next time."""
        assert missing or driven.log.end >= self.stopped.end
        appended = driven.put(b"after")
        assert driven.log.high_watermark == appended.next, driven.events
        before, damaged = driven.read_all(), driven.log.damaged
        assert before[appended.first].endswith(b"after")
        again = DrivenLog(MemoryFiles(self.files.copy()))
        assert again.read_all() == before
        assert [(gap.first, gap.below) for gap in again.log.damaged] == [
            (gap.first, gap.below) for gap in damaged
        ]


def names_of(segment: int) -> list[str]:
    return [f"{segment}.log", f"{segment}.index", f"{segment}.timeindex"]


NAMES = [
    *(name for segment in range(SEGMENTS) for name in names_of(segment)),
    POINT_FILE,
    EPOCHS_FILE,
]


def file_name(stopped: StoppedLog, name: str) -> str:
    """`1.log` stands for the second segment, whatever its base offset is."""
    if not name[0].isdigit():
        return name
    return f"{stopped.bases[int(name[0])]:020d}{name[1:]}"


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", STOPS)
def test_a_log_survives_harm_at_every_byte(kind: str, name: str, harm: str) -> None:
    stopped = stopped_log(kind)
    named = file_name(stopped, name)
    if path_of(named) not in stopped.content:
        assert (kind, name) == ("unclean without a point", POINT_FILE)
        return
    failures = []
    for position in range(0, len(stopped.content[path_of(named)]), STRIDE):
        try:
            Case(stopped, named, harm, position).run()
        except Exception:  # noqa: BLE001 - whatever is raised is what this test looks for
            failures.append(f"{named} {harm} at byte {position}:\n{traceback.format_exc(-3)}")
    shown = "\n".join(failures[:FAILURES_SHOWN])
    assert not failures, f"{len(failures)} positions failed, the first:\n{shown}"
