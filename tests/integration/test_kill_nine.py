"""A process that is killed while it appends: every record that it acknowledged is there.

One data directory goes through all the kills of a test, so each recovery works on what the one
before left. The moments of the kills come from a seed.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.model import Flush, Offset
from goqueue.records import decode, scan, walk
from goqueue.runtime import LocalLog
from goqueue.storage import POINT_FILE, log_directory, read_point
from tests.examples import IS_EXHAUSTIVE
from tests.integration.appending_child import LOG, settings, value_of

KILLS = 50 if IS_EXHAUSTIVE else 6
CHILD = Path(__file__).with_name("appending_child.py")
NUMBERS_PER_LIFE = 1_000_000


class Witness:
    """What the lives of the child so far were heard to acknowledge: number by offset."""

    def __init__(self, root: Path, flush: Flush, seed: int) -> None:
        self.root = root
        self.flush = flush
        self.random = random.Random(seed)
        self.acked: dict[int, int] = {}
        self.rolls = 0
        self._lives = 0

    def live_and_kill(self) -> None:
        """Let a child append until it acknowledged some batches, then kill it a moment later."""
        self._lives += 1
        first_number = self._lives * NUMBERS_PER_LIFE
        with subprocess.Popen(
            [sys.executable, str(CHILD), str(self.root), self.flush, str(first_number)],
            stdout=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            for _ in range(self.random.randrange(1, 60)):
                self._hear(child.stdout.readline())
            # Between two acknowledgements there are microseconds: spin some, so that the kill
            # meets a write, a sync, a roll.
            for _ in range(self.random.randrange(20_000)):
                pass
            os.kill(child.pid, signal.SIGKILL)
            for line in child.stdout:
                if line.endswith(b"\n"):
                    self._hear(line)

    def _hear(self, line: bytes) -> None:
        word, first, following, number = line.split()
        assert word == b"acked", line
        for index in range(int(following) - int(first)):
            self.acked[int(first) + index] = int(number) + index

    def check(self) -> None:
        """Reopen; each acknowledged record must be there, and each offset must hold one record."""
        with LocalLog(str(self.root), LOG, settings(self.flush)) as local:
            assert not local.log.damaged
            assert local.log.end > max(self.acked)
            values = read_values(local)
            self.rolls = len(local.log.segments)
        assert sorted(values) == list(range(len(values)))
        for offset, number in self.acked.items():
            assert values[offset] == value_of(number), f"offset {offset} is not as acknowledged"


def read_values(local: LocalLog) -> dict[int, bytes | None]:
    values: dict[int, bytes | None] = {}
    offset = local.log.start
    while offset < local.log.high_watermark:
        data = local.read(offset)
        assert data
        for position in walk(data).positions:
            record = decode(data, position)
            values[record.offset] = record.value
        offset = Offset(max(values) + 1)
    return values


def lose_power(witness: Witness) -> None:
    """Cut and overwrite what was neither acknowledged nor promised, as a power cut may."""
    directory = witness.root / log_directory(LOG)
    last = max(directory.glob("*.log"))
    data = last.read_bytes()
    point = read_point((directory / POINT_FILE).read_bytes())
    promised = point.position if point and point.segment == int(last.name[:20]) else 0
    found = scan(data)
    positions = [*found.columns.positions, found.end]
    # Records that no life acknowledged may stand between those that one did.
    acked = [index for index, offset in enumerate(found.columns.offsets) if offset in witness.acked]
    kept = acked[-1] + 1 if acked else 0
    cut = witness.random.randrange(max(promised, positions[kept]), len(data) + 1)
    garbage = witness.random.randbytes(witness.random.randrange(200))
    last.write_bytes(data[:cut] + garbage)


def lose_nothing(_: Witness) -> None:
    """A kill keeps the page cache."""


@pytest.mark.parametrize("flush", list(Flush))
@pytest.mark.parametrize("aftermath", [lose_nothing, lose_power])
def test_every_acknowledged_record_survives_kill_after_kill(
    tmp_path: Path, flush: Flush, aftermath: Callable[[Witness], None]
) -> None:
    witness = Witness(tmp_path / "data", flush, seed=50)
    for _ in range(KILLS):
        witness.live_and_kill()
        aftermath(witness)
        witness.check()
    assert witness.rolls > KILLS // 10, "too few segments to have met a roll"
