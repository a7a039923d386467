"""Leaderships that this broker hands over: it takes no appends until the next leader has all.

The controller asks for it (see `LeaderTransfers`). Publishes wait meanwhile where they came in, and
go to the next leader; what was appended before is committed and answered here. After
`_HANDOVER_NS` the leader gives up, and takes appends again.

Nothing here is needed for safety: the next leader is a member of the ISR, whatever it has.

Cost: a look at each leadership that is handed over, in each turn while there is one. Bound: the
partitions that are led here.
"""

from collections.abc import Callable

import msgspec

from goqueue.broker.replication.partition_leader import PartitionLeader
from goqueue.cluster import PartitionId
from goqueue.model import MILLISECOND, Instant, PartitionMessage, ResignLeaderships

__all__ = ["Handovers"]

_HANDOVER_NS = 500 * MILLISECOND
# So many are asked for with one message.
_PARTITIONS_MAX = 1_000

# The leader of a partition in an epoch, if this broker is it.
_FindLeader = Callable[[int, int, int], PartitionLeader | None]


class _Handover(msgspec.Struct):
    """A leadership that is handed over to a broker."""

    leader: PartitionLeader
    to: str
    until: Instant
    is_ready: bool = False


class Handovers:
    """The leaderships of this broker that others are about to take over."""

    def __init__(self, ask_controller: Callable[[PartitionMessage], None]) -> None:
        self._ask_controller = ask_controller
        self._requests: list[ResignLeaderships] = []
        self._under_way: dict[PartitionId, _Handover] = {}

    def request(self, message: ResignLeaderships) -> None:
        """The controller wants others to lead; the next turn begins with it."""
        if len(self._requests) < _PARTITIONS_MAX:
            self._requests.append(message)

    def next_deadline(self) -> Instant | None:
        """When there is something to begin, or to give up."""
        if self._requests:
            return Instant(0)
        return min((each.until for each in self._under_way.values()), default=None)

    def _begin(self, leader: PartitionLeader, to: str, now: Instant) -> None:
        """Take no appends, and let `to` lead once it has all."""
        known = self._under_way.get(leader.where)
        if known is not None and known.leader is leader:
            return
        if to in leader.image.isr and leader.is_serving:
            leader.is_handing_over = True
            until = Instant(now + _HANDOVER_NS)
            self._under_way[leader.where] = _Handover(leader, to, until)

    def finish_turn(self, find: _FindLeader, now: Instant) -> None:
        """Ask for the changes that can be made, and give up what takes too long."""
        asked, self._requests = self._requests, []
        for message in asked:
            named = zip(message.partitions[:_PARTITIONS_MAX], message.heirs, strict=False)
            for (topic, partition, epoch), heir in named:
                found = find(topic, partition, epoch)
                if found is not None:
                    self._begin(found, heir, now)
        ready: list[_Handover] = []
        for where, each in list(self._under_way.items()):
            leader = each.leader
            if find(*where, leader.epoch) is not leader:
                del self._under_way[where]
            elif now >= each.until:
                leader.is_handing_over = False
                del self._under_way[where]
            elif not each.is_ready and leader.is_held_by(each.to):
                each.is_ready = True
                ready.append(each)
        for first in range(0, len(ready), _PARTITIONS_MAX):
            some = ready[first : first + _PARTITIONS_MAX]
            partitions = tuple((*each.leader.where, each.leader.epoch) for each in some)
            heirs = tuple(each.to for each in some)
            self._ask_controller(ResignLeaderships(partitions=partitions, heirs=heirs))
