"""Replicated partitions under every fault: what was acknowledged is on every copy, once."""

import pytest

from goqueue.cluster import PartitionState
from goqueue.model import MILLISECOND, SECOND, Code, Refused
from goqueue.model.requests import ElectLeader, LeaderElected, Reply
from goqueue.sim import Trace
from goqueue.sim.cluster import (
    FailoverRun,
    QuorumSwarm,
    ReplicationRun,
    ReplicationSwarm,
    RotRun,
)
from tests.examples import IS_EXHAUSTIVE

SEEDS = range(25 if IS_EXHAUSTIVE else 10)


def lived(seed: int) -> tuple[ReplicationRun, Trace]:
    trace = Trace()
    run = ReplicationRun(seed, trace)
    run.live()
    return run, trace


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_keep_what_was_acknowledged_whatever_fails(seed: int) -> None:
    run, _ = lived(seed)

    assert run.acked_total > 0


@pytest.mark.parametrize("seed", range(5))
def test_copies_keep_what_was_acknowledged_when_leaders_fail_at_the_worst_moments(
    seed: int,
) -> None:
    run = FailoverRun(seed, Trace())
    run.live()

    assert run.checks.leaders_total > 2


def test_a_follower_hears_the_last_high_watermark_though_its_question_was_repeated() -> None:
    """Seed 205: it came with an answer that fitted no longer, and the leader took it for told."""
    FailoverRun(205, Trace()).live()


@pytest.mark.parametrize("seed", [1_797_200_000_860, 1_797_200_000_944])
def test_a_follower_hears_the_last_high_watermark_with_records_that_it_has(seed: int) -> None:
    """They answered a question that came seconds late, and were taken for a repair."""
    FailoverRun(seed, Trace()).live()


def test_a_deletion_of_nothing_on_a_full_disk_leaves_a_log_that_follows() -> None:
    """It failed the log of a follower, which took nothing more until its broker started anew."""
    FailoverRun(1_797_200_001_304, Trace()).live()


def test_a_leader_that_begins_anew_is_replaced_though_another_copy_was_lost_meanwhile() -> None:
    """One record said both and named no leader, and no later one did."""
    lived(1_797_200_004_108)


def test_a_leader_whose_last_question_was_not_answered_does_not_say_that_a_sequence_has_a_gap() -> (
    None
):
    """Whoever it had asked to let join its ISR had joined, and led on."""
    FailoverRun(1_796_211_800_056, Trace()).live()


@pytest.mark.parametrize("seed", [2, 4])
def test_damage_on_one_disk_is_not_served_and_not_copied(seed: int) -> None:
    run = RotRun(seed, Trace())
    run.live()

    assert run.flipped_total > 0


@pytest.mark.parametrize("seed", [1_797_200_001_664, 1_797_200_001_672])
def test_a_repaired_copy_knows_the_producers_of_what_was_damaged(seed: int) -> None:
    """Damaged records were passed over and not folded again; a partition may also stay empty."""
    RotRun(seed, Trace()).live()


@pytest.mark.parametrize("seed", [1, 29])
def test_a_seed_means_the_same_run_every_time(seed: int) -> None:
    assert lived(seed)[1].digest == lived(seed)[1].digest


def test_a_full_leader_does_not_say_that_nothing_was_stored() -> None:
    """Seed 14: its followers had the batch, and the next leader committed it."""
    lived(14)


def test_a_deposed_leader_does_not_say_that_a_sequence_has_a_gap() -> None:
    """Seed 29: another broker had led on, and had what it lacked."""
    lived(29)


@pytest.mark.parametrize("seed", [4_000_488, 4_000_592])
def test_a_deletion_that_its_leader_did_not_pass_on_is_made_up_for(seed: int) -> None:
    """The next leader began earlier than a follower, or a follower heard of the start too early."""
    lived(seed)


def test_a_topic_created_during_a_sweep_is_not_swept_away() -> None:
    """Seed 4000285: the names were collected before the topic was created."""
    lived(4_000_285)


def test_power_loss_of_every_broker_loses_nothing_that_was_acknowledged() -> None:
    calm = dict.fromkeys(QuorumSwarm.__struct_fields__[1:], False)
    swarm = QuorumSwarm(brokers=3, **calm | {"blackouts": True})
    copies = ReplicationSwarm(
        replicas=3, minimum=2, fills=False, deletes=False, small_segments=False
    )
    for seed in range(3):
        run = ReplicationRun(seed, Trace(), swarm=swarm, copies=copies)
        run.live()

        assert run.acked_total > 0


def newest_state(run: ReplicationRun) -> PartitionState:
    """Partition 0 as the newest image shows it."""
    members = [machine.node.cluster for machine in run.machines]
    images = [each.metadata.image for each in members if each is not None and each.metadata]
    newest = max(images, key=lambda each: each.version)
    topic = newest.topic("orders")
    assert topic is not None
    state = newest.partition(topic.number, 0)
    assert state is not None
    return state


def test_with_late_flushes_a_copy_that_lost_its_tail_does_not_lead_while_another_can() -> None:
    calm = dict.fromkeys(QuorumSwarm.__struct_fields__[1:], False)
    copies = ReplicationSwarm(
        replicas=3,
        minimum=2,
        fills=False,
        deletes=False,
        small_segments=False,
        flushes_late=True,
    )
    run = ReplicationRun(2, Trace(), swarm=QuorumSwarm(brokers=3, **calm), copies=copies)
    processes = {each.name: each for each in run.processes}
    run.begin()
    run.create_topic()
    run.begin_publishing()
    run.advance(3 * SECOND)
    leader = processes[newest_state(run).leader or ""]
    crashed = next(each for each in run.processes if each is not leader)
    # It comes back without its tail, and cannot reach the leader to get it again.
    run.kill(crashed, loses_power=True)
    run.network.cut(crashed.address, leader.address)
    run.network.cut(leader.address, crashed.address)
    crashed.begin()
    while not newest_state(run).is_unsure(crashed.name):
        run.advance(10 * MILLISECOND)

    run.kill(leader, loses_power=False)
    run.advance(5 * SECOND)

    assert newest_state(run).leader not in {None, crashed.name}
    run.heal()
    run.advance(10 * SECOND)
    run.end_publishing()
    run.check_end()
    assert not newest_state(run).unsure
    assert not run.checks.unclean


def asked(run: ReplicationRun, command: ElectLeader) -> Reply | Refused:
    """The answer to an operator who asks a node that is not the controller."""
    members = [(each, each.node.cluster) for each in run.machines]
    machine = next(
        each
        for each, member in members
        if member is not None and member.metadata and not member.metadata.is_controller
    )
    request = machine.ask(command)
    while request not in machine.replies:
        run.advance(10 * MILLISECOND)
    return machine.replies[request]


def test_a_blank_copy_that_an_operator_elects_leads_and_the_other_cuts_what_it_lacks() -> None:
    calm = dict.fromkeys(QuorumSwarm.__struct_fields__[1:], False)
    copies = ReplicationSwarm(
        replicas=2, minimum=1, fills=False, deletes=False, small_segments=False
    )
    run = ReplicationRun(4, Trace(), swarm=QuorumSwarm(brokers=3, **calm), copies=copies)
    run.checks.may_lose = run.checks.loses_copies = True
    for publisher in run.publishers:
        publisher.may_lose = True
    processes = {each.name: each for each in run.processes}
    run.begin()
    run.create_topic()
    run.begin_publishing()
    run.advance(2 * SECOND)
    state = newest_state(run)
    leader = processes[state.leader or ""]
    blank = next(processes[name] for name in state.replicas if name != leader.name)
    run.kill(blank, loses_power=False)
    run.lose_log(blank.name, 0)
    run.advance(5 * SECOND)
    assert newest_state(run).isr == (leader.name,)
    elect = ElectLeader(topic="orders", partition=0, node=blank.name)
    refusal = asked(run, elect)
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.NODE_ALIVE

    run.kill(leader, loses_power=False)
    blank.begin()
    run.advance(6 * SECOND)
    assert newest_state(run).leader is None
    assert asked(run, elect) == LeaderElected(node=blank.name)
    run.advance(3 * SECOND)
    leader.begin()
    run.advance(10 * SECOND)
    run.end_publishing()

    state = newest_state(run)
    assert (state.unclean_epoch > 0, set(state.isr)) == (True, {leader.name, blank.name})
    run.check_end()


def test_leaders_export_what_replication_did() -> None:
    run, _ = lived(3)

    samples = {
        (machine.process.name, family.name, sample[0]): sample[1]
        for machine in run.machines
        for family in machine.node.metrics()
        if family.name.startswith("goqueue_cluster_")
        for sample in family.samples
        if sample is not None
    }

    def total(name: str) -> int:
        values = [value for (_, family, _), value in samples.items() if family == name]
        return sum(each for each in values if isinstance(each, int))

    assert total("goqueue_cluster_bytes_replicated_total") > 0
    assert total("goqueue_cluster_leader_elections_total") > 0
    assert any(family == "goqueue_cluster_replication_lag" for _, family, _ in samples)
    assert total("goqueue_cluster_replication_lag") == 0
