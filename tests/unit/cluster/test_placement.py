"""Placement: as many copies as asked for, racks apart, first places spread."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster import assign_replicas

RACKS = st.dictionaries(
    st.sampled_from([f"broker-{n}" for n in range(7)]),
    st.sampled_from(["", "a", "b", "c"]),
    min_size=1,
)


@given(
    racks=RACKS,
    topic=st.integers(1, 50),
    partitions=st.integers(1, 40),
    data=st.data(),
)
def test_every_partition_has_its_copies_on_different_brokers(
    racks: dict[str, str], topic: int, partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))

    placed = assign_replicas(topic, partitions, factor, racks)

    assert len(placed) == partitions
    for each in placed:
        assert len(each.replicas) == len(set(each.replicas)) == factor
        assert set(each.replicas) <= set(racks)
        assert each.leader == each.replicas[0]


@given(racks=RACKS, topic=st.integers(1, 50), partitions=st.integers(1, 40))
def test_no_broker_has_two_first_places_more_than_another(
    racks: dict[str, str], topic: int, partitions: int
) -> None:
    placed = assign_replicas(topic, partitions, 1, racks)

    counts = Counter(dict.fromkeys(racks, 0))
    counts.update(each.replicas[0] for each in placed)
    assert max(counts.values()) - min(counts.values()) <= 1


@given(topic=st.integers(1, 50), factor=st.integers(1, 3))
def test_copies_share_no_rack_while_there_are_enough(topic: int, factor: int) -> None:
    racks = {f"broker-{n}": "abc"[n % 3] for n in range(6)}

    for each in assign_replicas(topic, 12, factor, racks):
        assert len({racks[broker] for broker in each.replicas}) == factor


def test_topics_of_one_partition_begin_on_different_brokers() -> None:
    racks = dict.fromkeys(("a", "b", "c"), "")

    first = [assign_replicas(topic, 1, 1, racks)[0].leader for topic in range(1, 4)]

    assert sorted(str(each) for each in first) == ["a", "b", "c"]
