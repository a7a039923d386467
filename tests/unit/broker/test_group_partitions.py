"""Positions and queues of groups by partition."""

import pytest

from goqueue.broker.group_partitions import GroupPartitions
from goqueue.delivery import DeliveryQueue
from goqueue.model import LogId

HERE, THERE = LogId("orders", 0), LogId("orders", 1)


def with_queue(places: GroupPartitions, group: int, log: LogId) -> DeliveryQueue:
    place = places.open(group, log)
    queue = DeliveryQueue(place.position, keeps_key_order=False)
    places.add_queue(place, queue)
    return queue


def test_a_place_is_opened_once_and_keeps_its_position() -> None:
    places = GroupPartitions()
    place = places.open(1, HERE, 5)

    assert places.open(1, HERE, 9) is place
    assert place.position.floor == 5
    assert places.get(1, THERE) is None
    assert places.get(2, HERE) is None


def test_a_removed_queue_leaves_the_position() -> None:
    places = GroupPartitions()
    queue = with_queue(places, 1, HERE)
    assert places.queues_of(1) == [(HERE, queue)]

    places.remove_queue(1, HERE)

    assert places.queues_of(1) == []
    assert places.polling_groups == []
    assert places.groups == [1]
    assert places.position(1, HERE) is not None


@pytest.mark.parametrize("others", [0, 10])
def test_the_places_of_a_group_on_some_partitions_are_found_however_many_it_has(
    others: int,
) -> None:
    places = GroupPartitions()
    mine = places.open(1, HERE)
    for number in range(others):
        places.open(1, LogId("others", number))

    assert places.of_group_on(1, [HERE, THERE]) == [mine]
    assert places.of_group_on(2, [HERE, THERE]) == []


def test_a_place_with_a_queue_is_not_removed() -> None:
    places = GroupPartitions()
    with_queue(places, 1, HERE)

    with pytest.raises(AssertionError):
        places.remove(places.find(1, HERE))
    with pytest.raises(AssertionError):
        places.remove_group(1)


def test_what_is_removed_leaves_nothing_behind() -> None:
    places = GroupPartitions()
    with_queue(places, 1, HERE)
    places.open(2, HERE)
    places.remove_queue(1, HERE)

    places.remove(places.find(1, HERE))
    places.remove_group(2)

    assert places.groups == []
    assert list(places.queues_on(HERE)) == []
