"""The metadata image: a fold over changes, the same for everybody who folds them."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster import (
    BrokerFenced,
    BrokerRegistered,
    BrokerRemoved,
    BrokerResigned,
    BrokerState,
    ClusterCreated,
    FeatureLevelRaised,
    IsrChanged,
    IsrMember,
    MetadataChange,
    MetadataImage,
    PartitionsAssigned,
    ReplicaAssignment,
    ReplicasLost,
    TopicStated,
    Voter,
    Voters,
    VotersChanged,
    voters_written,
)
from goqueue.model import Flush
from goqueue.model.requests import TopicConfig

A, B, C = (Voter(name, f"{name}-disk") for name in "abc")
CREATED = ClusterCreated(cluster_id="x", voters=(A, B), formed_by=(A, B, C))

_DECODER = msgspec.json.Decoder(list[MetadataChange])


def registered(name: str, incarnation: int = 1) -> BrokerRegistered:
    return BrokerRegistered(broker=name, directory=f"{name}-disk", incarnation=incarnation)


def folded(*records: list[MetadataChange]) -> MetadataImage:
    image = MetadataImage()
    for version, changes in enumerate(records, 1):
        image.apply(changes, version)
    return image


_names = st.sampled_from("abc")
_epochs = st.integers(1, 6)
_voters = st.lists(st.sampled_from([A, B, C]), unique=True).map(lambda some: tuple(sorted(some)))
_changes: st.SearchStrategy[MetadataChange] = st.one_of(
    st.builds(registered, _names, st.integers(1, 3)),
    st.builds(lambda level: FeatureLevelRaised(level=level), st.integers(1, 4)),
    st.builds(lambda name, epoch: BrokerFenced(broker=name, epoch=epoch), _names, _epochs),
    st.builds(lambda name, epoch: BrokerResigned(broker=name, epoch=epoch), _names, _epochs),
    st.builds(
        lambda name, epoch: ReplicasLost(broker=name, epoch=epoch, partitions=((1, 0),)),
        _names,
        _epochs,
    ),
    st.builds(lambda name, epoch: BrokerRemoved(broker=name, epoch=epoch), _names, _epochs),
    st.builds(lambda new, old: VotersChanged(new=new, old=old), _voters, _voters),
)
_records = st.lists(st.lists(_changes, max_size=3), max_size=8)


@given(_records)
def test_the_image_is_the_same_after_a_walk_through_json(
    records: list[list[MetadataChange]],
) -> None:
    stored = [_DECODER.decode(msgspec.json.encode(changes)) for changes in records]

    assert folded([CREATED], *stored).stated() == folded([CREATED], *records).stated()


@given(_records, st.integers(0, 8))
def test_an_image_that_is_stated_and_the_rest_are_the_whole(
    records: list[list[MetadataChange]], cut: int
) -> None:
    whole = MetadataImage()
    resumed = MetadataImage()
    every: list[list[MetadataChange]] = [[CREATED], *records]
    for version, changes in enumerate(every, 1):
        whole.apply(changes, 2 * version)
        if version > cut:
            if not resumed.version:
                resumed.apply([whole.stated()], 2 * version + 1)
            else:
                resumed.apply(changes, 2 * version)

    resumed.apply([], 100)
    whole.apply([], 100)
    assert cut > len(records) or resumed.stated() == whole.stated()


@given(_records)
def test_stating_the_image_changes_nothing_where_it_is_known(
    records: list[list[MetadataChange]],
) -> None:
    image = folded([CREATED], *records)
    before = image.stated()

    image.apply([before], image.version + 1)

    assert image.stated() == msgspec.structs.replace(before, version=before.version + 1)


def test_the_version_of_a_registration_is_the_epoch_of_its_broker() -> None:
    image = folded([CREATED], [registered("a")], [registered("b")], [registered("a", 2)])

    assert [(name, broker.epoch) for name, broker in image.brokers.items()] == [("a", 4), ("b", 3)]


def test_a_decision_about_an_earlier_epoch_of_a_broker_changes_nothing() -> None:
    image = folded(
        [CREATED], [registered("a")], [registered("a", 2)], [BrokerFenced(broker="a", epoch=2)]
    )

    assert image.brokers["a"].state is BrokerState.ACTIVE


def test_only_a_new_registration_ends_a_fence() -> None:
    records: list[list[MetadataChange]] = [
        [CREATED],
        [registered("a")],
        [BrokerFenced(broker="a", epoch=2)],
    ]
    assert folded(*records).brokers["a"].state is BrokerState.FENCED
    again = folded(*records, [registered("a", 2)])
    assert again.brokers["a"].state is BrokerState.ACTIVE


def test_the_voters_of_a_new_cluster_are_joint_with_those_that_formed_it() -> None:
    assert voters_written([CREATED]) == Voters((A, B), (A, B, C))
    assert voters_written([CREATED, VotersChanged(new=(A, B))]) == Voters((A, B))
    assert voters_written([registered("a")]) is None


def _hosting(flush: Flush) -> MetadataImage:
    config = TopicConfig(replication_factor=2, flush_policy=flush)
    topic = TopicStated(name="orders", number=1, partitions=1, config=config, created_at=1)
    assigned = PartitionsAssigned(topic=1, partitions=(ReplicaAssignment(("a", "b"), "a"),))
    return folded([registered("a"), registered("b")], [topic, assigned])


def _unsure(image: MetadataImage) -> list[tuple[str, int]]:
    state = image.partition(1, 0)
    assert state is not None
    return [(each.broker, each.epoch) for each in state.unsure]


def test_a_member_that_begins_anew_after_a_crash_may_lack_what_was_not_synced() -> None:
    for flush, expected in ((Flush.INTERVAL, [("b", 3)]), (Flush.COMMIT, [])):
        image = _hosting(flush)
        image.apply([registered("b", 2)], 3)
        assert _unsure(image) == expected


def test_a_clean_stop_or_a_fenced_run_that_returns_leaves_no_doubt() -> None:
    image = _hosting(Flush.INTERVAL)
    clean = msgspec.structs.replace(registered("b", 2), is_clean=True)
    image.apply([clean], 3)
    image.apply([msgspec.structs.replace(clean, is_clean=False)], 4)

    assert _unsure(image) == []


def test_a_member_is_sure_again_once_that_run_was_found_in_sync() -> None:
    image = _hosting(Flush.INTERVAL)
    image.apply([registered("b", 2)], 3)
    for found, expected in ((2, [("b", 3)]), (3, [])):
        members = (IsrMember("a", 1), IsrMember("b", found))
        version = image.table.partitions_of(1)[0].version
        image.apply(
            [IsrChanged(topic=1, partition=0, epoch=2, version=version, isr=members)], 10 + found
        )
        assert _unsure(image) == expected
