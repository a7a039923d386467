"""Backups and restores on a disk that forgets what was not synced, at any operation."""

from random import Random

import pytest

from goqueue.broker.journal_changes import TopicStated
from goqueue.model import (
    LOCAL,
    Asked,
    Instant,
    Message,
    Now,
    Offset,
    Refused,
    RequestId,
    Timestamp,
)
from goqueue.model.requests import (
    BackupDescription,
    BackupList,
    BackupProgress,
    Command,
    CreateBackup,
    CreateTopic,
    DeleteTopic,
    ListBackups,
    ListTopics,
    Publish,
    Read,
    Records,
    Reply,
    RestoreBackup,
    TopicConfig,
    TopicList,
)
from goqueue.records import build, decode, walk
from goqueue.sim import DiskClock, Faults, NodeSwarm, Process, SimulatedFileSystem, Trace
from goqueue.sim.disk import Crashed
from goqueue.storage import FileSystem

_ENTROPY = bytes(32)
_NOW = Now(Instant(1), Timestamp(1_700_000_000_000_000_000))
_PARTITIONS = 3
_CRASHES = 12


class _Machine:
    """One machine: its disk survives, its process does not."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.faults = Faults()
        self.files = SimulatedFileSystem(Random(seed + 1), self.faults, Random(seed + 2))
        self._answers: dict[RequestId, Reply | Refused] = {}
        self._next_request = 1
        self._process = Process(
            self.files,
            self.random,
            Trace(),
            self._answers.__setitem__,
            NodeSwarm.calm(),
            clock=DiskClock(Random(seed), lambda: 1),
        )
        self.begin()

    def begin(self) -> None:
        self._process.begin(_ENTROPY)
        self._process.settle(_NOW)
        assert self._process.halted is None

    def ask(self, command: Command) -> Reply | Refused:
        request = RequestId(self._next_request)
        self._next_request += 1
        self._process.take(Asked(request=request, command=command, caller=LOCAL), _NOW)
        self._process.settle(_NOW)
        return self._answers[request]

    def crash(self, *, is_power_loss: bool) -> None:
        self.faults.disarm_crash()
        if is_power_loss:
            self.files.lose_power()
        self.files.restart()
        self.begin()

    def try_to(self, command: Command) -> bool:
        """Carry out a command on a machine that may end at any operation; whether it ended."""
        self.faults.arm_crash(self.random.randrange(1, 150))
        try:
            self.ask(command)
        except Crashed:
            self.crash(is_power_loss=self.random.random() < 0.7)
            return True
        self.faults.disarm_crash()
        return False

    def values(self, partition: int) -> list[bytes]:
        read = Read(topic="orders", partition=partition, offset=Offset(0))
        records = self.ask(read)
        assert isinstance(records, Records), records
        data = b"".join(bytes(each) for each in records.data)
        return [decode(data, place).value or b"" for place in walk(data).positions]

    @property
    def backups(self) -> tuple[BackupDescription, ...]:
        found = self.ask(ListBackups())
        assert isinstance(found, BackupList)
        return found.backups

    @property
    def topics(self) -> tuple[str, ...]:
        found = self.ask(ListTopics())
        assert isinstance(found, TopicList)
        return found.topics


def _fill(machine: _Machine) -> list[list[bytes]]:
    config = TopicConfig()
    machine.ask(CreateTopic(name="orders", partitions=_PARTITIONS, config=config))
    for number in range(12):
        value = b"%d" % number * 700
        targets = [number % _PARTITIONS]
        machine.ask(Publish(topic="orders", batch=build([Message(value=value)]), targets=targets))
    return [machine.values(partition) for partition in range(_PARTITIONS)]


def _play(seed: int) -> None:
    """Take and restore a backup on a machine that fails again and again."""
    machine = _Machine(seed * 1000)
    expected = _fill(machine)
    for _ in range(_CRASHES):
        if not machine.try_to(CreateBackup()):
            break
        assert all(each.state is BackupProgress.COMPLETED for each in machine.backups)
    if not machine.backups:
        machine.ask(CreateBackup())
    backup = machine.backups[0].summary.id
    assert not [path for path in machine.files.paths() if ".partial" in path]

    machine.ask(DeleteTopic(name="orders"))
    for _ in range(_CRASHES):
        is_cut_short = machine.try_to(RestoreBackup(backup=backup))
        if not is_cut_short or machine.topics:
            break
        assert not [path for path in machine.files.paths() if path.startswith("unclaimed")]
    if not machine.topics:
        machine.ask(RestoreBackup(backup=backup))
    for _ in range(2):
        assert machine.topics == ("orders",)
        assert [machine.values(partition) for partition in range(_PARTITIONS)] == expected
        machine.crash(is_power_loss=True)


@pytest.mark.parametrize("seed", range(20))
def test_a_machine_that_fails_has_whole_backups_and_whole_restores(seed: int) -> None:
    _play(seed)


# The runs above are only worth what they find.


def _write_without_sync(files: FileSystem, path: str, data: bytes) -> None:
    file = files.create(path)
    file.write_at(0, data)
    file.close()


def _state_at_once(**fields: object) -> TopicStated:
    return TopicStated(**{**fields, "is_arriving": False})  # type: ignore[arg-type]  # as given


_PLANTED = {
    "a manifest that is not synced": (
        "goqueue.storage.backups.writer.write_file",
        _write_without_sync,
    ),
    "a topic that exists before it was decided": (
        "goqueue.broker.restores.TopicStated",
        _state_at_once,
    ),
    "logs that are left behind": (
        "goqueue.storage.storage.sweep_restore",
        lambda *_: None,
    ),
}


@pytest.mark.parametrize("name", _PLANTED)
def test_a_planted_fault_of_a_backup_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*_PLANTED[name])
    with pytest.raises((AssertionError, IndexError)):
        _play_all(60)


def _play_all(count: int) -> None:
    for seed in range(count):
        _play(seed)
