"""Runs of the whole node: new seeds, and those that once found a bug."""

import pytest

from goqueue.sim import NodeRun, Trace
from tests.examples import IS_EXHAUSTIVE
from tests.simulation.replays import replay
from tests.simulation.tight import tighten

_SEEDS_PER_TEST = 25
# Beside as many that nobody has run before (test_fresh_seeds.py).
_TESTS = 40 if IS_EXHAUSTIVE else 1
_FIRST_TIGHT = 200
_LONG_LIVES = 60 if IS_EXHAUSTIVE else 1

# Each of these found a mistake that was made, or planted, once: before there were delays and lanes,
# and since then with limits that short runs meet.
_KEPT = (259, 1498, 1883, 4972, 20128, 20444, 20671)
_KEPT_TIGHT = (56,)
# A receive that created its group again after the deletion.
_KEPT_RECEIVING = (1_794_882_732_074,)
# Two acks of one message on their way while it was delivered again between them.
_KEPT_ACKS = (713_002_735,)
# An answer to a pause that came when the schedule was to be resumed already.
_KEPT_SCHEDULES = (1_794_886_704_199,)
# A rename on the simulated disk that reached a later directory of the same name.
_KEPT_TIGHT_WHOLE = (1_794_806_000_510,)
# With transactions: leases that outlived their member, a sweep that was not durable, delays that
# were announced by somebody else's announcement, a batch of which a crash left a part. Then: a lag
# counted while its group was deleted, a sweep that a crash cut short, a sync that commits hundreds,
# a transaction whose marker went to a log that failed and was deleted, a statement that asked for
# its turn without end, turns that a sync made long, a poll answered from a topic of the same name,
# an ack of a dead letter that the group had committed past, a timeout told before it was durable,
# a nack between the decision and the last step of a commit, a join asked before the machine slept,
# a message sent when its transaction was over, before the second answer to its commit, a delayed
# message whose marker a power cut took.
_KEPT_WHOLE = (
    *(229, 1029, 2058, 3052, 9_000_929, 9_500_034),
    *(1_794_802_001_031, 1_794_802_001_628, 1_794_802_002_916, 1_794_802_003_212),
    *(1_794_802_004_092, 1_794_804_000_575, 1_794_812_000_151, 1_794_812_000_911),
    *(1_794_816_000_325, 1_794_816_000_699, 1_794_818_004_591, 1_794_820_000_219),
    *(1_794_822_002_413, 1_794_824_001_835, 1_794_826_000_446, 1_794_840_002_421),
    1_794_842_002_896,
)


# With cooperative groups: a receive that formed a deleted group anew, transactions whose holders
# were silent for too long and then heard, leases of a member that was replaced twice.
_KEPT_COOPERATIVE = (33, 261, 1_000_641, 1_002_115, 2_000_717, 3_000_716)


@pytest.mark.parametrize("seed", _KEPT_COOPERATIVE)
def test_a_seed_of_cooperative_groups_that_found_a_mistake_finds_none(seed: int) -> None:
    trace = Trace()
    NodeRun(seed, trace, has_cooperation=True).live()
    assert len(trace) > 100


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_seed_breaks_a_promise_of_the_node(block: int) -> None:
    first = block * _SEEDS_PER_TEST

    for seed in range(first, first + _SEEDS_PER_TEST):
        trace = Trace()
        NodeRun(seed, trace).live()
        assert len(trace) > 100, "a run that does nothing proves nothing"


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_seed_breaks_a_promise_of_a_node_with_tight_limits(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tighten(monkeypatch)
    first = _FIRST_TIGHT + block * _SEEDS_PER_TEST

    for seed in range(first, first + _SEEDS_PER_TEST):
        trace = Trace()
        NodeRun(seed, trace).live()
        assert len(trace) > 100, "a run that does nothing proves nothing"


@pytest.mark.parametrize("seed", _KEPT)
def test_a_seed_that_once_found_a_bug_of_the_node_finds_none(seed: int) -> None:
    trace = Trace()

    NodeRun(seed, trace, is_plain=True).live()

    assert len(trace) > 0


@pytest.mark.parametrize("seed", _KEPT_WHOLE)
def test_a_seed_that_once_found_a_bug_with_transactions_finds_none(seed: int) -> None:
    trace = Trace()

    NodeRun(seed, trace, has_receives=False).live()

    assert len(trace) > 0


@pytest.mark.parametrize("seed", _KEPT_TIGHT)
def test_a_seed_that_once_found_a_bug_under_tight_limits_finds_none(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tighten(monkeypatch)
    trace = Trace()

    NodeRun(seed, trace, has_transactions=False, has_receives=False).live()

    assert len(trace) > 0


@pytest.mark.parametrize("seed", range(_LONG_LIVES))
def test_a_long_life_of_a_node_breaks_no_promise(seed: int) -> None:
    trace = Trace()

    NodeRun(seed, trace, steps=1500).live()

    assert len(trace) > 1000


@pytest.mark.parametrize("seed", range(12 if IS_EXHAUSTIVE else 4))
def test_a_jumping_wall_clock_changes_no_outcome(seed: int) -> None:
    steady = NodeRun(seed, Trace(), jumps_clock=False)
    jumping = NodeRun(seed, Trace(), jumps_clock=True)

    steady.live()
    jumping.live()

    assert jumping.outcomes == steady.outcomes


@pytest.mark.parametrize("seed", [3, pytest.param(25, marks=pytest.mark.long)])
def test_a_seed_of_the_node_replays_exactly_whatever_the_hash_seed(seed: int) -> None:
    first = replay("node", seed, "1")

    assert first == replay("node", seed, "4242")
    assert "hash " in first
    assert first != replay("node", seed + 1, "1")


@pytest.mark.parametrize("seed", _KEPT_TIGHT_WHOLE)
def test_a_seed_that_once_found_a_bug_with_transactions_under_tight_limits_finds_none(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tighten(monkeypatch)
    trace = Trace()

    NodeRun(seed, trace, has_receives=False).live()

    assert len(trace) > 0


@pytest.mark.parametrize("seed", _KEPT_RECEIVING)
def test_a_seed_that_once_found_a_bug_of_receives_finds_none(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tighten(monkeypatch)
    trace = Trace()

    NodeRun(seed, trace).live()

    assert len(trace) > 0


@pytest.mark.parametrize("seed", _KEPT_SCHEDULES)
def test_a_seed_that_once_misjudged_a_schedule_finds_nothing(seed: int) -> None:
    trace = Trace()

    NodeRun(seed, trace, has_schedules=True).live()

    assert len(trace) > 0


@pytest.mark.parametrize("seed", _KEPT_ACKS)
def test_a_seed_that_once_misjudged_an_ack_finds_nothing(seed: int) -> None:
    trace = Trace()

    NodeRun(seed, trace).live()

    assert len(trace) > 0
