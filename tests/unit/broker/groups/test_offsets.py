"""Positions: committed forward only, reset anywhere, and how far behind a group is."""

import pytest

from goqueue.model import HOUR, SECOND, Code, LogId, Offset, Refused, Timestamp
from goqueue.model.requests import (
    CommitOffsets,
    DeleteTopic,
    DescribeGroup,
    DescribeOffsets,
    Done,
    GroupDescription,
    GroupState,
    Leave,
    Offsets,
    PositionsReset,
    ResetOffsets,
    Strategy,
)
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.groups.shops import stocked_shop
from tests.unit.broker.users import (
    ORDERS,
    ack,
    begin_poll,
    committed,
    create,
    join,
    lag,
    nack,
    poll,
    polled,
    publish,
    values,
)

SECOND_LOG = LogId("orders", 1)


def commit(
    node: DrivenNode,
    offsets: dict[LogId, int],
    member: str | None = None,
    generation: int | None = None,
) -> dict[LogId, Offset]:
    command = CommitOffsets(
        group="shop",
        offsets={log: Offset(offset) for log, offset in offsets.items()},
        member_id=member,
        generation=generation,
    )
    return node.ask(command, Offsets).offsets


def reset(
    node: DrivenNode, strategy: Strategy, *, is_dry_run: bool = False, **more: int
) -> dict[LogId, tuple[int, int]]:
    """Where each position is put, and the lag there."""
    timestamp, offset = more.get("timestamp"), more.get("offset")
    command = ResetOffsets(
        group="shop",
        topic="orders",
        strategy=strategy,
        partition=more.get("partition"),
        timestamp=None if timestamp is None else Timestamp(timestamp),
        offset=None if offset is None else Offset(offset),
        is_dry_run=is_dry_run,
    )
    positions = node.ask(command, PositionsReset).positions
    return {each.log: (each.offset, each.lag) for each in positions}


# ---- committing ------------------------------------------------------------------------------


def test_a_commit_moves_a_position_and_never_back() -> None:
    node = stocked_shop(1, "a", "b", "c")
    assert commit(node, {ORDERS: 2}) == {ORDERS: 2}
    assert commit(node, {ORDERS: 1}) == {ORDERS: 2}
    node.restart()

    assert committed(node) == 2


def test_a_commit_without_a_member_makes_the_group() -> None:
    node = stocked_shop(1, "a")
    commit(node, {ORDERS: 1})

    described = node.ask(DescribeGroup(group="shop"), GroupDescription)
    assert (described.state, described.generation) == (GroupState.EMPTY, 0)
    assert join(node).generation == 1
    assert poll(node) == []


def test_a_commit_with_a_member_does_not_make_a_group() -> None:
    node = stocked_shop(1, "a")

    with pytest.raises(Refused) as refused:
        commit(node, {ORDERS: 1}, "c1-c100")
    assert refused.value.code is Code.GROUP_NOT_FOUND


@pytest.mark.parametrize("offset", [-1, 2, 2**62])
def test_a_commit_beyond_the_log_is_refused(offset: int) -> None:
    node = stocked_shop(1, "a")

    with pytest.raises(Refused) as refused:
        commit(node, {ORDERS: offset})
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE
    assert (refused.value.facts["earliest"], refused.value.facts["end"]) == (0, 1)


def test_a_commit_is_all_or_nothing() -> None:
    node = stocked_shop(2, "a")
    join(node)
    for offsets in (
        {ORDERS: 1, SECOND_LOG: 5},
        {ORDERS: 1, LogId("absent", 0): 0},
        {ORDERS: 1, LogId("orders", 7): 0},
    ):
        with pytest.raises(Refused):
            commit(node, offsets, "c1-c100")

    assert committed(node) is None


def test_a_refused_commit_makes_no_group() -> None:
    node = stocked_shop(1, "a")
    with pytest.raises(Refused):
        commit(node, {ORDERS: 5})

    with pytest.raises(Refused) as refused:
        node.ask(DescribeOffsets(group="shop"), Offsets)
    assert refused.value.code is Code.GROUP_NOT_FOUND


def test_an_empty_commit_is_refused() -> None:
    node = stocked_shop()

    with pytest.raises(Refused) as refused:
        commit(node, {})
    assert refused.value.code is Code.REQUEST_INVALID


def test_a_member_commits_only_what_is_assigned_to_it() -> None:
    node = stocked_shop(2, "a")
    join(node)
    join(node, client="c2")

    with pytest.raises(Refused) as refused:
        commit(node, {ORDERS: 1}, "c2-c200")
    assert refused.value.code is Code.PARTITION_NOT_ASSIGNED
    assert commit(node, {ORDERS: 1}, "c1-c100") == {ORDERS: 1}


def test_a_commit_of_an_older_generation_is_refused() -> None:
    node = stocked_shop(1, "a")
    join(node)
    join(node, client="c2")

    with pytest.raises(Refused) as refused:
        commit(node, {ORDERS: 1}, "c1-c100", generation=1)
    assert refused.value.code is Code.GENERATION_STALE
    assert refused.value.facts["generation"] == 2
    assert commit(node, {ORDERS: 1}, "c1-c100", generation=2) == {ORDERS: 1}


def test_a_member_that_was_taken_out_cannot_commit() -> None:
    node = stocked_shop(1, "a")
    join(node)
    node.advance(30 * SECOND)

    with pytest.raises(Refused) as refused:
        commit(node, {ORDERS: 1}, "c1-c100")
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_nobody_commits_for_a_group_with_members_without_being_one() -> None:
    node = stocked_shop(1, "a")
    join(node)

    with pytest.raises(Refused) as refused:
        commit(node, {ORDERS: 1})
    assert refused.value.code is Code.MEMBER_NOT_FOUND
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)
    assert commit(node, {ORDERS: 1}) == {ORDERS: 1}


def test_a_commit_settles_what_is_below_and_delivery_goes_on_behind_it() -> None:
    node = stocked_shop(1, "a", "b", "c")
    join(node)
    poll(node, count=1)
    commit(node, {ORDERS: 2}, "c1-c100")

    assert values(poll(node)) == ["c"]
    assert lag(node).in_flight == 1


def test_offsets_are_described_by_topic() -> None:
    node = stocked_shop(1, "a")
    create(node, "more")
    publish(node, "x", topic="more")
    commit(node, {ORDERS: 1, LogId("more", 0): 1})

    described = node.ask(DescribeOffsets(group="shop"), Offsets)
    assert described.offsets == {ORDERS: 1, LogId("more", 0): 1}
    assert described.updated_at == EPOCH_NS + SECOND
    assert node.ask(DescribeOffsets(group="shop", topic="more"), Offsets).offsets == {
        LogId("more", 0): 1
    }


# ---- resetting -------------------------------------------------------------------------------


def test_a_reset_goes_back_to_the_earliest() -> None:
    node = stocked_shop(1, "a", "b")
    join(node)
    ack(node, *poll(node))
    assert reset(node, Strategy.EARLIEST) == {ORDERS: (0, 2)}

    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 1), (b"b", 1)]


def test_a_reset_goes_to_the_latest() -> None:
    node = stocked_shop(2, "a", "b")
    join(node)
    assert reset(node, Strategy.LATEST) == {ORDERS: (2, 0), SECOND_LOG: (0, 0)}

    assert poll(node) == []


def test_a_reset_goes_to_an_offset_of_one_partition() -> None:
    node = stocked_shop(2, "a", "b", "c")
    join(node)

    assert reset(node, Strategy.OFFSET, offset=1, partition=0) == {ORDERS: (1, 2)}
    assert values(poll(node)) == ["b", "c"]


def test_a_reset_goes_to_the_first_message_at_or_after_a_time() -> None:
    node = stocked_shop(2, "a", "b", "c")
    join(node)
    at = EPOCH_NS + SECOND
    assert reset(node, Strategy.TIMESTAMP, timestamp=at) == {ORDERS: (1, 2), SECOND_LOG: (0, 0)}
    between = EPOCH_NS + SECOND + 1
    assert reset(node, Strategy.TIMESTAMP, timestamp=between)[ORDERS] == (2, 1)

    assert reset(node, Strategy.TIMESTAMP, timestamp=EPOCH_NS + HOUR)[ORDERS] == (3, 0)
    assert reset(node, Strategy.TIMESTAMP, timestamp=0)[ORDERS] == (0, 3)


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    node = stocked_shop(1, "a", "b")
    join(node)
    (first, second) = poll(node)
    for strategy, more in (
        (Strategy.LATEST, {}),
        (Strategy.TIMESTAMP, {"timestamp": EPOCH_NS + SECOND}),
        (Strategy.OFFSET, {"offset": 1}),
    ):
        assert ORDERS in reset(node, strategy, is_dry_run=True, **more)

    assert [each.code for each in ack(node, first, second)] == [None, None]
    assert committed(node) == 2


@pytest.mark.parametrize("offset", [-1, 4])
def test_a_reset_beyond_the_log_is_refused_as_a_whole(offset: int) -> None:
    node = stocked_shop(2, "a", "b", "c")
    commit(node, {ORDERS: 2})

    with pytest.raises(Refused) as refused:
        reset(node, Strategy.OFFSET, offset=offset)
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE
    assert committed(node) == 2


@pytest.mark.parametrize("strategy", [Strategy.TIMESTAMP, Strategy.OFFSET])
def test_a_reset_that_does_not_say_where_to_is_refused(strategy: Strategy) -> None:
    node = stocked_shop(1, "a")
    commit(node, {ORDERS: 1})

    with pytest.raises(Refused) as refused:
        reset(node, strategy)
    assert refused.value.code is Code.REQUEST_INVALID


def test_a_reset_of_what_does_not_exist_is_refused() -> None:
    node = stocked_shop()
    with pytest.raises(Refused) as refused:
        reset(node, Strategy.EARLIEST)
    assert refused.value.code is Code.GROUP_NOT_FOUND
    join(node)

    with pytest.raises(Refused) as refused:
        reset(node, Strategy.EARLIEST, partition=3)
    assert refused.value.code is Code.PARTITION_NOT_FOUND


def test_a_reset_survives_a_restart() -> None:
    node = stocked_shop(1, "a", "b")
    join(node)
    ack(node, *poll(node))
    reset(node, Strategy.OFFSET, offset=1)
    node.restart()

    assert committed(node) == 1
    assert [(each.value, each.attempt) for each in poll(node)] == [(b"b", 1)]


def test_a_reset_wakes_those_who_wait() -> None:
    node = stocked_shop(1, "a")
    join(node)
    ack(node, *poll(node))
    waiting = begin_poll(node)
    reset(node, Strategy.EARLIEST)

    assert polled(node, waiting) == ["a"]


def test_a_reset_forgets_what_rested() -> None:
    node = stocked_shop(1, "a")
    join(node)
    nack(node, poll(node)[0], delay_ns=HOUR)
    reset(node, Strategy.EARLIEST)

    assert [each.attempt for each in poll(node)] == [1]


def test_a_reset_by_time_whose_topic_is_deleted_meanwhile_is_answered() -> None:
    node = stocked_shop(1, "a")
    join(node)
    node.ask(DeleteTopic(name="orders"), Done)

    with pytest.raises(Refused) as refused:
        reset(node, Strategy.TIMESTAMP, timestamp=0)
    assert refused.value.code is Code.TOPIC_NOT_FOUND
