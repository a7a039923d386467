"""Who gets which partitions: properties of range, round robin and sticky."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups import assign
from goqueue.model import LogId
from goqueue.model.requests import Assignor

TOPICS = ("a", "b", "c")
PARTITIONS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12))
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]),
    st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True).map(tuple),
    min_size=1,
)
ASSIGNORS = st.sampled_from(Assignor)

Shares = dict[str, tuple[LogId, ...]]


def logs_of(subscriptions: dict[str, tuple[str, ...]], partitions: dict[str, int]) -> list[LogId]:
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    return [LogId(topic, n) for topic in sorted(wanted) for n in range(partitions.get(topic, 0))]


def sizes(shares: Shares) -> list[int]:
    return [len(logs) for logs in shares.values()]


def owners(shares: Shares) -> dict[LogId, str]:
    return {log: member for member, logs in shares.items() for log in logs}


@given(ASSIGNORS, SUBSCRIPTIONS, PARTITIONS, SUBSCRIPTIONS, PARTITIONS)
def test_every_partition_has_exactly_one_owner_who_subscribed_to_it(
    assignor: Assignor,
    subscriptions: dict[str, tuple[str, ...]],
    partitions: dict[str, int],
    earlier: dict[str, tuple[str, ...]],
    earlier_partitions: dict[str, int],
) -> None:
    previous = assign(assignor, earlier, earlier_partitions, {})
    shares = assign(assignor, subscriptions, partitions, previous)

    assert sorted(shares) == sorted(subscriptions)
    given_out = [log for logs in shares.values() for log in logs]
    assert sorted(given_out) == logs_of(subscriptions, partitions)
    for member, logs in shares.items():
        assert list(logs) == sorted(logs)
        assert {log.topic for log in logs} <= set(subscriptions[member])


@given(ASSIGNORS, SUBSCRIPTIONS, PARTITIONS)
def test_an_assignment_does_not_depend_on_the_order_of_members(
    assignor: Assignor, subscriptions: dict[str, tuple[str, ...]], partitions: dict[str, int]
) -> None:
    backwards = dict(reversed(subscriptions.items()))

    assert assign(assignor, subscriptions, partitions, {}) == assign(
        assignor, backwards, partitions, {}
    )


@given(SUBSCRIPTIONS, PARTITIONS)
def test_range_gives_each_topic_in_even_runs_and_the_extra_to_the_first(
    subscriptions: dict[str, tuple[str, ...]], partitions: dict[str, int]
) -> None:
    shares = assign(Assignor.RANGE, subscriptions, partitions, {})
    for topic in TOPICS:
        takers = [member for member in sorted(subscriptions) if topic in subscriptions[member]]
        runs = [[log.partition for log in shares[each] if log.topic == topic] for each in takers]
        counts = [len(run) for run in runs]
        assert counts == sorted(counts, reverse=True)
        assert max(counts, default=0) - min(counts, default=0) <= 1
        flat = [number for run in runs for number in run]
        assert flat == sorted(flat)


@given(st.sampled_from([Assignor.ROUND_ROBIN, Assignor.STICKY]), st.integers(1, 6), PARTITIONS)
def test_members_with_the_same_topics_have_nearly_the_same_number_over_all_of_them(
    assignor: Assignor, count: int, partitions: dict[str, int]
) -> None:
    subscriptions = {f"m{number}": TOPICS for number in range(count)}
    shares = assign(assignor, subscriptions, partitions, {})

    assert max(sizes(shares)) - min(sizes(shares)) <= 1


@given(SUBSCRIPTIONS, PARTITIONS, SUBSCRIPTIONS, PARTITIONS)
def test_no_partition_of_a_sticky_assignment_could_move_to_make_it_more_even(
    subscriptions: dict[str, tuple[str, ...]],
    partitions: dict[str, int],
    earlier: dict[str, tuple[str, ...]],
    earlier_partitions: dict[str, int],
) -> None:
    previous = assign(Assignor.STICKY, earlier, earlier_partitions, {})
    shares = assign(Assignor.STICKY, subscriptions, partitions, previous)
    for member, logs in shares.items():
        for log in logs:
            for other, topics in subscriptions.items():
                if log.topic in topics:
                    assert len(shares[other]) + 1 >= len(logs), (member, log, other)


@given(SUBSCRIPTIONS, PARTITIONS)
def test_a_sticky_assignment_with_no_change_stays_as_it_is(
    subscriptions: dict[str, tuple[str, ...]], partitions: dict[str, int]
) -> None:
    shares = assign(Assignor.STICKY, subscriptions, partitions, {})

    assert assign(Assignor.STICKY, subscriptions, partitions, shares) == shares


@given(st.integers(2, 6), st.integers(0, 30))
def test_a_member_that_leaves_a_sticky_group_moves_only_its_own_partitions(
    count: int, partitions: int
) -> None:
    subscriptions = {f"m{number}": ("a",) for number in range(count)}
    before = assign(Assignor.STICKY, subscriptions, {"a": partitions}, {})
    del subscriptions["m1"]
    after = assign(Assignor.STICKY, subscriptions, {"a": partitions}, before)

    for log, owner in owners(before).items():
        if owner != "m1":
            assert owners(after)[log] == owner


@given(st.integers(1, 6), st.integers(0, 30))
def test_a_member_that_joins_a_sticky_group_takes_no_more_than_its_share(
    count: int, partitions: int
) -> None:
    subscriptions = {f"m{number}": ("a",) for number in range(count)}
    before = assign(Assignor.STICKY, subscriptions, {"a": partitions}, {})
    subscriptions["new"] = ("a",)
    after = assign(Assignor.STICKY, subscriptions, {"a": partitions}, before)

    moved = [log for log, owner in owners(after).items() if owners(before)[log] != owner]
    assert sorted(moved) == sorted(after["new"])
    assert len(moved) <= -(-partitions // (count + 1))


def test_round_robin_goes_on_over_the_end_of_a_topic() -> None:
    shares = assign(
        Assignor.ROUND_ROBIN, {"m1": ("a", "b"), "m2": ("a", "b")}, {"a": 3, "b": 3}, {}
    )

    assert [str(log) for log in shares["m1"]] == ["a-0", "a-2", "b-1"]
    assert [str(log) for log in shares["m2"]] == ["a-1", "b-0", "b-2"]


def test_topics_that_do_not_exist_have_no_partitions() -> None:
    for assignor in Assignor:
        assert assign(assignor, {"m1": ("absent",)}, {}, {}) == {"m1": ()}


@pytest.mark.parametrize("assignor", list(Assignor))
def test_thousands_of_members_and_partitions_are_assigned_without_a_square_of_work(
    assignor: Assignor,
) -> None:
    subscriptions = {f"m{number:04}": ("a",) for number in range(3000)}
    before = assign(assignor, subscriptions, {"a": 6000}, {})
    subscriptions["new"] = ("a",)
    after = assign(assignor, subscriptions, {"a": 6000}, before)

    assert sum(sizes(after)) == 6000
