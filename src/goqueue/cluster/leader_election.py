"""Who leads a partition: pure decisions of the controller.

A leader is always a live member of the ISR. The ISR never shrinks below the minimum, so every
member of it, dead or alive, holds all that was ever committed (C8), and any live one may lead. If
none lives there is no leader: what is committed is worth more than that somebody answers. Only an
operator chooses otherwise, and that is recorded.

With `flush=interval` a member whose broker crashed may have lost its tail: it is unsure, and leads
only if no sure member of the ISR lives. Then the members say how far they are, and the furthest
leads (`choose_furthest`); that is recorded as unclean.

Cost: by the partitions that lost their leader, not by those that there are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from goqueue.cluster.partitions import (
    IsrChanged,
    LeaderChange,
    PartitionId,
    PartitionState,
    PartitionTable,
)
from goqueue.model import Offset

__all__ = [
    "LogEnd",
    "check_isr_change",
    "choose_furthest",
    "elect_leaders",
    "unbalanced_partitions",
]


class LogEnd(NamedTuple):
    """How a log ends: the leader epoch of its last record, and the offset behind it."""

    last: int
    end: Offset


def elect_leaders(
    table: PartitionTable,
    wanting: Iterable[PartitionId],
    live: Collection[str],
    *,
    excluded: Collection[tuple[PartitionId, str]] = (),
) -> list[LeaderChange]:
    """A leader for each partition that wants one: the preferred live, sure member of its ISR.

    Of several that are not preferred the one that leads least, so that what a broker led is spread.
    `excluded` are brokers that gave up a partition. A partition whose leader would stay none is
    left as it is; one that has a leader which is not live loses it.
    """
    load = {broker: len(table.led_by(broker)) for broker in live}
    changes: list[LeaderChange] = []
    for where in wanting:
        state = table.get(*where)
        if state is None:
            continue
        candidates = [
            broker
            for broker in state.isr
            if broker in live and (where, broker) not in excluded and not state.is_unsure(broker)
        ]
        chosen = _choose(state, candidates, load)
        if chosen is not None:
            load[chosen] += 1
        if chosen is not None or state.leader is not None:
            changes.append(LeaderChange(where.topic, where.partition, chosen))
    return changes


def _choose(state: PartitionState, candidates: list[str], load: dict[str, int]) -> str | None:
    if not candidates:
        return None
    preferred = state.replicas[0]
    if preferred in candidates:
        return preferred
    return min(candidates, key=lambda broker: (load[broker], state.copies.index(broker)))


def choose_furthest(
    state: PartitionState, ends: Mapping[str, LogEnd], *, waits: bool
) -> str | None:
    """Of the unsure members of an ISR the one whose log reaches furthest; None if none may lead.

    `ends` has those that live and said how far they are. With `waits` all must have said so: one
    that is missing may have more.
    """
    known = [broker for broker in state.isr if broker in ends]
    if not known or (waits and len(known) < len(state.isr)):
        return None
    return max(known, key=lambda broker: (ends[broker], -state.copies.index(broker)))


def check_isr_change(
    change: IsrChanged, table: PartitionTable, epochs: dict[str, int], minimum: int
) -> bool:
    """Whether a leader's wish may be committed: C9, C11, and traps 14 and 41.

    `epochs` has the broker epochs of those that may be in an ISR: registered, not fenced, not
    leaving. A member that is there already stays whatever becomes of it; one that joins must be
    the run that was found in sync. Nothing is made smaller than the minimum.
    """
    state = table.get(change.topic, change.partition)
    if state is None or (state.epoch, state.version) != (change.epoch, change.version):
        return False
    members = {each.broker: each.epoch for each in change.isr}
    if state.leader not in members or not set(members) <= set(state.copies):
        return False
    if len(members) < len(state.isr) and len(members) < minimum:
        return False
    joining = [broker for broker in members if broker not in state.isr]
    return all(epochs.get(broker) == members[broker] for broker in joining)


def unbalanced_partitions(
    table: PartitionTable, able: Collection[str]
) -> Iterator[tuple[PartitionId, str]]:
    """Partitions that another replica leads than the preferred one, which is able to; and which.

    `able` are live brokers. What moves is left out.
    """
    for topic in table.topics:
        for number, state in enumerate(table.partitions_of(topic)):
            preferred = state.replicas[0]
            if state.leader in {None, preferred} or preferred not in able or state.target:
                continue
            if preferred in state.isr and not state.is_unsure(preferred):
                yield PartitionId(topic, number), preferred
