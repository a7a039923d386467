"""The power goes at any moment of a life of a node on its real shell: every promise holds.

`GOQUEUE_EXHAUSTIVE=1` judges eighty times as many states.
"""

import functools
import tempfile
import time
from pathlib import Path
from random import Random

import pytest

from tests.examples import IS_EXHAUSTIVE
from tests.exhaustive.disk_states import HOWS, Disk
from tests.exhaustive.power_judge import Judge
from tests.exhaustive.power_workload import TOPICS, Told, record_a_life, start_and_stop
from tests.exhaustive.recording_files import NamesSynced, Renamed, Synced

BLOCKS = 4
STATES = 60 * (80 if IS_EXHAUSTIVE else 1)
ROUNDS = 40


@functools.cache
def told() -> Told:
    with tempfile.TemporaryDirectory() as root:
        return record_a_life(Path(root), seed=1, rounds=ROUNDS)


def write_out(content: dict[str, bytes], root: Path) -> None:
    for path, data in content.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_a_power_cut_leaves_keeps_every_promise(block: int, tmp_path: Path) -> None:
    life = told()
    random = Random(block)
    # Before that there are topics that may not exist yet; unit tests cut there.
    places = sorted(random.randrange(life.ready, len(life.changes)) for _ in range(STATES))
    disk = Disk(life.changes)
    for number, place in enumerate(places):
        disk.advance(place)
        how = HOWS[number % len(HOWS)]
        content = disk.after_a_cut(how, random)
        try:
            Judge(life, place, content, time.time_ns()).check()
        except AssertionError as broken:
            write_out(content, tmp_path)
            words = f"cut at change {place}, {how} of it kept (in {tmp_path}): {broken}"
            raise AssertionError(words) from broken


def test_the_life_before_the_cut_has_met_what_a_node_does() -> None:
    life = told()
    renames = [each for each in life.changes if isinstance(each, Renamed)]
    made = [each.new or "" for each in renames if each.old is None]
    for topic in TOPICS:
        assert sum(f"logs/{topic}/" in path and path.endswith(".log") for path in made) > 1, topic
    gone = [each.old or "" for each in renames if each.new is None]
    assert any("logs/short/" in path and path.endswith(".log") for path in gone), "retention"
    assert any(path.endswith(".log.cleaned") for path in made), "compaction"
    assert any("snapshots/" in path for path in made), "snapshots"
    assert any(isinstance(each, NamesSynced) for each in life.changes)
    assert sum(isinstance(each, Synced) for each in life.changes) > ROUNDS


@pytest.mark.parametrize("how", HOWS)
def test_a_real_shell_starts_and_stops_on_what_a_power_cut_left(tmp_path: Path, how: str) -> None:
    life = told()
    random = Random(how)
    disk = Disk(life.changes)
    disk.advance(random.randrange(life.ready, len(life.changes)))
    write_out(disk.after_a_cut(how, random), tmp_path)

    start_and_stop(tmp_path)
