"""The simulated cluster with heartbeats only: what its links promise, under every fault."""

import pytest

from goqueue.cluster import LinkRefused, Offer, PeerRegistry, RefusalReason
from goqueue.model import PeerLane
from goqueue.sim.cluster import ClusterRun
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

SEEDS = range(40)
# Each planted fault is found within so many seeds; most within the first few.
PLANTED_SEEDS = range(200)


def live(seed: int, registry_type: type[PeerRegistry[object]] | None = None) -> Trace:
    trace = Trace()
    ClusterRun(seed, trace, registry_type=registry_type).live()
    return trace


@pytest.mark.parametrize("seed", SEEDS)
def test_links_keep_their_promises_and_come_back_after_every_fault(seed: int) -> None:
    assert len(live(seed)) > 1


def test_a_seed_means_the_same_run_every_time() -> None:
    assert [live(seed).digest for seed in range(4)] == [live(seed).digest for seed in range(4)]


class AcceptsStaleLives(PeerRegistry[object]):
    """Forgets which run of a broker was the newest."""

    def judge(self, offer: Offer) -> None:
        try:
            super().judge(offer)
        except LinkRefused as refused:
            if refused.reason != RefusalReason.INCARNATION_STALE:
                raise

    def add(self, offer: Offer, link: object) -> list[object]:
        self._lives.pop((offer.peer.broker, offer.peer.directory), None)
        present = self._links.pop((offer.peer.broker, offer.lane), None)
        super().add(offer, link)
        return [] if present is None else [present[1]]


class KeepsOtherLanes(PeerRegistry[object]):
    """Ends only the lane on which a newer run connects."""

    def _take_all(self, broker: str) -> list[object]:
        found = self._links.pop((broker, PeerLane.CONTROL), None)
        return [] if found is None else [found[1]]


class MixesDirectories(PeerRegistry[object]):
    """Lets a wiped broker connect beside the links of the old directory."""

    def judge(self, offer: Offer) -> None:
        try:
            super().judge(offer)
        except LinkRefused as refused:
            if refused.reason != RefusalReason.BROKER_ID_TAKEN:
                raise

    def _take_all(self, broker: str) -> list[object]:
        assert broker != self._own_broker
        return []


@pytest.mark.parametrize("planted", [AcceptsStaleLives, KeepsOtherLanes, MixesDirectories])
def test_a_planted_fault_in_the_rules_of_links_is_found(
    planted: type[PeerRegistry[object]],
) -> None:
    for seed in PLANTED_SEEDS:
        try:
            live(seed, planted)
        except (Violation, AssertionError):
            return
    pytest.fail(f"{planted.__name__} was not found in {len(PLANTED_SEEDS)} seeds")
