"""Clusters of real nodes under every fault: one leader, one history, nothing committed is lost."""

import pytest

from goqueue.sim import Trace
from goqueue.sim.cluster import QuorumRun
from tests.examples import IS_EXHAUSTIVE

SEEDS = range(40 if IS_EXHAUSTIVE else 15)


def lived(seed: int) -> tuple[QuorumRun, Trace]:
    trace = Trace()
    run = QuorumRun(seed, trace)
    run.live()
    return run, trace


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_promises_and_agrees_after_every_fault(seed: int) -> None:
    run, _ = lived(seed)

    assert len(run.checks.clusters) == 1
    assert run.checks.elections_total >= 1


def test_a_wiped_broker_votes_again_while_faults_go_on() -> None:
    run, _ = lived(38)

    assert run.rejoined_total == 1
    assert run.network.repeated_total > 0, "messages came again over later connections"
    assert run.client.acked_total > 0, "clients changed topics"


@pytest.mark.parametrize("seed", [2, 11, 231])
def test_a_seed_means_the_same_run_every_time(seed: int) -> None:
    assert lived(seed)[1].digest == lived(seed)[1].digest


def test_a_follower_that_fell_behind_the_start_of_the_log_begins_anew() -> None:
    """Seed 231: it had agreed in the same epoch, and ignored that it should."""
    run, _ = lived(231)

    assert run.checks.versions_total > 1


def test_a_voter_whose_disk_was_full_still_knows_the_epochs_of_its_log() -> None:
    """Its history of epochs was removed when a newer one found no space: it could not follow."""
    lived(1794969651049)


def test_a_broker_that_abstained_votes_when_its_cluster_is_committed() -> None:
    """It had the newest log and named no voters: the others could not be elected without it."""
    lived(1794979299000)


def test_a_broker_that_was_wiped_forms_no_second_cluster_with_one_that_was_cut_off() -> None:
    """The one cut off counted the third as blank, which it was when it was last connected."""
    run, _ = lived(1794979293477)

    assert len(run.checks.clusters) == 1


def test_a_change_of_a_leader_that_ended_while_it_was_proposed_is_not_confirmed() -> None:
    """The record of the next leader at the same version confirmed the deletion of a topic."""
    lived(713001068)


@pytest.mark.parametrize("seed", [4, 24, 93])
def test_a_cluster_is_formed_once_although_faults_begin_before_it_is(seed: int) -> None:
    """These worlds have no calm at their begin: brokers are cut off and die while they form one."""
    run, _ = lived(seed)

    assert len(run.checks.clusters) == 1


def test_a_leader_is_elected_in_time_although_old_heartbeats_come_again() -> None:
    """Each of those kept a voter loyal to a leader that had stepped down long ago."""
    lived(1797100000498)
