"""Priorities in queue reads: who overtakes whom, and that every message comes once."""

import pytest

from goqueue.model import SECOND
from goqueue.model.requests import (
    AlterTopic,
    Done,
    LaneSettings,
    Leave,
    Mode,
    PositionsReset,
    ResetOffsets,
    Strategy,
    TopicChanges,
    TopicDescription,
)
from tests.unit.broker.groups.priorities import (
    BACKGROUND,
    CRITICAL,
    HIGH,
    LOW,
    NORMAL,
    backlog,
    commit,
    drain,
    lanes_of,
    let_scouting_end,
    offsets_of,
    publish,
)
from tests.unit.broker.users import LETTERS, ack, committed, join, nack, poll, read, reject, shop

# Who goes first


def test_normal_then_critical_are_both_read_the_critical_one_first() -> None:
    node = shop()
    publish(node, [NORMAL, CRITICAL])

    found = poll(node)
    assert lanes_of(found) == [CRITICAL, NORMAL]
    ack(node, *found)
    assert committed(node) == 2


def test_a_critical_message_behind_20000_others_comes_first_once_they_are_counted() -> None:
    node = shop()
    backlog(node, 20_000)
    publish(node, [CRITICAL])
    first = poll(node, count=1)
    let_scouting_end(node)

    assert offsets_of(poll(node, count=2))[0] == 20_000
    assert len(first) == 1


def test_a_critical_message_is_found_by_polls_alone_after_a_few_of_them() -> None:
    node = shop()
    backlog(node, 20_000)
    publish(node, [CRITICAL])

    found = [lane for _ in range(6) for lane in lanes_of(poll(node, count=1))]
    assert CRITICAL in found


def test_a_critical_message_that_comes_while_a_backlog_is_read_is_next() -> None:
    node = shop()
    backlog(node, 20_000)
    publish(node, [BACKGROUND])
    poll(node, count=10)
    let_scouting_end(node)
    poll(node, count=10)
    publish(node, [CRITICAL, HIGH])

    assert lanes_of(poll(node, count=3)) == [CRITICAL, HIGH, NORMAL]


def test_stream_reads_and_the_committed_position_go_by_offset() -> None:
    node = shop()
    publish(node, [NORMAL, LOW, CRITICAL])
    critical, *_ = poll(node, count=1)
    ack(node, critical)

    assert lanes_of([critical]) == [CRITICAL]
    assert [record.priority for record in read(node)] == [NORMAL, LOW, CRITICAL]
    assert committed(node) in (None, 0)
    drain(node)
    assert committed(node) == 3


def test_shares_hold_over_polls_of_any_size_while_all_lanes_have_something() -> None:
    node = shop()
    for _ in range(5):
        publish(node, [BACKGROUND, LOW, NORMAL, HIGH, CRITICAL] * 1000)
    poll(node, count=1)
    let_scouting_end(node)
    counts = [0] * 5
    while sum(counts) < 3000:
        batch = poll(node, count=137)
        ack(node, *batch)
        for lane in lanes_of(batch):
            counts[lane] += 1

    for count, weight in zip(counts, LaneSettings().weights, strict=True):
        assert abs(100 * count / sum(counts) - weight) <= 2


def test_other_weights_hold_for_queues_that_are_there() -> None:
    node = shop()
    publish(node, [LOW, CRITICAL] * 500)
    poll(node, count=1)
    changes = TopicChanges({"priority_weights": (1, 1, 1, 1, 1)})
    node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)

    assert sorted(lanes_of(poll(node, count=10))) == [CRITICAL] * 5 + [LOW] * 5


def test_a_lane_that_was_not_served_for_long_is_boosted() -> None:
    node = shop(lanes=LaneSettings(boost_ns=5 * SECOND))
    publish(node, [BACKGROUND] + [CRITICAL] * 200)
    assert lanes_of(poll(node, count=1)) == [CRITICAL]
    node.advance(4 * SECOND)
    assert lanes_of(poll(node, count=1)) == [CRITICAL]
    node.advance(SECOND)

    assert lanes_of(poll(node, count=2)) == [BACKGROUND, CRITICAL]


def test_priority_chooses_between_keys_and_never_within_one() -> None:
    node = shop(mode=Mode.KEY_ORDERED)
    publish(node, [LOW, CRITICAL, NORMAL], keys=["a", "a", "b"])

    first = poll(node)
    assert offsets_of(first) == [2, 0]
    ack(node, *first)
    assert offsets_of(poll(node)) == [1]


# Nothing is lost, nothing comes twice

MIXES = [
    [NORMAL] * 3000 + [CRITICAL] + [NORMAL] * 4000,
    [CRITICAL, BACKGROUND] * 3000,
    [LOW] * 6000 + [HIGH] * 1500,
    [0, 1, 2, 3, 4] * 1500,
    [BACKGROUND] * 9000 + [CRITICAL] * 5,
]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("mode", [Mode.PARTITIONED, Mode.SHARED, Mode.KEY_ORDERED])
def test_every_message_comes_once_whatever_the_mix(mix: list[int], mode: Mode) -> None:
    node = shop(mode=mode)
    publish(node, mix)
    publish(node, mix)
    found = drain(node)

    assert sorted(offsets_of(found)) == list(range(2 * len(mix)))
    assert committed(node) == 2 * len(mix)


def test_each_partition_and_priority_is_delivered_in_order() -> None:
    node = shop(partitions=3)
    for partition, mix in enumerate(MIXES[:3]):
        publish(node, mix, partition)
    found = drain(node)

    for partition, mix in enumerate(MIXES[:3]):
        here = [each for each in found if each.log.partition == partition]
        assert sorted(offsets_of(here)) == list(range(len(mix)))
        for lane in range(5):
            mine = offsets_of([each for each in here if each.record.priority == lane])
            assert mine == sorted(mine)


def test_what_is_given_back_comes_again_before_what_is_new_in_its_lane() -> None:
    node = shop()
    publish(node, [CRITICAL] * 5)
    first, *_ = poll(node, count=2)
    nack(node, first, delay_ns=0)

    again = poll(node)
    assert offsets_of(again) == [0, 2, 3, 4]
    assert again[0].attempt == 2


def test_a_lease_that_ran_out_comes_again_in_its_lane() -> None:
    node = shop(mode=Mode.SHARED)
    publish(node, [NORMAL] * 3 + [HIGH] * 2)
    assert offsets_of(poll(node, count=2, visibility_ns=SECOND)) == [3, 4]
    node.advance(SECOND)

    assert offsets_of(poll(node)) == [3, 4, 0, 1, 2]


def test_a_dead_letter_keeps_its_priority() -> None:
    node = shop()
    publish(node, [NORMAL, CRITICAL])
    critical, normal = poll(node)
    reject(node, critical)

    assert [record.priority for record in read(node, LETTERS)] == [CRITICAL]
    ack(node, normal)
    assert committed(node) == 2


def test_a_commit_passes_over_every_lane() -> None:
    node = shop()
    publish(node, [NORMAL, CRITICAL, LOW] * 2000)
    poll(node, count=10)
    commit(node, 3000)

    assert sorted(offsets_of(drain(node))) == list(range(3000, 6000))


def test_after_a_restart_exactly_what_was_not_settled_comes_again() -> None:
    node = shop()
    publish(node, [NORMAL] * 6000 + [CRITICAL, LOW] * 500)
    poll(node, count=1)
    let_scouting_end(node)
    acked = poll(node, count=700)
    ack(node, *acked)
    poll(node, count=50)
    node.restart()
    join(node)

    found = offsets_of(drain(node))
    assert sorted(found + offsets_of(acked)) == list(range(7000))
    assert committed(node) == 7000


def test_after_a_restart_the_topic_still_has_its_lanes() -> None:
    node = shop()
    backlog(node, 20_000)
    publish(node, [CRITICAL])
    node.restart()
    join(node)
    poll(node, count=1)
    let_scouting_end(node)

    assert lanes_of(poll(node, count=1)) == [CRITICAL]


def test_a_group_that_is_put_back_gets_everything_again() -> None:
    node = shop()
    publish(node, MIXES[0])
    drain(node)
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)
    command = ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST)
    node.ask(command, PositionsReset)
    join(node)

    assert sorted(offsets_of(drain(node))) == list(range(len(MIXES[0])))


def test_a_critical_dead_letter_behind_many_others_comes_first_once_they_are_counted() -> None:
    node = shop()
    # A letter takes two offsets, and a block of the census is 4096 of them.
    for lane in [LOW] * 2100 + [CRITICAL]:
        publish(node, [lane])
        for delivery in poll(node):
            reject(node, delivery)
    join(node, group="letters", topics=(LETTERS.topic,))
    poll(node, group="letters", count=1)
    let_scouting_end(node)

    assert lanes_of(poll(node, group="letters", count=1)) == [CRITICAL]
