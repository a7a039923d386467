"""Transactions while something else goes on: slow logs, full disks, failed logs, topics that go."""

import errno

import pytest

from goqueue.model import SECOND, Code, Flush, LogId, Message, Refused
from goqueue.model.requests import (
    BeginTransaction,
    CommitGroup,
    DeleteTopic,
    Done,
    EndTransaction,
    GroupCommitted,
    InitProducer,
    Mode,
    PrepareTransaction,
    ProducerGranted,
    Publish,
    Published,
    Read,
    Records,
    TopicConfig,
    TransactionBegan,
    TransactionEnded,
    TransactionPrepared,
    TransactionState,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transacting.words import (
    GROUPS,
    TOPICS,
    abort,
    add,
    begin,
    begin_abort,
    begin_commit,
    commit,
    commit_group,
    init,
    owned,
    prepare,
    readable,
    refused_code,
    shown,
    shown_uncommitted,
    texts,
    transactions,
    write,
    writing,
)
from tests.unit.broker.users import ORDERS, committed, create, join, poll, publish, values
from tests.unit.storage.memory_files import MemoryFiles

SECOND_ORDERS = LogId("orders", 1)
INTERVAL = TopicConfig(flush_policy=Flush.INTERVAL, flush_interval_ms=60_000)


def warm(partitions: int = 2) -> DrivenNode:
    """A topic to which a producer has written before."""
    node = DrivenNode()
    create(node, partitions=partitions)
    owner = init(node, "warm")
    begin(node, owner)
    write(node, owner, *(["warm"] * partitions), targets=list(range(partitions)))
    commit(node, owner)
    return node


# Messages on their way


def test_a_commit_waits_for_messages_that_are_on_their_way() -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    node.slow_down(ORDERS)
    publishing = node.begin(writing(owner, "x", "y", targets=[0, 1]))
    ending = begin_commit(node, owner)
    assert not node.is_answered(ending)
    assert refused_code(node, writing(owner, "late", targets=[1])) is (
        Code.TRANSACTION_STATE_INVALID
    )

    node.speed_up()

    assert node.reply(publishing, Published).placed[0].refused is None
    assert node.reply(ending, TransactionEnded).is_commit
    assert shown(node, ORDERS, SECOND_ORDERS) == ["warm", "x", "warm", "y"]


def test_nothing_is_decided_before_all_that_was_written_is_safe() -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    node.slow_down(ORDERS)
    node.begin(writing(owner, "x", "y", targets=[0, 1]))
    begin_commit(node, owner)

    twin = node.twin()

    assert shown(twin, ORDERS, SECOND_ORDERS) == ["warm", "warm"]
    (found,) = transactions(twin).values()
    assert found.state is TransactionState.ONGOING
    abort(twin, owner)


def test_two_commits_that_wait_for_the_same_messages_are_answered_alike() -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    node.slow_down(ORDERS)
    node.begin(writing(owner, "x", targets=[0]))
    requests = [begin_commit(node, owner), begin_commit(node, owner)]

    node.speed_up()

    assert [node.reply(each, TransactionEnded).is_commit for each in requests] == [True, True]


def test_messages_that_find_no_space_are_refused_and_the_others_commit() -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "y", targets=[1])
    node.slow_down(ORDERS)
    publishing = node.begin(writing(owner, "x", targets=[0]))
    ending = begin_commit(node, owner)
    node.files.faults.room = 0
    node.speed_up()
    assert node.reply(publishing, Published).placed[0].refused is Code.STORAGE_FULL
    node.files.faults.room = None

    node.advance(20 * SECOND)

    assert node.reply(ending, TransactionEnded).is_commit
    assert shown(node, ORDERS, SECOND_ORDERS) == ["warm", "warm", "y"]


@pytest.mark.parametrize("how", ["abort", "timeout", "init"])
def test_an_abort_whose_messages_and_marker_find_no_space_ends(how: str) -> None:
    node = warm()
    owner = init(node, timeout_ns=5 * SECOND)
    begin(node, owner)
    node.slow_down(ORDERS)
    publishing = node.begin(writing(owner, "x", targets=[0]))
    if how == "abort":
        ending = begin_abort(node, owner)
    elif how == "init":
        ending = node.begin(InitProducer(transactional_id="billing"))
    else:
        node.advance(6 * SECOND)
        ending = node.begin(BeginTransaction(owner=owner))
    node.files.faults.room = 0
    node.speed_up()
    assert node.reply(publishing, Published).placed[0].refused is Code.STORAGE_FULL
    node.files.faults.room = None

    node.advance(20 * SECOND)

    match how:
        case "abort":
            assert not node.reply(ending, TransactionEnded).is_commit
        case "init":
            owner = owned(node.reply(ending, ProducerGranted))
        case _:
            assert node.reply(ending, TransactionBegan).transaction_id.endswith("-2")
            abort(node, owner)
    begin(node, owner)
    write(node, owner, "z", targets=[0])
    commit(node, owner)
    assert shown(node) == ["warm", "z"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_that_find_no_space_are_written_when_there_is_some(is_commit: bool) -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", "y", targets=[0, 1])
    node.slow_down(ORDERS, SECOND_ORDERS)
    ending = begin_commit(node, owner) if is_commit else begin_abort(node, owner)
    node.files.faults.room = 0
    node.speed_up()
    assert not node.is_answered(ending)
    assert shown(node, ORDERS, SECOND_ORDERS) == ["warm", "warm"]
    node.advance(3 * SECOND)
    assert not node.is_answered(ending)
    twin = node.twin()
    node.files.faults.room = None

    node.advance(20 * SECOND)

    wanted = ["warm", "x", "warm", "y"] if is_commit else ["warm", "warm"]
    assert node.reply(ending, TransactionEnded).is_commit is is_commit
    assert shown(node, ORDERS, SECOND_ORDERS) == wanted
    assert shown(twin, ORDERS, SECOND_ORDERS) == wanted, "a crash in between ends it, too"
    begin(node, owner)


def test_a_commit_while_the_journal_has_no_space_is_decided_when_there_is_some() -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", targets=[0])
    node.files.faults.room = 0
    ending = begin_commit(node, owner)
    assert not node.is_answered(ending)
    assert shown(node) == ["warm"]
    assert refused_code(node, BeginTransaction(owner=owner)) is Code.STORAGE_FULL
    node.files.faults.room = None

    node.advance(20 * SECOND)

    assert node.reply(ending, TransactionEnded).is_commit
    assert shown(node) == ["warm", "x"]


def test_a_prepare_waits_for_messages_and_is_not_answered_before_them() -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    node.slow_down(ORDERS)
    node.begin(writing(owner, "x", targets=[0]))
    preparing = node.begin(PrepareTransaction(owner=owner))
    assert not node.is_answered(preparing)

    node.speed_up()

    assert node.reply(preparing, TransactionPrepared).transaction_id in transactions(node)


def test_whoever_takes_over_ends_a_commit_that_waits_for_messages() -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    node.slow_down(ORDERS)
    node.begin(writing(owner, "x", targets=[0]))
    ending = begin_commit(node, owner)
    taking = node.begin(InitProducer(transactional_id="billing"))

    node.speed_up()

    with pytest.raises(Refused) as refused:
        node.reply(ending, TransactionEnded)
    assert refused.value.code is Code.PRODUCER_FENCED
    assert node.reply(taking, ProducerGranted).epoch == owner.epoch + 1
    assert shown(node) == ["warm"]


def test_a_commit_that_waits_for_messages_until_its_time_is_over_is_refused() -> None:
    node = warm()
    owner = init(node, timeout_ns=5 * SECOND)
    begin(node, owner)
    node.slow_down(ORDERS)
    node.begin(writing(owner, "x", targets=[0]))
    ending = begin_commit(node, owner)

    node.advance(6 * SECOND)

    with pytest.raises(Refused) as refused:
        node.reply(ending, TransactionEnded)
    assert refused.value.code is Code.TRANSACTION_TIMEOUT
    node.speed_up()
    assert shown(node) == ["warm"]


# The first marked message of a topic


def test_a_commit_waits_for_the_first_message_that_must_be_announced() -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    node.slow_down(TOPICS)
    publishing = node.begin(writing(owner, "x"))
    ending = begin_commit(node, owner)
    assert not node.is_answered(publishing)
    assert not node.is_answered(ending)

    node.speed_up()

    assert node.reply(publishing, Published).placed[0].refused is None
    assert node.reply(ending, TransactionEnded).is_commit
    assert shown(node) == ["x"]


@pytest.mark.parametrize("how", ["abort", "init"])
def test_a_message_that_is_announced_when_its_transaction_is_over_is_refused(how: str) -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    node.slow_down(TOPICS)
    publishing = node.begin(writing(owner, "x"))
    if how == "abort":
        abort(node, owner)
    else:
        owner = init(node)

    node.speed_up()

    with pytest.raises(Refused) as refused:
        node.reply(publishing, Published)
    assert refused.value.code in {Code.TRANSACTION_STATE_INVALID, Code.PRODUCER_FENCED}
    assert shown_uncommitted(node) == []
    begin(node, owner)
    write(node, owner, "y")
    commit(node, owner)
    assert shown(node) == ["y"]


def test_a_topic_that_goes_while_its_first_message_is_announced_holds_up_no_commit() -> None:
    node = DrivenNode()
    create(node)
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "kept", topic="others")
    node.slow_down(TOPICS)
    publishing = node.begin(writing(owner, "x"))
    deleting = node.begin(DeleteTopic(name="orders"))
    ending = begin_commit(node, owner)

    node.speed_up()

    with pytest.raises(Refused) as refused:
        node.reply(publishing, Published)
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    assert isinstance(node.reply(deleting, Done), Done)
    assert node.reply(ending, TransactionEnded).is_commit
    assert shown(node, LogId("others", 0)) == ["kept"]


def test_a_header_like_the_mark_of_a_batch_is_not_taken_for_one() -> None:
    node = warm(1)
    forged = Message(value=b"v", headers=(("gq.batch", b"7,0,0,100,9,0"),))
    node.begin(Publish(topic="orders", batch=build([forged])))
    publish(node, "after")
    before = shown(node)

    node.restart()

    assert shown(node) == before
    assert "after" in before


# A number is given once


def test_a_begin_that_a_crash_took_back_gives_its_number_to_no_other() -> None:
    node = warm(1)
    owner = init(node)
    node.slow_down(GROUPS)
    node.begin(BeginTransaction(owner=owner))
    # It is not known to be open, but whoever asks twice may guess it.
    publishing = node.begin(writing(owner, "ghost"))
    was_written = node.is_answered(publishing)
    node.restart()

    begin(node, owner)
    write(node, owner, "x")
    commit(node, owner)

    assert shown(node) == ["warm", "x"]
    assert was_written is ("ghost" in shown_uncommitted(node))


# Logs that fail


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_log_that_failed_holds_up_no_end_and_is_told_after_a_restart(is_commit: bool) -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", "y", targets=[0, 1])
    node.files.faults.broken["sync", "orders/0/00000000000000000000.log"] = errno.EIO
    failing = node.begin(Publish(topic="orders", batch=build([Message(value=b"p")]), targets=[0]))
    assert node.reply(failing, Published).placed[0].refused is Code.STORAGE_FAILED
    (commit if is_commit else abort)(node, owner)
    begin(node, owner)
    assert shown(node, SECOND_ORDERS) == (["warm", "y"] if is_commit else ["warm"])

    node.restart()

    found = shown(node)
    assert ("x" in found) is is_commit
    assert "warm" in found


# Topics that go


def test_a_topic_that_goes_within_an_open_transaction_is_no_part_of_it_any_more() -> None:
    node = warm()
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", targets=[0])
    write(node, owner, "y", topic="others")

    node.ask(DeleteTopic(name="orders"), Done)
    create(node)
    publish(node, "new")

    assert commit(node, owner).is_commit
    assert shown(node, LogId("others", 0)) == ["y"]
    assert shown(node) == ["new"]
    node.restart()
    assert shown(node) == ["new"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_topic_that_goes_within_a_decided_transaction_holds_it_up_no_longer(
    is_commit: bool,
) -> None:
    node = warm()
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", targets=[0])
    write(node, owner, "y", topic="others")
    node.slow_down(ORDERS)
    ending = begin_commit(node, owner) if is_commit else begin_abort(node, owner)
    assert not node.is_answered(ending)

    deleting = node.begin(DeleteTopic(name="orders"))

    assert node.reply(ending, TransactionEnded).is_commit is is_commit
    node.speed_up()
    assert isinstance(node.reply(deleting, Done), Done)
    assert shown(node, LogId("others", 0)) == (["y"] if is_commit else [])
    begin(node, owner)


def test_a_topic_that_goes_takes_the_progress_in_it_along() -> None:
    node = DrivenNode()
    create(node)
    create(node, "others")
    publish(node, "a", "b")
    join(node)
    owner = init(node)
    begin(node, owner)
    add(node, owner, poll(node)[0])
    node.ask(DeleteTopic(name="orders"), Done)
    create(node)
    publish(node, "c", "d")

    commit(node, owner)

    assert sorted(values(poll(node))) == ["c", "d"]
    node.restart()
    assert committed(node) in {None, 0}


# Logs that lose their end


def after_power_loss(node: DrivenNode, before: dict[str, bytes], topic: str) -> DrivenNode:
    """The topic is what it was then, all else is as it is now."""
    now = node.files.copy()
    content = {path: data for path, data in now.items() if f"{topic}/" not in path}
    content |= {path: data for path, data in before.items() if f"{topic}/" in path}
    return DrivenNode(MemoryFiles(content), node.limits, node.now_ns)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_that_a_power_cut_took_is_written_again(is_commit: bool) -> None:
    node = DrivenNode()
    create(node, config=INTERVAL)
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    write(node, owner, "y", topic="others")
    before = node.files.copy()
    (commit if is_commit else abort)(node, owner)
    assert shown(node) == (["x"] if is_commit else [])

    again = after_power_loss(node, before, "orders")

    assert shown(again) == (["x"] if is_commit else [])
    assert shown(again, LogId("others", 0)) == (["y"] if is_commit else [])
    begin(again, owner)
    write(again, owner, "z")
    commit(again, owner)
    assert shown(again)[-1] == "z"


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_that_a_power_cut_took_is_written_again_although_others_ended_since(
    is_commit: bool,
) -> None:
    node = DrivenNode()
    create(node, config=INTERVAL)
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    before = node.files.copy()
    (commit if is_commit else abort)(node, owner)
    for _ in range(3):
        begin(node, owner)
        write(node, owner, "y", topic="others")
        (abort if is_commit else commit)(node, owner)

    again = after_power_loss(node, before, "orders")

    assert shown(again) == (["x"] if is_commit else [])
    assert shown_uncommitted(again) == ["x"]


def test_a_transaction_whose_messages_a_power_cut_took_ends_and_holds_up_nobody() -> None:
    node = DrivenNode()
    create(node, config=INTERVAL)
    owner = init(node)
    begin(node, owner)
    before = node.files.copy()
    write(node, owner, "x")
    commit(node, owner)

    again = after_power_loss(node, before, "orders")
    publish(again, "plain")

    assert shown(again) == ["plain"]
    begin(again, owner)
    write(again, owner, "z")
    commit(again, owner)
    assert shown(again) == ["plain", "z"]


def test_progress_over_messages_that_a_power_cut_took_is_not_taken_for_their_successors() -> None:
    node = DrivenNode()
    create(node, config=INTERVAL)
    publish(node, "a")
    before = node.files.copy()
    publish(node, "lost")
    join(node, mode=Mode.SHARED)
    owner = init(node)
    begin(node, owner)
    leased = poll(node)
    add(node, owner, leased[1])

    again = after_power_loss(node, before, "orders")
    publish(again, "fresh")

    # What it acknowledged never was, so it cannot commit.
    ending = EndTransaction(owner=owner, is_commit=True)
    assert refused_code(again, ending) is Code.TRANSACTION_STATE_INVALID
    join(again, client="c2", mode=Mode.SHARED)
    assert values(poll(again, client="c2")) == ["a", "fresh"]


# Groups of transactions


def test_a_prepared_transaction_takes_no_more_and_may_be_aborted() -> None:
    node = warm(1)
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    identity = prepare(node, owner)
    assert prepare(node, owner) == identity

    assert refused_code(node, writing(owner, "more")) is Code.TRANSACTION_STATE_INVALID
    assert refused_code(node, BeginTransaction(owner=owner)) is Code.TRANSACTION_STATE_INVALID
    abort(node, owner)
    command = CommitGroup(key="key", transaction_ids=(identity,))
    assert refused_code(node, command) is Code.TRANSACTION_STATE_INVALID
    assert shown(node) == ["warm"]


def test_a_group_with_one_that_is_not_prepared_commits_none() -> None:
    node = warm(1)
    owners = [init(node, name) for name in ("first", "second")]
    for owner in owners:
        begin(node, owner)
        write(node, owner, owner.transactional_id)
    ready = prepare(node, owners[0])
    (other,) = [identity for identity in transactions(node) if identity != ready]
    for wrong, code in (
        (other, Code.TRANSACTION_STATE_INVALID),
        ("77-1", Code.TRANSACTION_NOT_FOUND),
        ("nonsense", Code.TRANSACTION_NOT_FOUND),
        ("-1-1", Code.TRANSACTION_NOT_FOUND),
        ("\u0661-1", Code.TRANSACTION_NOT_FOUND),
    ):
        command = CommitGroup(key="key", transaction_ids=(ready, wrong))
        assert refused_code(node, command) is code

    assert transactions(node)[ready].is_prepared
    assert not commit_group(node, "key", ready), "the key was not used"
    assert shown(node) == ["warm", "first"]
    commit(node, owners[1])
    assert shown(node) == ["warm", "first", "second"]


def test_newcomers_under_a_used_key_are_aborted() -> None:
    node = warm(1)
    first, second = init(node, "first"), init(node, "second")
    begin(node, first)
    write(node, first, "x")
    done = prepare(node, first)
    commit_group(node, "key", done)
    begin(node, second)
    write(node, second, "x again")
    late = prepare(node, second)
    node.restart()

    assert commit_group(node, "key", done, late)

    assert shown(node) == ["warm", "x"]
    assert not transactions(node)


def test_a_repeated_group_commit_is_answered_when_readers_see_the_first() -> None:
    node = warm(1)
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    command = CommitGroup(key="key", transaction_ids=(prepare(node, owner),))
    node.slow_down(ORDERS)
    first = node.begin(command)
    again = node.begin(command)
    assert not node.is_answered(first)
    assert not node.is_answered(again)

    node.speed_up()

    assert not node.reply(first, GroupCommitted).is_repeat
    assert node.reply(again, GroupCommitted).is_repeat
    assert shown(node) == ["warm", "x"]


# Damage


def test_a_commit_whose_marker_was_damaged_is_not_taken_back() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(segment_bytes=1 << 20))
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    for _ in range(6):
        publish(node, "y" * 200_000)
    commit(node, owner)
    for _ in range(6):
        publish(node, "z" * 200_000)
    node.advance(20 * SECOND)
    assert shown(node)[0] == "x"
    content = {path: data for path, data in node.files.copy().items() if "snapshot" not in path}
    (path,) = [
        path
        for path, data in content.items()
        if "/orders/" in path and path.endswith(".log") and b"gq.transaction" in data
    ]
    assert not path.endswith("/00000000000000000000.log")
    content[path] = content[path].replace(b"gq.transaction", b"gq.transactiom")

    again = DrivenNode(MemoryFiles(content), now_ns=node.now_ns)

    found = again.ask(Read(topic="orders", partition=0), Records)
    assert texts(readable(found))[0] == "x"
