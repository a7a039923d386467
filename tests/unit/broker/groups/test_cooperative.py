"""Cooperative groups on a node: only partitions that move are interrupted."""

import msgspec
import pytest

from goqueue.model import SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    CommitOffsets,
    CooperativeBeat,
    CooperativeHeartbeat,
    DescribeAssignment,
    DescribeGroup,
    DescribeRebalances,
    Done,
    GroupDescription,
    GroupProtocol,
    GroupState,
    Heartbeat,
    Join,
    Joined,
    Leased,
    Leave,
    MemberAssignment,
    Offsets,
    Poll,
    Rebalances,
    RebalanceState,
    RevocationConfirmed,
    RevokePartitions,
)
from tests.unit.broker import users
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ack_code, begin_poll, code_of, create, poll, publish, values

PARTITIONS = 4


def shop() -> DrivenNode:
    node = DrivenNode()
    create(node, partitions=PARTITIONS)
    return node


def join(node: DrivenNode, client: str, **more: object) -> Joined:
    command = Join(
        group="shop",
        client_id=client,
        topics=("orders",),
        token=f"{client}00",
        protocol=GroupProtocol.COOPERATIVE,
    )
    return node.ask(msgspec.structs.replace(command, **more), Joined)


def id_of(client: str) -> str:
    return f"{client}-{client}00"


def heartbeat(client: str, generation: int, wait_ns: int = 0) -> CooperativeHeartbeat:
    return CooperativeHeartbeat(
        group="shop", member_id=id_of(client), generation=generation, wait_ns=wait_ns
    )


def beat(node: DrivenNode, client: str, generation: int = 1) -> CooperativeBeat:
    return node.ask(heartbeat(client, generation), CooperativeBeat)


def revoke(node: DrivenNode, client: str, told: CooperativeBeat) -> RevocationConfirmed:
    command = RevokePartitions(
        group="shop", member_id=id_of(client), generation=told.generation, logs=told.to_revoke
    )
    return node.ask(command, RevocationConfirmed)


def commit(node: DrivenNode, client: str, log: LogId, generation: int) -> Code | None:
    command = CommitOffsets(
        group="shop",
        member_id=id_of(client),
        generation=generation,
        offsets={log: Offset(0)},
    )
    try:
        node.ask(command, Offsets)
    except Refused as refused:
        return refused.code
    return None


def stats(node: DrivenNode) -> Rebalances:
    return node.ask(DescribeRebalances(group="shop"), Rebalances)


def publish_everywhere(node: DrivenNode, value: str) -> None:
    publish(node, *[value] * PARTITIONS, targets=list(range(PARTITIONS)))


def two_members() -> tuple[DrivenNode, CooperativeBeat]:
    """The second has joined; the first was told what to give up."""
    node = shop()
    join(node, "c1")
    beat(node, "c1", 0)
    join(node, "c2")
    return node, beat(node, "c1")


def test_a_join_moves_half_of_the_partitions_once_they_are_given_up() -> None:
    node, told = two_members()
    assert told.is_rebalance_required
    assert len(told.to_revoke) == 2
    assert len(told.assigned) == PARTITIONS
    assert told.revocation_deadline is not None
    assert told.state is GroupState.REBALANCING
    waiting = beat(node, "c2")
    assert (waiting.generation, waiting.assigned) == (1, ())

    confirmed = revoke(node, "c1", told)
    assert confirmed.pending_count == 0
    assert confirmed.rebalance_state is RebalanceState.PENDING_ASSIGN

    assert set(beat(node, "c2").assigned) == set(told.to_revoke)
    after = beat(node, "c1")
    assert (after.generation, after.to_revoke) == (2, ())
    assert set(after.assigned) == set(told.assigned) - set(told.to_revoke)
    assert beat(node, "c1", 2).state is GroupState.STABLE


def test_the_last_member_that_is_told_hears_that_the_rebalance_is_complete() -> None:
    node, told = two_members()
    revoke(node, "c1", told)

    states = [beat(node, client).rebalance_state for client in ("c2", "c1")]
    assert states == [RebalanceState.PENDING_ASSIGN, RebalanceState.COMPLETE]
    assert beat(node, "c1", 2).rebalance_state is RebalanceState.NONE


def test_partitions_that_stay_are_polled_and_committed_by_a_member_that_knows_nothing() -> None:
    node, told = two_members()
    stays = [log for log in told.assigned if log not in told.to_revoke]
    publish_everywhere(node, "a")
    revoke(node, "c1", told)

    found = node.ask(Poll(group="shop", member_id=id_of("c1"), generation=1), Leased)

    assert sorted(share.log for share in found.partitions) == sorted(stays)
    assert [commit(node, "c1", log, 1) for log in stays] == [None, None]
    assert commit(node, "c1", told.to_revoke[0], 1) is Code.PARTITION_NOT_ASSIGNED


def test_while_revoking_a_member_commits_and_acks_all_that_it_owns() -> None:
    node = shop()
    join(node, "c1")
    publish_everywhere(node, "a")
    held = poll(node, client="c1")
    join(node, "c2")
    told = beat(node, "c1")

    assert [commit(node, "c1", log, 1) for log in told.assigned] == [None] * PARTITIONS
    assert [ack_code(node, each) for each in held[:2]] == [None, None]
    revoke(node, "c1", told)
    assert [ack_code(node, each) for each in held[2:]] == [None, None]


def test_nothing_more_is_leased_from_what_is_being_revoked() -> None:
    node, told = two_members()
    publish_everywhere(node, "a")

    assert sorted(each.log for each in poll(node, client="c1")) == sorted(
        set(told.assigned) - set(told.to_revoke)
    )
    assert poll(node, client="c2") == []


def test_leases_of_a_moved_partition_run_on() -> None:
    node = shop()
    join(node, "c1")
    publish_everywhere(node, "a")
    held = poll(node, client="c1", visibility_ns=300 * SECOND)
    join(node, "c2")
    revoke(node, "c1", beat(node, "c1"))
    publish_everywhere(node, "b")

    assert values(poll(node, client="c2")) == ["b", "b"]
    assert [ack_code(node, each) for each in held] == [None] * PARTITIONS


def test_a_change_ends_the_waiting_polls_of_members_that_must_act_and_of_no_others() -> None:
    node = shop()
    join(node, "c1")
    beat(node, "c1", 0)
    first = begin_poll(node, client="c1")
    join(node, "c2")
    assert node.reply(first, Leased).is_rebalance_required

    second = begin_poll(node, client="c1")
    waiting = begin_poll(node, client="c2")
    revoke(node, "c1", beat(node, "c1"))
    assert not node.reply(second, Leased).partitions
    assert node.reply(waiting, Leased).is_rebalance_required
    beat(node, "c1"), beat(node, "c2")
    third = begin_poll(node, client="c1")
    node.advance(SECOND)
    assert not node.is_answered(third)


def test_a_waiting_heartbeat_is_answered_by_a_change() -> None:
    node = shop()
    join(node, "c1")
    beat(node, "c1", 0)
    waiting = node.begin(heartbeat("c1", 1, 20 * SECOND))
    node.advance(SECOND)
    assert not node.is_answered(waiting)
    join(node, "c2")

    told = node.reply(waiting, CooperativeBeat)
    assert len(told.to_revoke) == 2
    again = node.begin(heartbeat("c1", 1, 20 * SECOND))
    assert not node.is_answered(again)
    revoke(node, "c1", told)
    assert node.reply(again, CooperativeBeat).generation == 2


def test_a_heartbeat_after_the_poll_that_asked_for_it_does_not_wait() -> None:
    node = shop()
    join(node, "c1")
    beat(node, "c1", 0)
    waiting = begin_poll(node, client="c1")
    join(node, "c2")
    assert node.reply(waiting, Leased).is_rebalance_required

    asked = node.begin(heartbeat("c1", 1, 20 * SECOND))
    assert len(node.reply(asked, CooperativeBeat).to_revoke) == 2


def test_a_waiting_heartbeat_keeps_its_member_and_ends_in_time() -> None:
    node = shop()
    join(node, "c1", session_ns=3 * SECOND)
    beat(node, "c1", 0)
    waiting = node.begin(heartbeat("c1", 1, 10 * SECOND))
    for _ in range(11):
        node.advance(SECOND)

    assert not node.reply(waiting, CooperativeBeat).is_rebalance_required


def test_a_revocation_that_is_not_confirmed_in_time_is_forced() -> None:
    node, told = two_members()
    for _ in range(6):
        node.advance(9 * SECOND)
        beat(node, "c1"), beat(node, "c2")
    assert beat(node, "c2").assigned == ()
    node.advance(7 * SECOND)

    assert set(beat(node, "c2").assigned) == set(told.to_revoke)
    assert commit(node, "c1", told.to_revoke[0], 1) is Code.PARTITION_NOT_ASSIGNED
    assert beat(node, "c1").generation == 2
    assert stats(node).revocation_timeouts == 2
    assert (stats(node).succeeded, stats(node).failed) == (1, 1)


def test_a_member_that_leaves_while_it_revokes_frees_everything() -> None:
    node, _ = two_members()
    node.ask(Leave(group="shop", member_id=id_of("c1")), Done)

    assert len(beat(node, "c2").assigned) == PARTITIONS


def test_a_restart_keeps_what_was_given_up_and_what_was_not() -> None:
    node, told = two_members()
    join(node, "c3")
    partly = beat(node, "c1")
    one = RevokePartitions(
        group="shop", member_id=id_of("c1"), generation=1, logs=partly.to_revoke[:1]
    )
    pending = node.ask(one, RevocationConfirmed).pending_count
    assert pending == len(partly.to_revoke) - 1
    node.restart()

    again = beat(node, "c1")
    assert again.to_revoke == partly.to_revoke[1:]
    assert len(again.assigned) == PARTITIONS - 1
    assert set(told.to_revoke) <= set(partly.to_revoke)
    revoke(node, "c1", again)
    assigned = [*beat(node, "c2").assigned, *beat(node, "c3").assigned]
    assert sorted(assigned) == sorted(partly.to_revoke)
    node.restart()
    assert sorted([*beat(node, "c2").assigned, *beat(node, "c3").assigned]) == sorted(assigned)


def test_deadlines_start_again_after_a_restart() -> None:
    node, told = two_members()
    node.advance(20 * SECOND)
    beat(node, "c1"), beat(node, "c2")
    node.restart()
    for _ in range(5):
        node.advance(10 * SECOND)
        beat(node, "c1"), beat(node, "c2")
    assert beat(node, "c2").assigned == ()
    node.advance(11 * SECOND)
    assert set(beat(node, "c2").assigned) == set(told.to_revoke)


def test_a_static_member_takes_over_partitions_and_leases_without_a_rebalance() -> None:
    node = shop()
    join(node, "c1", instance_id="i1")
    publish_everywhere(node, "a")
    beat(node, "c1", 0)
    held = poll(node, client="c1")
    waiting = begin_poll(node, client="c1")
    joined = join(node, "c9", instance_id="i1")

    assert joined.generation == 1
    assert len(beat(node, "c9").assigned) == PARTITIONS
    with pytest.raises(Refused) as refused:
        node.reply(waiting, Leased)
    assert refused.value.code is Code.MEMBER_NOT_FOUND
    assert refused.value.facts["instance_id"] == "i1"
    assert poll(node, client="c9") == []
    described = node.ask(DescribeGroup(group="shop"), GroupDescription)
    assert [each.in_flight for each in described.members] == [PARTITIONS]
    assert [ack_code(node, each) for each in held] == [None] * PARTITIONS
    assert stats(node).count == 1


def test_a_group_of_one_protocol_is_closed_to_the_other() -> None:
    node = shop()
    join(node, "c1")

    with pytest.raises(Refused) as joining:
        users.join(node, client="c2")
    assert code_of(joining.value) is Code.GROUP_MISMATCH
    with pytest.raises(Refused) as beating:
        node.ask(Heartbeat(group="shop", member_id=id_of("c1"), generation=1), Done)
    assert code_of(beating.value) is Code.GROUP_MISMATCH


def test_a_revocation_needs_the_generation_and_the_partition() -> None:
    node, told = two_members()
    log = told.to_revoke[0]
    for client, generation, code in (
        ("c1", 0, Code.GENERATION_STALE),
        ("c2", 1, Code.PARTITION_NOT_ASSIGNED),
        ("c7", 1, Code.MEMBER_NOT_FOUND),
    ):
        command = RevokePartitions(
            group="shop", member_id=id_of(client), generation=generation, logs=(log,)
        )
        with pytest.raises(Refused) as refused:
            node.ask(command, RevocationConfirmed)
        assert code_of(refused.value) is code


def test_a_member_without_partitions_yet_is_told_so() -> None:
    node, told = two_members()
    asked = DescribeAssignment(group="shop", member_id=id_of("c2"))
    with pytest.raises(Refused) as refused:
        node.ask(asked, MemberAssignment)
    assert code_of(refused.value) is Code.REBALANCE_IN_PROGRESS
    revoke(node, "c1", told)

    assert set(node.ask(asked, MemberAssignment).assigned) == set(told.to_revoke)


def test_rebalances_are_counted_when_every_member_was_told() -> None:
    node, told = two_members()
    node.advance(SECOND)
    revoke(node, "c1", told)
    beat(node, "c1")
    assert (stats(node).count, stats(node).succeeded) == (2, 1)
    beat(node, "c2")

    found = stats(node)
    assert (found.count, found.succeeded, found.failed) == (2, 2, 0)
    assert (found.partitions_revoked, found.partitions_assigned) == (2, PARTITIONS + 2)
    assert found.last_duration_ns >= SECOND
    assert found.by_reason == {"join": 2}
    assert node.ask(DescribeRebalances(), Rebalances) == found


def test_more_partitions_are_assigned_without_a_pause_of_the_others() -> None:
    node, told = two_members()
    revoke(node, "c1", told)
    beat(node, "c1"), beat(node, "c2")
    create(node, "more", partitions=1)
    more = {"topics": ("orders", "more"), "member_id": id_of("c1")}
    joined = join(node, "c1", **more)

    assert joined.generation == 3
    assert len(beat(node, "c1", 3).assigned) == 3
    stays = [log for log in told.assigned if log not in told.to_revoke]
    assert [commit(node, "c1", log, 1) for log in stays] == [None, None]
