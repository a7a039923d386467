"""Polls: what is leased to whom, in which order, and how much."""

import pytest

from goqueue.model import HOUR, MILLISECOND, SECOND, Cleanup, Code, Message, Refused
from goqueue.model.requests import (
    AlterTopic,
    Beat,
    Done,
    Extend,
    Extended,
    Heartbeat,
    Leased,
    Leave,
    Mode,
    Poll,
    Publish,
    Published,
    TopicChanges,
    TopicConfig,
    TopicDescription,
    lease_of,
)
from goqueue.records import build
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import (
    ORDERS,
    ack,
    begin_poll,
    create,
    deliveries,
    join,
    letters,
    nack,
    poll,
    polled,
    polling,
    publish,
    read_values,
    shop,
    values,
)


def test_a_poll_leases_messages_until_the_visibility_timeout_of_their_topic() -> None:
    node = shop()
    publish(node, "a", "b")
    node.advance(SECOND)
    first, second = poll(node)

    assert (first.value, second.value) == (b"a", b"b")
    assert (first.attempt, second.attempt) == (1, 1)
    assert first.deadline == EPOCH_NS + SECOND + 30 * SECOND
    assert first.receipt.startswith("orders:0:0:1:")


def test_what_is_leased_is_delivered_to_nobody_else() -> None:
    node = shop(mode=Mode.SHARED)
    join(node, client="c2")
    publish(node, "a")

    assert values(poll(node)) == ["a"]
    assert poll(node) == []
    assert poll(node, client="c2") == []


def test_a_lease_that_ran_out_is_delivered_again_at_once() -> None:
    node = shop(visibility_ns=10 * SECOND)
    publish(node, "a")
    poll(node)
    node.advance(10 * SECOND - 1)
    assert poll(node) == []
    node.advance(1)

    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 2)]


def test_a_poll_may_ask_for_another_visibility() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node, visibility_ns=100 * MILLISECOND)
    node.advance(100 * MILLISECOND)

    assert first.deadline == EPOCH_NS + 100 * MILLISECOND
    assert [each.attempt for each in poll(node)] == [2]


@pytest.mark.parametrize("visibility_ns", [0, 1, 100 * MILLISECOND - 1, 12 * HOUR + 1])
def test_a_visibility_out_of_its_limits_is_refused(visibility_ns: int) -> None:
    node = shop()
    publish(node, "a")

    with pytest.raises(Refused) as refused:
        poll(node, visibility_ns=visibility_ns)
    assert refused.value.code is Code.REQUEST_INVALID
    assert values(poll(node)) == ["a"]


def test_an_extended_lease_ends_later() -> None:
    node = shop(visibility_ns=10 * SECOND)
    publish(node, "a")
    (first,) = poll(node)
    node.advance(9 * SECOND)
    extended = node.ask(Extend(leases=(lease_of(first.receipt),), timeout_ns=20 * SECOND), Extended)
    assert extended.deadline == EPOCH_NS + 29 * SECOND
    node.advance(20 * SECOND - 1)
    assert poll(node) == []
    node.advance(1)

    assert [each.attempt for each in poll(node)] == [2]


def test_a_lease_may_be_cut_short_by_an_extension() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(Extend(leases=(lease_of(first.receipt),), timeout_ns=SECOND), Extended)
    node.advance(SECOND)

    assert [each.attempt for each in poll(node)] == [2]


@pytest.mark.parametrize("timeout_ns", [0, -1, 12 * HOUR + 1])
def test_an_extension_out_of_its_limits_is_refused(timeout_ns: int) -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)

    with pytest.raises(Refused) as refused:
        node.ask(Extend(leases=(lease_of(first.receipt),), timeout_ns=timeout_ns), Extended)
    assert refused.value.code is Code.REQUEST_INVALID


def test_a_poll_takes_no_more_messages_than_it_asked_for() -> None:
    node = shop(partitions=3)
    publish(node, *"abcdefghi")

    assert len(poll(node, count=4)) == 4
    assert len(poll(node, count=100)) == 5


def test_a_poll_ends_with_its_bytes_but_holds_at_least_one_message() -> None:
    node = shop()
    publish(node, "a" * 1000, "b" * 1000, "c" * 1000)
    small = Poll(group="shop", member_id="c1-c100", wait_ns=0, bytes_max=10)
    middle = Poll(group="shop", member_id="c1-c100", wait_ns=0, bytes_max=2500)

    assert len(deliveries(node.ask(small, Leased))) == 1
    assert len(deliveries(node.ask(middle, Leased))) == 2


def test_a_member_holds_at_most_a_thousand_messages_of_a_partition() -> None:
    node = shop(mode=Mode.SHARED)
    join(node, client="c2")
    batch = build([Message(value=b"x")] * 2500)
    node.ask(Publish(topic="orders", batch=batch), Published)

    taken = poll(node, count=600) + poll(node, count=600)
    assert len(taken) == 1000
    assert poll(node) == []
    assert len(poll(node, client="c2", count=1000)) == 1000
    ack(node, *taken[:10])
    assert len(poll(node)) == 10


def test_a_member_at_its_limit_is_woken_by_its_own_ack() -> None:
    node = shop()
    node.ask(Publish(topic="orders", batch=build([Message(value=b"x")] * 1001)), Published)
    taken = poll(node, count=1000)
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    ack(node, taken[0])

    assert polled(node, waiting) == ["x"]


def test_every_partition_is_polled_and_none_is_always_the_last() -> None:
    node = shop(partitions=2)
    publish(node, *"abcdefgh")
    firsts = {poll(node, count=1)[0].log.partition for _ in range(4)}

    assert firsts == {0, 1}


def test_two_groups_get_every_message_and_do_not_touch_each_other() -> None:
    node = shop()
    join(node, group="audit", client="a1")
    publish(node, "a", "b")
    mine = poll(node)
    ack(node, *mine)

    theirs = poll(node, group="audit", client="a1")
    assert values(theirs) == ["a", "b"]
    assert [each.attempt for each in theirs] == [1, 1]


def test_in_shared_mode_there_may_be_more_members_than_partitions() -> None:
    node = shop(mode=Mode.SHARED)
    for client in ("c2", "c3"):
        assert join(node, client=client, mode=Mode.SHARED).assigned == (ORDERS,)
    publish(node, "a", "b", "c")

    taken = [values(poll(node, client=client, count=1)) for client in ("c1", "c2", "c3")]
    assert taken == [["a"], ["b"], ["c"]]


def test_in_partitioned_mode_a_member_without_a_partition_gets_nothing() -> None:
    node = shop()
    assert join(node, client="c2").assigned == ()
    publish(node, "a")

    assert poll(node, client="c2") == []
    assert values(poll(node)) == ["a"]


# ---- who may poll ----------------------------------------------------------------------------


def test_who_is_no_member_cannot_poll() -> None:
    node = shop()

    with pytest.raises(Refused) as refused:
        poll(node, client="stranger")
    assert refused.value.code is Code.MEMBER_NOT_FOUND
    with pytest.raises(Refused) as refused:
        poll(node, group="absent")
    assert refused.value.code is Code.GROUP_NOT_FOUND


def test_a_poll_with_a_generation_that_is_over_is_refused() -> None:
    node = shop()
    join(node, client="c2")
    command = Poll(group="shop", member_id="c1-c100", generation=1, wait_ns=0)

    with pytest.raises(Refused) as refused:
        node.ask(command, Leased)
    assert refused.value.code is Code.GENERATION_STALE
    assert refused.value.facts["generation"] == 2


def test_polls_keep_a_member_alive() -> None:
    node = shop()
    for _ in range(5):
        node.advance(20 * SECOND)
        poll(node)

    node.advance(30 * SECOND)
    with pytest.raises(Refused) as refused:
        poll(node)
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_a_member_that_waits_in_a_poll_is_alive() -> None:
    node = shop()
    waiting = begin_poll(node, wait_ns=60 * SECOND)
    node.advance(59 * SECOND)
    publish(node, "a")

    assert polled(node, waiting) == ["a"]


# ---- leases and membership -------------------------------------------------------------------


def test_a_rebalance_does_not_take_away_what_is_leased() -> None:
    node = shop(partitions=1)
    publish(node, "a")
    (mine,) = poll(node)
    join(node, client="c0")

    assert poll(node, client="c0") == []
    assert ack(node, mine)[0].code is None
    assert poll(node, client="c0") == []


def test_a_lost_session_frees_its_leases_at_once() -> None:
    node = shop(visibility_ns=HOUR)
    join(node, client="c2", session_ns=300 * SECOND)
    publish(node, "a")
    poll(node)
    node.advance(30 * SECOND)

    assert [(each.value, each.attempt) for each in poll(node, client="c2")] == [(b"a", 2)]


def test_a_message_whose_last_holder_dies_goes_to_the_dead_letters() -> None:
    node = shop(max_deliveries=2, visibility_ns=HOUR)
    publish(node, "poison")
    for client in ("c2", "c3"):
        assert values(poll(node, client="c1" if client == "c2" else "c2")) == ["poison"]
        join(node, client=client)
        gone = "c1" if client == "c2" else "c2"
        node.ask(Leave(group="shop", member_id=f"{gone}-{gone}00"), Done)

    assert poll(node, client="c3") == []
    assert letters(node) == ["poison"]


def test_heartbeats_tell_what_to_adopt() -> None:
    node = shop(partitions=2)
    join(node, client="c2")
    beat = node.ask(Heartbeat(group="shop", member_id="c1-c100", generation=1), Beat)
    assert (beat.is_rebalanced, beat.generation, beat.assigned) == (True, 2, (ORDERS,))
    beat = node.ask(Heartbeat(group="shop", member_id="c1-c100", generation=2), Beat)
    assert not beat.is_rebalanced


# ---- what is gone ----------------------------------------------------------------------------


def test_compaction_leaves_what_a_queue_may_still_hand_out() -> None:
    node = DrivenNode()
    compacted = TopicConfig(segment_bytes=64 * 1024, cleanup_policy=Cleanup.COMPACT)
    create(node, config=compacted)
    join(node, session_ns=600 * SECOND)
    text = "x" * 30_000
    publish(node, f"k={text}1", "other=kept")
    publish(node, f"k={text}2")
    first = poll(node, count=1)
    assert values(first) == [f"{text}1"]
    for number in range(3, 9):
        publish(node, f"k={text}{number}")
    node.advance(20 * SECOND)
    assert f"{text}2" in read_values(node)

    ack(node, *first)
    rest = poll(node)
    assert values(rest)[:2] == ["kept", f"{text}2"]
    ack(node, *rest)
    node.advance(120 * SECOND)
    assert f"{text}1" not in read_values(node)


def test_messages_that_retention_removed_are_passed_over() -> None:
    node = shop(retention_hours=1)
    publish(node, "old", "older")
    (old,) = poll(node, count=1, visibility_ns=12 * HOUR)
    for _ in range(4 * 60 + 2):
        node.advance(20 * SECOND)
        node.ask(Heartbeat(group="shop", member_id="c1-c100", generation=1), Beat)
    publish(node, "new")

    assert values(poll(node)) == ["new"]
    assert old.value == b"old"


def test_a_poll_passes_over_what_may_not_be_delivered_any_more() -> None:
    node = shop(max_deliveries=1, visibility_ns=HOUR)
    publish(node, "a", "b", "c")
    assert values(poll(node, count=2)) == ["a", "b"]
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)
    join(node)

    assert values(poll(node, count=1)) == ["c"]
    assert letters(node) == ["a", "b"]


def test_a_lower_limit_holds_for_what_was_delivered_already() -> None:
    node = shop(max_deliveries=0)
    publish(node, "a", "b")
    for _ in range(3):
        nack(node, poll(node, count=1)[0], delay_ns=0)
    changes = TopicChanges({"max_deliveries": 2})
    node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)

    assert values(poll(node)) == ["b"]
    assert letters(node) == ["a"]


def test_a_higher_limit_holds_for_what_is_in_flight() -> None:
    node = shop(max_deliveries=1)
    publish(node, "a")
    (first,) = poll(node)
    changes = TopicChanges({"max_deliveries": 2})
    node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)
    nack(node, first, delay_ns=0)

    assert [each.attempt for each in poll(node)] == [2]
    assert letters(node) == []


def test_a_rebalance_between_a_poll_and_its_answer_leases_nothing_twice() -> None:
    node = shop(visibility_ns=HOUR)
    publish(node, "a")
    node.reads_are_late = True
    first = node.begin(polling())
    join(node, client="c0")
    second = node.begin(polling(client="c0"))
    node.finish_reads()

    assert sorted([*polled(node, first), *polled(node, second)]) == ["a"]


def test_a_poll_that_waits_is_answered_when_only_some_partitions_are_late() -> None:
    node = shop(partitions=2)
    publish(node, "a", targets=[0])
    node.reads_are_late = True
    waiting = begin_poll(node)
    publish(node, "b", targets=[1])
    node.finish_reads()

    got = polled(node, waiting)
    assert got
    assert sorted([*got, *values(poll(node))]) == ["a", "b"]
