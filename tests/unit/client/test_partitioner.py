"""Which partition a message goes to: the vectors of the contract, turns, explicit choices."""

import pytest

from goqueue.client.errors import NotFound
from goqueue.client.producer import Partitioner


@pytest.mark.parametrize(
    ("key", "partitions"),
    [
        ("a", {3: 2, 4: 2, 6: 2, 50: 0}),
        ("user-100", {3: 0, 4: 1, 6: 3, 50: 25}),
        ("order-123", {3: 1, 4: 1, 6: 1, 50: 41}),
        ("é", {3: 1, 4: 3, 6: 1, 50: 45}),
    ],
)
def test_a_key_decides_by_the_hash_of_the_contract(key: str, partitions: dict[int, int]) -> None:
    for count, expected in partitions.items():
        assert Partitioner("orders", count).choose(key.encode(), None) == expected


def test_messages_without_key_take_turns_over_all_partitions() -> None:
    partitioner = Partitioner("orders", 3)
    chosen = [partitioner.choose(b"", None) for _ in range(6)]
    assert chosen == [0, 1, 2, 0, 1, 2]


def test_an_explicit_partition_wins_and_uses_up_no_turn() -> None:
    partitioner = Partitioner("orders", 3)
    assert partitioner.choose(b"a", 1) == 1
    assert partitioner.choose(b"", None) == 0


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    with pytest.raises(NotFound) as refused:
        Partitioner("orders", 3).choose(b"", partition)
    assert refused.value.code == "partition_not_found"
    assert refused.value.details == {"partitions": 3}


def test_new_partitions_are_used_once_they_are_known() -> None:
    partitioner = Partitioner("orders", 1)
    assert partitioner.choose(b"a", None) == 0
    partitioner.count = 3
    assert partitioner.choose(b"a", None) == 2
