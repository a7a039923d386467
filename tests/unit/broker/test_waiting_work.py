"""What a commit or an ack costs while many polls wait: it visits those that it may serve alone.

Counted in units of work per turn, never in time.
"""

from goqueue.broker.turns import TURN_UNITS
from goqueue.groups import Groups
from goqueue.model import SECOND, Instant, LogId, Now, RequestId, Timestamp
from goqueue.model.requests import Join, Leased, Mode
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ack,
    begin_poll,
    create,
    deliveries,
    join,
    poll,
    polled,
    publish,
    values,
)

NOW = Now(Instant(0), Timestamp(0))


def crowd(members: int, partitions: int, mode: Mode) -> tuple[DrivenNode, list[RequestId]]:
    """A group whose members all wait at the end of a topic."""
    node = DrivenNode()
    create(node, partitions=partitions)
    for number in range(members):
        join(node, client=f"c{number}", mode=mode, session_ns=600 * SECOND)
    return node, [begin_poll(node, client=f"c{number}") for number in range(members)]


def test_a_commit_visits_one_partition_of_one_poll_however_many_wait() -> None:
    node, polls = crowd(members=60, partitions=40, mode=Mode.SHARED)
    node.turn_units_max = 0

    publish(node, "a", targets=[3])

    assert node.turn_units_max < 20
    assert polled(node, polls[0]) == ["a"]
    assert not any(map(node.is_answered, polls[1:]))


def test_a_commit_to_a_partition_wakes_its_owner_alone() -> None:
    node, polls = crowd(members=20, partitions=20, mode=Mode.PARTITIONED)
    node.turn_units_max = 0

    publish(node, "a", targets=[7])

    assert node.turn_units_max < 20
    assert sum(map(node.is_answered, polls)) == 1


def test_an_ack_visits_no_poll_that_waits_for_other_partitions() -> None:
    node, _ = crowd(members=30, partitions=30, mode=Mode.PARTITIONED)
    join(node, group="other", client="m", topics=["orders"])
    publish(node, "a", targets=[7])
    (held,) = poll(node, group="other", client="m")
    node.turn_units_max = 0

    ack(node, held)

    assert node.turn_units_max < 20


def test_polls_of_many_groups_are_woken_in_turns_that_are_bounded() -> None:
    node = DrivenNode()
    create(node)
    polls = []
    for number in range(1200):
        join(node, group=f"g{number}", session_ns=600 * SECOND)
        polls.append(begin_poll(node, group=f"g{number}", wait_ns=60 * SECOND))
    node.turn_units_max = 0

    publish(node, "a")

    assert all(values(deliveries(node.reply(each, Leased))) == ["a"] for each in polls)
    assert node.turn_units_max <= TURN_UNITS * 5 // 4


def test_a_message_in_each_partition_comes_in_one_answer() -> None:
    node, (waiting,) = crowd(members=1, partitions=5, mode=Mode.SHARED)
    node.reads_are_late = True
    publish(node, "a", "b", "c", targets=[0, 2, 4])
    assert not node.is_answered(waiting)
    node.finish_reads()

    assert sorted(polled(node, waiting)) == ["a", "b", "c"]


def test_a_rebalance_looks_at_partitions_that_all_members_share_once() -> None:
    node, polls = crowd(members=30, partitions=30, mode=Mode.SHARED)
    node.turn_units_max = 0

    join(node, client="late", mode=Mode.SHARED)

    assert node.turn_units_max < 30 + 30 + 20
    assert not any(map(node.is_answered, polls))


def test_members_that_share_all_partitions_share_one_tuple_of_them() -> None:
    groups = Groups()
    kept: list[tuple[LogId, ...]] = []
    for number in range(3):
        command = Join(
            group="g", client_id=f"c{number}", topics=("t",), token=f"{number}", mode=Mode.SHARED
        )
        _, stated = groups.join(command, {"t": 50}, NOW)
        assert stated is not None
        assert len({id(member.assigned) for member in stated.members}) == 1
        group = groups.apply(stated)
        assert group is not None
        kept += [group.assigned(member) for member in group.members]

    assert len({id(logs) for logs in kept}) == 1
