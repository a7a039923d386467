"""Which epoch leases belong to: that of their partition; on one node, the run of the node."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import TURN_UNITS, TurnBudget
from goqueue.log import Log, LogState, ReplicaRole
from goqueue.model import LogId, LogSettings
from goqueue.tracing import Tracer

HERE, THERE = LogId("orders", 0), LogId("orders", 1)


def node_state(incarnation: int) -> NodeState:
    state = NodeState("n1", Tracer(0.0), TurnBudget(TURN_UNITS))
    state.incarnation = incarnation
    for log in (HERE, THERE):
        state.partitions.add(Partition(log, Log(log, LogSettings(), LogState())))
    return state


@given(st.integers(1, 2**40))
def test_every_partition_of_a_standalone_node_has_the_epoch_of_its_run(incarnation: int) -> None:
    state = node_state(incarnation)
    assert (state.lease_epoch(HERE), state.lease_epoch(THERE)) == (incarnation, incarnation)
    assert state.lease_epoch(LogId("orders", 2)) is None


@given(st.integers(1, 9), st.lists(st.integers(0, 3), max_size=8), st.sampled_from(ReplicaRole))
def test_a_replicated_partition_has_its_leader_epoch_which_only_rises(
    incarnation: int, steps: list[int], role: ReplicaRole
) -> None:
    state = node_state(incarnation)
    log = state.partitions[HERE].log
    log.assume_role(ReplicaRole.LEADER, 1)
    seen = [state.lease_epoch(HERE) or 0]
    for step in steps:
        new_role = ReplicaRole.FOLLOWER if role is ReplicaRole.STANDALONE else role
        log.assume_role(new_role, log.replica.epoch + step)
        seen.append(state.lease_epoch(HERE) or 0)
    assert seen == sorted(seen)
    assert seen[-1] == 1 + sum(steps)
    assert state.lease_epoch(THERE) == incarnation, "another partition is in another epoch"
