"""Elections and ISRs: only live members lead, and whoever may lead has all that is committed."""

from itertools import product

import pytest

from goqueue.cluster import (
    FollowerProgress,
    IsrChanged,
    IsrMember,
    PartitionId,
    PartitionsAssigned,
    PartitionTable,
    ReplicaAssignment,
    TopicStated,
    check_isr_change,
    committed_end,
    elect_leaders,
    wanted_isr,
)
from goqueue.model import SECOND, Instant, Offset
from goqueue.model.requests import TopicConfig

BROKERS = ("a", "b", "c")
WHERE = PartitionId(1, 0)


def table_with(isr: tuple[str, ...] = BROKERS, leader: str | None = "a") -> PartitionTable:
    table = PartitionTable()
    config = TopicConfig(replication_factor=3)
    topic = TopicStated(name="orders", number=1, partitions=1, config=config, created_at=1)
    table.apply(topic, 1)
    table.apply(
        PartitionsAssigned(topic=1, partitions=(ReplicaAssignment(BROKERS, leader or "a"),)), 2
    )
    members = tuple(IsrMember(each, 1) for each in isr)
    if isr != BROKERS:
        table.apply(IsrChanged(topic=1, partition=0, epoch=2, version=2, isr=members), 3)
    return table


@pytest.mark.parametrize("live", [set(each) for each in product(BROKERS, repeat=3)])
def test_only_a_live_member_of_the_isr_is_elected(live: set[str]) -> None:
    table = table_with(("a", "b"))

    (change,) = elect_leaders(table, [WHERE], live)

    candidates = [each for each in ("a", "b") if each in live]
    assert change.leader == (candidates[0] if candidates else None)


def test_of_those_that_are_not_preferred_the_one_that_leads_least_is_chosen() -> None:
    table = table_with()
    other = TopicStated(name="other", number=2, partitions=1, config=TopicConfig(), created_at=1)
    table.apply(other, 4)
    table.apply(PartitionsAssigned(topic=2, partitions=(ReplicaAssignment(("b",), "b"),)), 5)

    (change,) = elect_leaders(table, [WHERE], {"b", "c"})

    assert change.leader == "c"


def test_whoever_gave_up_a_partition_is_not_chosen() -> None:
    (change,) = elect_leaders(table_with(), [WHERE], set(BROKERS), excluded={(WHERE, "a")})

    assert change.leader == "b"


@pytest.mark.parametrize(
    ("members", "epochs", "minimum", "is_taken"),
    [
        pytest.param("ab", {"a": 1, "b": 1}, 2, True, id="a member leaves"),
        pytest.param("a", {"a": 1}, 2, False, id="below the minimum"),
        pytest.param("a", {"a": 1}, 1, True, id="down to the minimum"),
        pytest.param("bc", {"b": 1, "c": 1}, 1, False, id="without its leader"),
        pytest.param("abd", {"a": 1, "b": 1, "d": 1}, 1, False, id="no replica"),
    ],
)
def test_an_isr_is_changed_by_the_rules(
    members: str, epochs: dict[str, int], minimum: int, is_taken: bool
) -> None:
    change = IsrChanged(
        topic=1,
        partition=0,
        epoch=2,
        version=2,
        isr=tuple(IsrMember(each, 1) for each in members),
    )

    assert check_isr_change(change, table_with(), epochs, minimum) is is_taken


@pytest.mark.parametrize(
    ("epochs", "is_taken"),
    [({"c": 7}, True), ({"c": 8}, False), ({}, False)],
    ids=["the run that was in sync", "a later run", "fenced or leaving"],
)
def test_whoever_joins_is_the_run_that_was_in_sync(epochs: dict[str, int], is_taken: bool) -> None:
    members = (IsrMember("a", 1), IsrMember("b", 1), IsrMember("c", 7))
    change = IsrChanged(topic=1, partition=0, epoch=2, version=3, isr=members)

    assert check_isr_change(change, table_with(("a", "b")), epochs, 2) is is_taken


def progress(
    held: int, *, join_at: int | None = 0, since: int = 0, epoch: int = 1
) -> FollowerProgress:
    return FollowerProgress(
        broker_epoch=epoch,
        held=Offset(held),
        join_at=None if join_at is None else Offset(join_at),
        since=Instant(since),
    )


@pytest.mark.parametrize(("held", "own"), list(product(product(range(3), repeat=2), range(3))))
def test_the_high_watermark_is_what_every_member_and_everybody_who_joins_has(
    held: tuple[int, int], own: int
) -> None:
    followers = {"b": progress(held[0]), "c": progress(held[1])}

    assert committed_end(Offset(own), followers, ("b", "c")) == min(own, *held)
    assert committed_end(Offset(own), followers, ("b",)) == min(own, held[0])
    assert committed_end(Offset(own), followers, ("b", "d")) == 0


def wanted(
    isr: tuple[str, ...],
    followers: dict[str, FollowerProgress],
    *,
    minimum: int = 1,
    epochs: dict[str, int] | None = None,
    now: int = 10 * SECOND,
) -> tuple[str, ...] | None:
    return wanted_isr(
        "a",
        isr,
        followers,
        epochs={"a": 1, "b": 1, "c": 1} if epochs is None else epochs,
        end=Offset(10),
        high_watermark=Offset(5),
        minimum=minimum,
        now=Instant(now),
    )


def test_a_follower_that_lacks_what_the_leader_had_a_while_ago_leaves() -> None:
    followers = {"b": progress(10), "c": progress(5, since=6 * SECOND)}

    assert wanted(BROKERS, followers) == ("a", "b")
    assert wanted(BROKERS, {"b": progress(10), "c": progress(5, since=8 * SECOND)}) is None


def test_nobody_leaves_an_isr_at_the_minimum() -> None:
    followers = {"b": progress(0), "c": progress(0)}

    assert wanted(BROKERS, followers, minimum=3) is None
    assert wanted(("a", "b"), followers, minimum=2) is None


def test_a_fenced_member_leaves_at_once() -> None:
    followers = {"b": progress(10), "c": progress(10)}

    assert wanted(BROKERS, followers, epochs={"a": 1, "b": 1}) == ("a", "b")


@pytest.mark.parametrize(
    ("follower", "joins"),
    [
        pytest.param(progress(5, join_at=5), True, id="it has all that is committed"),
        pytest.param(progress(4, join_at=3), False, id="below the high watermark"),
        pytest.param(progress(6, join_at=7), False, id="below the end it saw"),
        pytest.param(progress(9, join_at=None), False, id="it did not subscribe"),
        pytest.param(progress(9, epoch=0), False, id="another run"),
    ],
)
def test_a_follower_joins_when_it_has_all_that_is_committed(
    follower: FollowerProgress, joins: bool
) -> None:
    followers = {"b": progress(10), "c": follower}

    assert wanted(("a", "b"), followers) == (("a", "b", "c") if joins else None)


def test_what_another_run_of_a_follower_had_does_not_count() -> None:
    follower = progress(9)

    follower.hold(Offset(4), 2, Offset(10), Instant(1))

    assert (follower.held, follower.broker_epoch) == (4, 2)
    follower.subscribe(Offset(10))
    assert not follower.may_join(Offset(0))
