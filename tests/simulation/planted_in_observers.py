"""Faults planted into the copies that a coordinator observes, one at a time."""

from typing import Any

import pytest

from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_OBSERVERS"]

_LEADER = "goqueue.broker.replication.partition_leader.PartitionLeader"
_ROLES = "goqueue.broker.replication.log_roles.LogRoles"


def counts_an_observer_as_a_replica(patch: pytest.MonkeyPatch) -> None:
    acknowledged = attribute(f"{_LEADER}.acknowledged")

    def generous(leader: Any, who: Any, ack: Any, broker_epoch: int, now: Any) -> None:
        acknowledged(leader, who, ack, broker_epoch, now)
        if leader.progress(who.broker) is None:
            for progress in leader._progress.values():
                progress.hold(ack.durable, progress.broker_epoch, leader.log.end, now)

    patch.setattr(f"{_LEADER}.acknowledged", generous)


def sends_observers_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_LEADER}._sent_below", lambda leader, _: leader.log.end)


def keeps_observing_when_another_coordinates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_ROLES}.end_observing", lambda *_: None)


PLANTED_IN_OBSERVERS: tuple[Plant, ...] = (
    counts_an_observer_as_a_replica,
    sends_observers_what_is_not_committed,
    keeps_observing_when_another_coordinates,
)
