"""Backups and restores of a node: what is in one, and what another node makes of it."""

import msgspec
import pytest

from goqueue.model import SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    BackupDescription,
    BackupProgress,
    CreateBackup,
    CreateSchedule,
    DeleteBackup,
    DeleteRecords,
    DeleteTopic,
    DescribeBackup,
    DescribeSchedule,
    DescribeTopic,
    Done,
    EndTransaction,
    GroupList,
    InitProducer,
    ListGroups,
    ListTopics,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    RecordsDeleted,
    RestoreBackup,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleSpec,
    TopicConfig,
    TopicDescription,
    TopicList,
)
from goqueue.records import build
from tests.unit.broker.backup_words import (
    back_up,
    describe,
    files_of,
    fresh_node,
    list_backups,
    restore,
)
from tests.unit.broker.delayed.users import delaying, state_of
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import abort, begin, commit, init, write
from tests.unit.broker.users import (
    ORDERS,
    ack,
    create,
    join,
    messages,
    nack,
    poll,
    publish,
    read,
    read_values,
    shop,
    values,
)
from tests.unit.storage.memory_files import MemoryFiles


def _code(node: DrivenNode, command: object) -> Code:
    with pytest.raises(Refused) as refused:
        node.ask(command, Done)  # type: ignore[arg-type]  # any command
    return refused.value.code


def test_a_restored_topic_has_the_same_records_at_the_same_offsets() -> None:
    node = shop(partitions=3, segment_bytes=1 << 20)
    for number in range(50):
        publish(node, f"k{number}=v{number}")
    logs = [LogId("orders", number) for number in range(3)]
    backup = back_up(node)

    other = fresh_node(node)
    restored = restore(other, backup.summary.id)

    assert restored.state is BackupProgress.COMPLETED
    assert restored.topics_restored == 1
    assert [read(other, log) for log in logs] == [read(node, log) for log in logs]
    description = other.ask(DescribeTopic(name="orders"), TopicDescription)
    assert description == node.ask(DescribeTopic(name="orders"), TopicDescription)
    assert backup.summary.statistics.messages == 50


def test_a_restored_topic_goes_on_behind_its_last_record() -> None:
    node = shop()
    publish(node, "a", "b")
    backup = back_up(node)
    other = fresh_node(node)
    restore(other, backup.summary.id)

    assert publish(other, "c").placed[0].first == 2
    other.restart(without_snapshots=True)
    assert read_values(other) == ["a", "b", "c"]


def test_what_is_published_after_the_moment_is_not_in_the_backup() -> None:
    node = shop()
    publish(node, "before")
    node.runs_jobs = False
    request = node.begin(CreateBackup())
    publish(node, "after")
    node.runs_jobs = True
    node.run_later_turn()
    backup = node.reply(request, BackupDescription)

    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert read_values(other) == ["before"]


def test_records_on_their_way_to_the_disk_are_not_in_the_backup() -> None:
    node = shop()
    publish(node, "durable")
    node.slow_down(ORDERS)
    waiting = node.begin(Publish(topic="orders", batch=build(messages("on its way"))))
    backup = back_up(node)
    node.speed_up()
    assert node.is_answered(waiting)

    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert read_values(other) == ["durable"]


def test_a_restored_group_goes_on_where_it_stood_at_the_moment() -> None:
    node = shop()
    publish(node, "a", "b", "c", "d")
    first, second, third, _ = poll(node)
    ack(node, first)
    ack(node, third)
    nack(node, second, delay_ns=0, reason="not now")
    node.runs_jobs = False
    request = node.begin(CreateBackup())
    # Behind the moment: none of it is in the backup.
    ack(node, *poll(node))
    node.runs_jobs = True
    node.run_later_turn()
    backup = node.reply(request, BackupDescription)

    other = fresh_node(node)
    restored = restore(other, backup.summary.id)
    assert restored.groups_restored == 1
    join(other)
    delivered = poll(other)
    assert values(delivered) == ["b", "d"]
    assert [each.attempt for each in delivered] == [2, 2]


def test_a_position_that_changes_while_it_is_stated_is_the_one_of_the_moment() -> None:
    """Stating takes many turns here, and every turn between two of them settles a message."""
    node = DrivenNode(budget_units=4)
    create(node, partitions=20)
    join(node)
    for number in range(20):
        publish(node, "a", "b", topic="orders", targets=[number, number])
    delivered = poll(node)
    node.runs_later_turns = False
    request = node.begin(CreateBackup())
    for each in delivered:
        ack(node, each)
        node.run_later_turn()
    node.runs_later_turns = True
    node.run_later_turn()
    backup = node.reply(request, BackupDescription)

    other = fresh_node(node)
    restore(other, backup.summary.id)
    join(other)
    assert len(poll(other)) == 40


def test_delayed_messages_keep_their_time() -> None:
    node = shop()
    publish(node, "now")
    node.ask(delaying(node, ("later", 60 * SECOND)), Published)
    backup = back_up(node)
    other = fresh_node(node)
    restore(other, backup.summary.id)

    assert state_of(other, 1) == state_of(node, 1)
    other.advance(59 * SECOND)
    assert read_values(other) == ["now"]
    other.advance(2 * SECOND)
    assert read_values(other) == ["now", "later"]


def test_a_delayed_message_that_was_delivered_is_not_delivered_again() -> None:
    node = shop()
    node.ask(delaying(node, ("later", SECOND)), Published)
    node.advance(2 * SECOND)
    backup = back_up(node)
    other = fresh_node(node)
    restore(other, backup.summary.id)

    other.advance(10 * SECOND)
    assert read_values(other) == ["later"]


def test_a_transaction_that_is_open_at_the_moment_is_aborted_by_a_restore() -> None:
    node = shop()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "undecided")
    publish(node, "plain")
    backup = back_up(node)
    commit(node, owner)
    assert read_values(node) == ["undecided", "plain"]

    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert read_values(other) == ["plain"]
    publish(other, "next")
    assert read_values(other) == ["plain", "next"]
    other.restart(without_snapshots=True)
    assert read_values(other) == ["plain", "next"]


def test_a_delayed_message_of_an_open_transaction_is_not_delivered_by_a_restore() -> None:
    node = shop()
    owner = init(node)
    begin(node, owner)
    stamp = ProducerStamp(producer_id=owner.producer_id, epoch=owner.epoch)
    held = msgspec.structs.replace(delaying(node, ("held", SECOND)), producer=stamp)
    node.ask(held, Published)
    backup = back_up(node)
    other = fresh_node(node)
    restore(other, backup.summary.id)

    other.advance(10 * SECOND)
    assert read_values(other) == []


def test_a_transaction_is_committed_in_all_of_a_backup_or_in_nothing_of_it() -> None:
    """Its decision is committed, and one of its markers is still on its way to the disk."""
    node = DrivenNode()
    create(node, partitions=2)
    owner = init(node)
    begin(node, owner)
    write(node, owner, "a", "b", targets=[0, 1])
    node.slow_down(LogId("orders", 1))
    request = node.begin(EndTransaction(owner=owner, is_commit=True))
    assert not node.is_answered(request)
    backup = back_up(node)
    node.speed_up()

    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert read_values(other, LogId("orders", 0)) == ["a"]
    assert read_values(other, LogId("orders", 1)) == ["b"]


def test_what_was_aborted_stays_hidden() -> None:
    node = shop()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "no")
    abort(node, owner)
    publish(node, "yes")
    backup = back_up(node)
    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert read_values(other) == ["yes"]


def test_a_producer_of_another_node_is_not_taken_for_one_of_this() -> None:
    """Both nodes give the same number: a first message must not count as a retry of the other."""
    node = shop()
    other = DrivenNode()
    for each in (node, other):
        granted = each.ask(InitProducer(), ProducerGranted)
        assert granted.producer_id == 1
    stamp = ProducerStamp(producer_id=1, epoch=0, sequence=0)
    node.ask(Publish(topic="orders", batch=build(messages("theirs")), producer=stamp), Published)
    backup = back_up(node)
    copy = DrivenNode(MemoryFiles({**other.files.copy(), **files_of(node)}))
    restore(copy, backup.summary.id)

    published = copy.ask(
        Publish(topic="orders", batch=build(messages("mine!!")), producer=stamp), Published
    )
    assert not published.placed[0].is_duplicate
    assert read_values(copy) == ["theirs", "mine!!"]
    copy.restart(without_snapshots=True)
    assert read_values(copy) == ["theirs", "mine!!"]


def test_a_topic_that_was_trimmed_begins_where_it_began() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    trim = DeleteRecords(topic="orders", before={0: Offset(2)})
    node.ask(trim, RecordsDeleted)
    backup = back_up(node)
    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert [record.offset for record in read(other, offset=2)] == [2]
    description = other.ask(DescribeTopic(name="orders"), TopicDescription)
    assert description.offsets == ((2, 2),)


def test_an_emptied_topic_keeps_its_offsets() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    node.ask(DeleteRecords(topic="orders", before={0: Offset(3)}), RecordsDeleted)
    backup = back_up(node)
    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert publish(other, "d").placed[0].first == 3


def test_schedules_are_restored_and_tick() -> None:
    node = shop()
    spec = ScheduleSpec(
        name="report",
        topic="orders",
        message=ScheduledMessage(value=b"tick"),
        every_ns=60 * SECOND,
    )
    node.ask(CreateSchedule(spec=spec), ScheduleDescription)
    node.advance(61 * SECOND)
    backup = back_up(node)
    other = fresh_node(node)
    restored = restore(other, backup.summary.id)

    assert restored.schedules_restored == 1
    assert other.ask(DescribeSchedule(name="report"), ScheduleDescription).sent == 1
    other.advance(60 * SECOND)
    assert read_values(other) == ["tick", "tick"]


def test_settings_are_restored_unless_they_are_left_out() -> None:
    config = msgspec.structs.replace(TopicConfig(), retention_hours=7)
    node = DrivenNode()
    create(node, config=config)
    publish(node, "a")
    node.advance(SECOND)
    with_config = back_up(node)
    node.advance(SECOND)
    without = back_up(node, CreateBackup(has_config=False))

    for backup, hours in ((with_config, 7), (without, TopicConfig().retention_hours)):
        other = fresh_node(node)
        restore(other, backup.summary.id)
        description = other.ask(DescribeTopic(name="orders"), TopicDescription)
        assert description.config.retention_hours == hours
        assert read_values(other) == ["a"]


def test_a_backup_without_messages_restores_empty_topics() -> None:
    node = shop()
    publish(node, "a")
    backup = back_up(node, CreateBackup(has_topics=False))
    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert read_values(other) == []
    assert publish(other, "b").placed[0].first == 0


def test_a_backup_without_offsets_restores_no_groups() -> None:
    node = shop()
    publish(node, "a")
    ack(node, *poll(node))
    backup = back_up(node, CreateBackup(has_offsets=False))
    other = fresh_node(node)
    restore(other, backup.summary.id)
    assert other.ask(ListGroups(), GroupList).groups == ()


# Refusals


def test_a_topic_that_exists_is_refused_and_nothing_is_restored() -> None:
    node = shop()
    create(node, "other")
    publish(node, "a")
    backup = back_up(node)
    node.ask(DeleteTopic(name="other"), Done)

    assert _code(node, RestoreBackup(backup=backup.summary.id)) is Code.TOPIC_EXISTS
    assert node.ask(ListTopics(), TopicList).topics == ("orders",)


def test_a_topic_that_exists_is_left_as_it_is_on_request() -> None:
    node = shop()
    create(node, "other")
    publish(node, "a")
    publish(node, "old", topic="other")
    backup = back_up(node)
    node.ask(DeleteTopic(name="other"), Done)
    publish(node, "b")

    restored = restore(node, backup.summary.id, skips_existing=True)
    assert (restored.topics_restored, restored.skipped) == (1, 1)
    assert read_values(node) == ["a", "b"]
    assert read_values(node, LogId("other", 0)) == ["old"]


def test_a_topic_that_is_created_while_a_backup_is_verified_ends_the_restore() -> None:
    node = shop()
    create(node, "other")
    publish(node, "a")
    backup = back_up(node)
    other = fresh_node(node)
    other.runs_jobs = False
    other.ask(RestoreBackup(backup=backup.summary.id), BackupDescription)
    create(other)
    publish(other, "mine")
    other.runs_jobs = True
    other.run_later_turn()

    restored = describe(other, backup.summary.id).restore
    assert restored is not None
    assert restored.state is BackupProgress.FAILED
    assert "topic_exists" in (restored.error or "")
    assert other.ask(ListTopics(), TopicList).topics == ("orders",)
    assert read_values(other) == ["mine"]
    assert other.ask(ListGroups(), GroupList).groups == ()


def test_one_backup_or_restore_at_a_time() -> None:
    node = shop()
    backup = back_up(node)
    other = fresh_node(node)
    other.runs_jobs = False
    other.begin(CreateBackup())
    commands = (
        CreateBackup(),
        DeleteBackup(backup=backup.summary.id),
        RestoreBackup(backup=backup.summary.id),
    )
    assert [_code(other, command) for command in commands] == [Code.BACKUP_BUSY] * 3
    other.runs_jobs = True
    other.run_later_turn()
    other.ask(RestoreBackup(backup=backup.summary.id), BackupDescription)


def test_an_unknown_backup_is_not_found() -> None:
    node = shop()
    for backup in ("2026-01-01-000000", "../../etc", "", "x" * 10_000):
        for command in (
            DescribeBackup(backup=backup),
            DeleteBackup(backup=backup),
            RestoreBackup(backup=backup),
        ):
            assert _code(node, command) is Code.BACKUP_NOT_FOUND


def test_a_deleted_backup_leaves_no_file() -> None:
    node = shop()
    publish(node, "a")
    backup = back_up(node)
    node.ask(DeleteBackup(backup=backup.summary.id), Done)
    assert list_backups(node) == ()
    assert files_of(node) == {}
    assert read_values(node) == ["a"]


def test_backups_within_a_second_have_different_names() -> None:
    node = shop()
    first, second = back_up(node), back_up(node)
    assert [each.summary.id for each in list_backups(node)] == [
        second.summary.id,
        first.summary.id,
    ]


def test_a_backup_is_listed_after_a_restart() -> None:
    node = shop()
    publish(node, "a")
    backup = back_up(node)
    node.restart()
    assert list_backups(node) == (backup,)
