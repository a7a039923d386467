"""Which brokers keep the copies of a new topic, and which of them leads each partition first.

Round robin from the number of the topic, so that topics of one partition begin on different
brokers; copies of one partition are on different racks as far as there are enough. The first
replica is the preferred leader.

Invariants
- A partition has as many replicas as asked for, all on different brokers.
- Replicas share a rack only if there are fewer racks than replicas, and then as evenly as can be.
- Over one topic no broker has two more first places than another.

Pure; cost: one step for each replica and rack.
"""

from collections.abc import Mapping, Sequence

from goqueue.cluster.partitions import ReplicaAssignment

__all__ = ["assign_replicas"]


def assign_replicas(
    topic: int, partitions: int, replication_factor: int, racks: Mapping[str, str]
) -> tuple[ReplicaAssignment, ...]:
    """The replicas of each partition of a new topic; `racks` has the rack of each usable broker."""
    assert 1 <= replication_factor <= len(racks), "there is a broker for each replica"
    order = _spread(racks)
    return tuple(
        _assignment(
            order, racks, topic + number, (topic + number) // len(order), replication_factor
        )
        for number in range(partitions)
    )


def _spread(racks: Mapping[str, str]) -> list[str]:
    """The brokers, sorted, so that neighbours are on different racks where that is possible."""
    by_rack: dict[str, list[str]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or f"\0{broker}", []).append(broker)
    waiting = sorted(by_rack.values(), key=len, reverse=True)
    order: list[str] = []
    while any(waiting):
        order += [brokers.pop(0) for brokers in waiting if brokers]
    return order


def _assignment(
    order: Sequence[str], racks: Mapping[str, str], first: int, shift: int, wanted: int
) -> ReplicaAssignment:
    """From the first broker on, those whose rack has the fewest replicas so far.

    `shift` turns the others, so that the followers of one broker's partitions differ.
    """
    count = len(order)
    leader = order[first % count]
    others = [order[(first + 1 + step) % count] for step in range(count - 1)]
    turn = shift % len(others) if others else 0
    others = others[turn:] + others[:turn]
    chosen = [leader]
    used = {racks[leader]: 1}
    while len(chosen) < wanted:
        free = [broker for broker in others if broker not in chosen]
        best = min(free, key=lambda broker: used.get(racks[broker], 0) if racks[broker] else 0)
        chosen.append(best)
        used[racks[best]] = used.get(racks[best], 0) + 1
    return ReplicaAssignment(tuple(chosen), leader)
