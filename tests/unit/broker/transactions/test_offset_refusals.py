"""Progress that no transaction takes: each refusal, and that it changes nothing."""

import pytest

from goqueue.model import SECOND, Code, LogId, Offset
from goqueue.model.requests import AddOffsets, AddPartition, CommitOffsets, Mode, Offsets, Owner
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import (
    abort,
    add,
    begin,
    commit,
    init,
    prepare,
    refusal,
    refused_code,
    shown,
)
from tests.unit.broker.users import ORDERS, committed, create, join, poll, publish, values

MEMBER = "c1-c100"

OTHERS = LogId("others", 0)


def followed() -> tuple[DrivenNode, Owner, int]:
    """A stream with two members, who have one partition each, and an open transaction."""
    node = DrivenNode()
    create(node, partitions=2)
    create(node, "others")
    publish(node, *"abcd", targets=[0, 0, 1, 1])
    join(node, session_ns=600 * SECOND)
    joined = join(node, client="c2", session_ns=600 * SECOND)
    owner = init(node, timeout_ns=600 * SECOND)
    begin(node, owner)
    return node, owner, joined.generation


def adding(
    owner: Owner,
    offsets: dict[LogId, int],
    member: str | None = MEMBER,
    generation: int | None = None,
    group: str = "shop",
) -> AddOffsets:
    return AddOffsets(
        owner=owner,
        group=group,
        offsets={log: Offset(offset) for log, offset in offsets.items()},
        member_id=member,
        generation=generation,
    )


def test_each_refusal_of_offsets_is_the_one_of_a_plain_commit() -> None:
    node, owner, generation = followed()
    mine, foreign = LogId("orders", 0), LogId("orders", 1)
    for offsets, member, at, group, code in (
        ({}, MEMBER, None, "shop", Code.REQUEST_INVALID),
        ({mine: 1}, MEMBER, None, "nobody", Code.GROUP_NOT_FOUND),
        ({mine: 1}, None, None, "shop", Code.MEMBER_NOT_FOUND),
        ({mine: 1}, "nobody", None, "shop", Code.MEMBER_NOT_FOUND),
        ({mine: 1}, MEMBER, generation - 1, "shop", Code.GENERATION_STALE),
        ({foreign: 1}, MEMBER, None, "shop", Code.PARTITION_NOT_ASSIGNED),
        ({mine: 1, foreign: 1}, MEMBER, None, "shop", Code.PARTITION_NOT_ASSIGNED),
        ({mine: 3}, MEMBER, None, "shop", Code.OFFSET_OUT_OF_RANGE),
        ({mine: -1}, MEMBER, None, "shop", Code.OFFSET_OUT_OF_RANGE),
        ({LogId("orders", 7): 0}, MEMBER, None, "shop", Code.PARTITION_NOT_FOUND),
        ({LogId("missing", 0): 0}, MEMBER, None, "shop", Code.TOPIC_NOT_FOUND),
    ):
        command = adding(owner, offsets, member, at, group)
        assert refused_code(node, command) is code, command

    add(node, owner, offsets={mine: 2}, member=MEMBER, generation=generation)
    commit(node, owner)
    assert committed(node, log=mine) == 2
    assert committed(node, log=foreign) is None


def test_no_progress_is_taken_without_an_open_transaction() -> None:
    node, owner, _ = followed()
    command = adding(owner, {ORDERS: 1})
    prepare(node, owner)
    assert refused_code(node, command) is Code.TRANSACTION_STATE_INVALID
    abort(node, owner)
    assert refused_code(node, command) is Code.TRANSACTION_STATE_INVALID
    assert committed(node) is None
    assert values(poll(node)) == ["a", "b"]


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (LogId("missing", 0), Code.TOPIC_NOT_FOUND),
        (LogId("orders", 9), Code.PARTITION_NOT_FOUND),
        (LogId("orders", -1), Code.PARTITION_INVALID),
        (LogId("__groups", 0), Code.TOPIC_INTERNAL),
    ],
)
def test_a_partition_that_cannot_be_written_is_no_part_of_a_transaction(
    log: LogId, code: Code
) -> None:
    node, owner, _ = followed()

    assert refused_code(node, AddPartition(owner=owner, log=log)) in {code, Code.TOPIC_NOT_FOUND}

    assert commit(node, owner).is_commit


def test_a_transaction_that_only_named_a_partition_commits_and_writes_no_marker() -> None:
    node, owner, _ = followed()
    assert not shown(node, OTHERS)
    node.begin(AddPartition(owner=owner, log=OTHERS))

    commit(node, owner)
    publish(node, "x", topic="others")

    assert committed(node, log=OTHERS) is None
    assert shown(node, OTHERS) == ["x"]


def test_receipts_of_an_earlier_life_are_stale() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a")
    join(node, session_ns=600 * SECOND, mode=Mode.SHARED)
    owner = init(node)
    begin(node, owner)
    (leased,) = poll(node)
    node.restart()

    command = AddOffsets(owner=owner, group="shop", receipts=(leased.receipt,))

    assert refused_code(node, command) is Code.RECEIPT_STALE
    assert values(poll(node)) == ["a"]


def test_receipts_that_a_transaction_holds_may_be_added_again_in_the_next_life() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a", "b")
    join(node, session_ns=600 * SECOND, mode=Mode.SHARED)
    owner = init(node)
    begin(node, owner)
    leased = poll(node)
    add(node, owner, leased[0])
    node.restart()

    # The answer may have been lost with the life before: a repeated request asks for the same.
    add(node, owner, leased[0])
    assert refusal(
        node, AddOffsets(owner=owner, group="shop", receipts=(leased[1].receipt,))
    ).code is (Code.RECEIPT_STALE)
    commit(node, owner)

    assert committed(node) == 1


def test_a_plain_commit_of_others_goes_on_beside_a_transaction() -> None:
    node, owner, _ = followed()
    add(node, owner, offsets={ORDERS: 1}, member=MEMBER)
    other = CommitOffsets(
        group="shop", offsets={LogId("orders", 1): Offset(2)}, member_id="c2-c200"
    )
    assert node.ask(other, Offsets).offsets == {LogId("orders", 1): 2}

    abort(node, owner)

    assert committed(node) is None
    assert committed(node, log=LogId("orders", 1)) == 2
