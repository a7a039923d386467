"""Backups of logs that change meanwhile: trimmed, deleted, compacted, retired, failed, full."""

import errno

import msgspec
import pytest

from goqueue.model import HOUR, SECOND, Cleanup, Code, HoldSegments, LogId, Offset, Refused
from goqueue.model.requests import (
    BackupDescription,
    BackupProgress,
    CreateBackup,
    DeleteRecords,
    DeleteTopic,
    DescribeTopic,
    Done,
    ListSchedules,
    RecordsDeleted,
    ScheduleList,
    TopicConfig,
    TopicDescription,
)
from tests.unit.broker.backup_words import (
    back_up,
    files_of,
    fresh_node,
    list_backups,
    restore,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    create,
    publish,
    read,
    read_values,
    shop,
)
from tests.unit.storage.memory_files import MemoryFiles


def test_what_is_removed_from_a_log_after_it_was_linked_is_in_the_backup() -> None:
    node = shop()
    publish(node, "a", "b")
    node.runs_jobs = False
    request = node.begin(CreateBackup())
    node.ask(DeleteRecords(topic="orders", before={0: Offset(2)}), RecordsDeleted)
    node.ask(DeleteTopic(name="orders"), Done)
    node.runs_jobs = True
    node.run_later_turn()
    backup = node.reply(request, BackupDescription)

    assert restore(node, backup.summary.id).topics_restored == 1
    assert read_values(node) == ["a", "b"]


def test_a_backup_in_which_nothing_is_new_can_be_restored_with_every_topic_skipped() -> None:
    node = shop()
    backup = back_up(node)
    restored = restore(node, backup.summary.id, skips_existing=True)
    assert restored.state is BackupProgress.COMPLETED
    assert (restored.topics_restored, restored.skipped) == (0, 1)
    assert node.ask(ListSchedules(), ScheduleList).schedules == ()


def test_a_full_disk_refuses_a_backup_and_leaves_nothing_of_it() -> None:
    node = shop()
    publish(node, "a" * 1000)
    node.files.faults.room = 100
    request = node.begin(CreateBackup())
    assert files_of(node) == {}
    # The audit record of it does not fit, either.
    assert not node.is_answered(request)
    node.files.faults.room = None
    node.advance(3 * SECOND)
    with pytest.raises(Refused) as refused:
        node.reply(request, BackupDescription)
    assert refused.value.code is Code.STORAGE_FULL
    assert files_of(node) == {}
    assert list_backups(node) == ()
    assert back_up(node).state is BackupProgress.COMPLETED


# Retention and compaction


def test_no_log_begins_retention_or_compaction_before_all_segments_are_held() -> None:
    """One of two logs is linked; the other, which is old, would lose its segment."""
    node = DrivenNode()
    config = msgspec.structs.replace(TopicConfig(), retention_hours=1)
    create(node, partitions=40, config=config)
    for number in range(40):
        publish(node, f"m{number}", targets=[number])
    node.runs_jobs = False
    held: list[HoldSegments] = []
    node.hold_back = held
    request = node.begin(CreateBackup())
    node.advance(3 * HOUR)
    assert [len(read(node, LogId("orders", number))) for number in range(40)] == [1] * 40
    node.hold_back = None
    for each in held:
        node.take(node.storage.hold_segments(each))
    node.runs_jobs = True
    node.run_later_turn()
    backup = node.reply(request, BackupDescription)
    node.advance(60 * SECOND)
    assert node.ask(DescribeTopic(name="orders"), TopicDescription).total_messages == 0

    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert other.ask(DescribeTopic(name="orders"), TopicDescription).total_messages == 40


def test_retention_spares_a_restored_topic_for_an_hour() -> None:
    node = DrivenNode()
    config = msgspec.structs.replace(TopicConfig(), retention_hours=1)
    create(node, config=config)
    publish(node, "old")
    backup = back_up(node)
    other = DrivenNode(MemoryFiles(files_of(node)), now_ns=node.now_ns + 5 * HOUR)
    restore(other, backup.summary.id)
    other.advance(HOUR - 60 * SECOND)
    assert read_values(other) == ["old"]
    other.advance(120 * SECOND)
    assert other.ask(DescribeTopic(name="orders"), TopicDescription).total_messages == 0


def test_a_compacted_topic_keeps_the_last_record_of_each_key_below_the_moment() -> None:
    config = msgspec.structs.replace(
        TopicConfig(), cleanup_policy=Cleanup.COMPACT, segment_bytes=1 << 20
    )
    node = DrivenNode()
    create(node, config=config)
    for number in range(30):
        publish(node, f"k{number % 3}={number:07d}" + "x" * 200_000)
    before = {record.key: record.value for record in read(node)}
    node.runs_jobs = False
    request = node.begin(CreateBackup())
    for number in range(30, 60):
        publish(node, f"k{number % 3}={number:07d}" + "x" * 200_000)
    node.advance(120 * SECOND)
    node.runs_jobs = True
    node.run_later_turn()
    backup = node.reply(request, BackupDescription)

    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert {record.key: record.value for record in read(other)} == before


def test_a_log_that_has_failed_is_in_the_backup_up_to_what_was_committed() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "durable")
    node.files.faults.broken[("sync", ".log")] = errno.EIO
    with pytest.raises(AssertionError):
        # Its answer is a refusal in the result.
        assert publish(node, "lost").placed[0].refused is None
    node.files.faults.broken.clear()
    backup = back_up(node)

    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert read_values(other) == ["durable"]
