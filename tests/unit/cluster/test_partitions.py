"""The table of partitions: epochs are versions, and late changes change nothing."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster import (
    IsrChanged,
    IsrMember,
    LeaderChange,
    LeadersChanged,
    PartitionChange,
    PartitionId,
    PartitionsAssigned,
    PartitionTable,
    ReplicaAssignment,
    ReplicasLost,
    TopicDeleted,
    TopicStated,
    UncleanLeaderElected,
)
from goqueue.model.requests import TopicConfig

BROKERS = ("a", "b", "c")


def stated(number: int = 1, name: str = "orders", partitions: int = 2) -> TopicStated:
    config = TopicConfig(replication_factor=3, min_insync_replicas=2)
    return TopicStated(name=name, number=number, partitions=partitions, config=config, created_at=1)


def assigned(number: int = 1, partitions: int = 2) -> PartitionsAssigned:
    return PartitionsAssigned(
        topic=number, partitions=(ReplicaAssignment(BROKERS, "a"),) * partitions
    )


def table_of(*changes: PartitionChange) -> PartitionTable:
    table = PartitionTable()
    for version, change in enumerate(changes, 1):
        table.apply(change, version)
    return table


def isr(version: int, epoch: int, *members: str) -> IsrChanged:
    return IsrChanged(
        topic=1,
        partition=0,
        epoch=epoch,
        version=version,
        isr=tuple(IsrMember(each, 1) for each in members),
    )


def test_the_version_of_its_assignment_is_the_first_epoch_of_a_partition() -> None:
    state = table_of(stated(), assigned()).get(1, 0)

    assert state is not None
    assert (state.leader, state.epoch, state.version, state.isr) == ("a", 2, 2, BROKERS)


def test_a_change_of_leaders_begins_an_epoch_and_keeps_the_isr() -> None:
    table = table_of(stated(), assigned(), LeadersChanged(changes=(LeaderChange(1, 0, "b"),)))

    state = table.get(1, 0)
    assert state is not None
    assert (state.leader, state.epoch, state.isr) == ("b", 3, BROKERS)
    assert dict(table.led_by("b")) == {PartitionId(1, 0): None}
    assert dict(table.led_by("a")) == {PartitionId(1, 1): None}


def test_nobody_outside_the_isr_is_elected() -> None:
    leave = isr(2, 2, "a", "b")
    table = table_of(
        stated(), assigned(), leave, LeadersChanged(changes=(LeaderChange(1, 0, "c"),))
    )

    state = table.get(1, 0)
    assert state is not None
    assert (state.leader, state.isr) == ("a", ("a", "b"))


def test_a_change_of_an_isr_counts_only_at_the_version_it_was_decided_on() -> None:
    table = table_of(stated(), assigned(), isr(2, 2, "a", "b"), isr(2, 2, "a", "c"))

    state = table.get(1, 0)
    assert state is not None
    assert (state.isr, state.version) == (("a", "b"), 3)


def test_an_election_in_the_same_record_ends_an_earlier_wish() -> None:
    table = table_of(stated(), assigned())
    table.apply(LeadersChanged(changes=(LeaderChange(1, 0, "b"),)), 3)
    table.apply(isr(2, 2, "a"), 3)

    state = table.get(1, 0)
    assert state is not None
    assert (state.leader, state.isr) == ("b", BROKERS)


def test_an_unclean_election_is_remembered() -> None:
    table = table_of(
        stated(),
        assigned(),
        isr(2, 2, "a"),
        UncleanLeaderElected(topic=1, partition=0, leader="c"),
    )

    state = table.get(1, 0)
    assert state is not None
    assert (state.leader, state.isr, state.unclean_epoch) == ("c", ("c",), 4)


def test_a_forgotten_broker_is_in_no_isr_and_leads_nothing() -> None:
    table = table_of(stated(), assigned())
    table.forget_broker("a", 9)

    state = table.get(1, 0)
    assert state is not None
    assert (state.leader, state.isr, state.epoch) == (None, ("b", "c"), 9)
    assert len(table.led_by(None)) == 2


def test_a_broker_that_lost_a_copy_is_not_in_sync_there_and_does_not_lead() -> None:
    table = table_of(stated(), assigned())
    table.lose_replicas(ReplicasLost(broker="a", epoch=1, partitions=((1, 0), (1, 7))), 9)

    lost, kept = table.get(1, 0), table.get(1, 1)
    assert lost is not None
    assert kept is not None
    assert (lost.leader, lost.isr, lost.epoch, lost.version) == (None, ("b", "c"), 9, 9)
    assert "a" in kept.isr


def test_the_last_copy_that_is_lost_leaves_nobody_in_sync() -> None:
    table = table_of(stated(), assigned(), isr(2, 2, "a"))
    table.lose_replicas(ReplicasLost(broker="a", epoch=1, partitions=((1, 0),)), 9)

    state = table.get(1, 0)
    assert state is not None
    assert (state.leader, state.isr) == (None, ())


def test_a_second_topic_of_the_same_name_changes_nothing() -> None:
    table = table_of(stated(), assigned(), stated(number=2), assigned(number=2))

    assert list(table.topics) == [1]
    assert table.get(2, 0) is None


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    table = table_of(stated(), assigned(), TopicDeleted(name="orders", number=1))

    assert not table.topics
    assert not table.partition_count
    assert not any(table.led_by(each) or table.hosted_by(each) for each in BROKERS)
    assert table.next_topic == 2


CHANGES = st.one_of(
    st.builds(
        lambda where, leader: LeadersChanged(changes=(LeaderChange(1, where, leader),)),
        st.integers(0, 2),
        st.sampled_from([*BROKERS, None, "d"]),
    ),
    st.builds(
        lambda version, epoch, members: isr(version, epoch, *members),
        st.integers(1, 12),
        st.integers(1, 12),
        st.sets(st.sampled_from(BROKERS)),
    ),
    st.builds(
        lambda leader: UncleanLeaderElected(topic=1, partition=0, leader=leader),
        st.sampled_from([*BROKERS, "d"]),
    ),
)


@given(st.lists(CHANGES, max_size=10))
def test_whatever_is_committed_leaders_are_in_sync_and_a_statement_says_all(
    changes: list[PartitionChange],
) -> None:
    table = table_of(stated(), assigned(), *changes)

    for number in range(2):
        state = table.get(1, number)
        assert state is not None
        assert state.leader is None or state.leader in state.isr
        assert set(state.isr) <= set(state.replicas)
        assert (PartitionId(1, number) in table.led_by(state.leader)) is True
    again = PartitionTable()
    again.adopt(msgspec.json.decode(msgspec.json.encode(list(table.stated())), type=type_of()))
    assert list(again.stated()) == list(table.stated())
    assert all(dict(again.led_by(each)) == dict(table.led_by(each)) for each in (*BROKERS, None))


def type_of() -> object:
    from goqueue.cluster import StatedTopic

    return list[StatedTopic]
