"""An end that comes while messages of the transaction are on their way."""

import pytest

from goqueue.broker import GROUPS_LOG
from goqueue.model import SECOND, Code, LogId, Message, Refused
from goqueue.model.requests import (
    AddPartition,
    BeginTransaction,
    DeleteTopic,
    Done,
    InitProducer,
    PrepareTransaction,
    ProducerGranted,
    Publish,
    Published,
    TransactionBegan,
    TransactionEnded,
    TransactionPrepared,
    TransactionState,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import (
    SECOND_ORDERS,
    TOPICS,
    abort,
    begin,
    begin_abort,
    begin_commit,
    commit,
    init,
    owned,
    refused_code,
    shown,
    shown_uncommitted,
    transactions,
    warm,
    write,
    writing,
)
from tests.unit.broker.users import ORDERS, create, messages, publish

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


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_nobody_hears_that_time_was_over_before_that_is_durable(is_asked_before: bool) -> None:
    node = warm()
    owner = init(node, timeout_ns=5 * SECOND)
    begin(node, owner)
    node.slow_down(GROUPS_LOG, ORDERS)
    if is_asked_before:
        node.begin(writing(owner, "x", targets=[0]))
        ending = begin_commit(node, owner)
        node.advance(6 * SECOND)
    else:
        node.advance(6 * SECOND)
        ending = begin_commit(node, owner)
    assert not node.is_answered(ending)
    node.speed_up()

    with pytest.raises(Refused) as refused:
        node.reply(ending, TransactionEnded)
    assert refused.value.code is Code.TRANSACTION_TIMEOUT


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


def test_a_transaction_that_wrote_nothing_ends_though_what_others_wrote_is_taken_back() -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    node.ask(AddPartition(owner=owner, log=ORDERS), Done)
    node.slow_down(ORDERS)
    other = node.begin(Publish(topic="orders", batch=build(messages("taken back"))))
    abort(node, owner)
    node.files.faults.room = 0
    node.speed_up()
    node.files.faults.room = None
    node.advance(5 * SECOND)

    assert node.reply(other, Published).placed[0].refused is Code.STORAGE_FULL
    assert transactions(node) == {}
