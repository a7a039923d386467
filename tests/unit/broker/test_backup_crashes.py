"""A process that ends at any operation on a file leaves a backup or none, a restore or nothing."""

import pytest

from goqueue.model import SECOND, LogId
from goqueue.model.requests import (
    BackupDescription,
    BackupProgress,
    CreateBackup,
    CreateSchedule,
    GroupList,
    ListGroups,
    ListSchedules,
    ListTopics,
    Published,
    RestoreBackup,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleList,
    ScheduleSpec,
    TopicList,
)
from tests.unit.broker.backup_words import back_up, fresh_node, list_backups, restore
from tests.unit.broker.delayed.users import delaying
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import begin, init, write
from tests.unit.broker.users import ack, create, join, poll, publish, read_values, values
from tests.unit.storage.memory_files import Content, Killed, MemoryFiles

_LOGS = [LogId("orders", 0), LogId("orders", 1), LogId("other", 0)]


def _busy_node() -> DrivenNode:
    """Two topics, a group half way through, a delayed message, an open transaction, a schedule."""
    node = DrivenNode()
    create(node, partitions=2)
    create(node, "other")
    join(node)
    publish(node, "a", "b", "c", targets=[0, 0, 1])
    ack(node, poll(node, count=1)[0])
    publish(node, "elsewhere", topic="other")
    node.ask(delaying(node, ("later", 60 * SECOND), targets=[0]), Published)
    owner = init(node)
    begin(node, owner)
    write(node, owner, "undecided", targets=[1])
    spec = ScheduleSpec(
        name="report",
        topic="other",
        message=ScheduledMessage(value=b"tick"),
        every_ns=3600 * SECOND,
    )
    node.ask(CreateSchedule(spec=spec), ScheduleDescription)
    return node


def _killed_after(operations: int, content: Content, step: "object") -> tuple[Content, bool]:
    """What a process leaves that ends after so many operations; whether it ended before its work.

    `step` is what it does.
    """
    files = MemoryFiles(content)
    node = DrivenNode(files)
    files.faults.operations_left = operations
    try:
        step(node)  # type: ignore[operator]  # a function of a node
    except Killed:
        return files.copy(), True
    return files.copy(), False


def _what_is_there(node: DrivenNode) -> tuple[object, ...]:
    topics = node.ask(ListTopics(), TopicList).topics
    groups = tuple(each.group for each in node.ask(ListGroups(), GroupList).groups)
    schedules = node.ask(ListSchedules(), ScheduleList).schedules
    return topics, groups, tuple(each.spec.name for each in schedules)


# The long run ends the process before every operation.
STEPS = pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
_NOTHING = ((), (), ())
_EVERYTHING = (("orders", "other"), ("shop",), ("report",))


def _check_restored(node: DrivenNode) -> None:
    assert _what_is_there(node) == _EVERYTHING
    assert [read_values(node, log) for log in _LOGS] == [["a", "b"], ["c"], ["elsewhere"]]
    join(node)
    assert sorted(values(poll(node))) == ["b", "c"]
    node.advance(61 * SECOND)
    assert read_values(node, _LOGS[0]) == ["a", "b", "later"]


@STEPS
def test_a_process_that_ends_while_it_takes_a_backup_leaves_all_of_it_or_nothing(step: int) -> None:
    node = _busy_node()
    content = node.files.copy()
    seen: set[int] = set()
    operations = 0
    is_cut_short = True
    while is_cut_short:
        left, is_cut_short = _killed_after(
            operations, content, lambda node: node.begin(CreateBackup())
        )
        after = DrivenNode(MemoryFiles(left))
        backups = list_backups(after)
        seen.add(len(backups))
        assert all(each.state is BackupProgress.COMPLETED for each in backups)
        assert not [path for path in after.files.copy() if ".partial" in path]
        for each in backups:
            other = fresh_node(after)
            assert restore(other, each.summary.id).state is BackupProgress.COMPLETED
            _check_restored(other)
        operations += step
    assert seen == {0, 1}
    assert operations > 30


@STEPS
@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_process_that_ends_while_it_restores_leaves_all_of_it_or_nothing(
    without_snapshots: bool, step: int
) -> None:
    node = _busy_node()
    backup = back_up(node).summary.id
    content = fresh_node(node).files.copy()
    outcomes: set[object] = set()
    operations = 0
    is_cut_short = True
    while is_cut_short:
        left, is_cut_short = _killed_after(
            operations,
            content,
            lambda node: node.ask(RestoreBackup(backup=backup), BackupDescription),
        )
        if without_snapshots:
            left = {path: data for path, data in left.items() if "snapshot" not in path}
        after = DrivenNode(MemoryFiles(left))
        there = _what_is_there(after)
        outcomes.add(there)
        assert there in (_NOTHING, _EVERYTHING), operations
        paths = [path for path in after.files.copy() if not path.startswith("backups/")]
        assert not [path for path in paths if path.startswith(("restoring", "unclaimed", "trash"))]
        if there == _NOTHING:
            # Nothing is in the way of another try, and what was stated is forgotten.
            assert not [path for path in paths if path.startswith(("logs/o",))]
            if operations % 5 == 0:
                assert restore(after, backup).state is BackupProgress.COMPLETED
                _check_restored(after)
        else:
            _check_restored(after)
        operations += step
    assert outcomes == {_NOTHING, _EVERYTHING}
    assert operations > 60


def test_a_topic_that_is_created_after_a_restore_was_cut_short_inherits_nothing() -> None:
    node = _busy_node()
    backup = back_up(node).summary.id
    content = fresh_node(node).files.copy()
    for operations in range(0, 400, 7):
        left, is_cut_short = _killed_after(
            operations,
            content,
            lambda node: node.ask(RestoreBackup(backup=backup), BackupDescription),
        )
        after = DrivenNode(MemoryFiles(left))
        if not is_cut_short or _what_is_there(after) != _NOTHING:
            break
        create(after, partitions=2)
        join(after)
        publish(after, "x", "y", targets=[0, 0])
        assert values(poll(after)) == ["x", "y"]
    else:
        raise AssertionError("no restore was completed")
