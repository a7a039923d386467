"""Clusters that keep their metadata in an external store, under every fault of it and of them."""

import pytest

from goqueue.sim import Trace
from goqueue.sim.cluster import StoreRun
from tests.examples import IS_EXHAUSTIVE

SEEDS = range(60 if IS_EXHAUSTIVE else 10)


def lived(seed: int) -> tuple[StoreRun, Trace]:
    trace = Trace()
    run = StoreRun(seed, trace)
    run.live()
    return run, trace


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_over_a_store_keeps_its_promises_and_agrees_after_every_fault(seed: int) -> None:
    run, _ = lived(seed)

    assert len(run.checks.clusters) == 1
    assert run.checks.elections_total >= 1


def test_a_seed_means_the_same_run_every_time() -> None:
    assert lived(3)[1].digest == lived(3)[1].digest


def test_runs_meet_what_is_hard() -> None:
    """Lost calls, records in parts, logs that begin anew, and backups that nobody builds on."""
    runs = [lived(seed)[0] for seed in (0, 23)]

    assert sum(run.etcd.lost_total for run in runs) > 0
    assert sum(run.checks.parts_total for run in runs) > 0
    assert sum(run.checks.bases_total for run in runs) > 0
    assert sum(run.restored_total for run in runs) > 0
    assert sum(run.client.acked_total for run in runs) > 0


def test_a_late_reply_to_a_proposal_of_an_earlier_epoch_says_nothing_of_this_one() -> None:
    """It was taken for that of the proposal at the same version, which was then never written."""
    lived(1)
