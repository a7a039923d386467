"""Where consumer groups stand: for each group and partition its position and its queue.

A *group partition* is one group on one partition. Its position survives every crash and is changed
only by what the journal says. Its queue exists while somebody polls, and begins anew from the
position in each life of the node.

Invariant: whatever has a queue has a position, and is listed with the queues of its group and of
its partition until the queue is removed.
Cost: two lookups for one of them; what happens to a log asks no group without a queue there.
"""

from collections.abc import Collection

from goqueue.delivery import Checkpoint, DeliveryQueue, Position
from goqueue.model import LogId

__all__ = ["GroupPartition", "GroupPartitions"]


class GroupPartition:
    """One group on one partition; `group` is its number."""

    __slots__ = ("group", "log", "position", "queue")

    def __init__(self, group: int, log: LogId, position: Position) -> None:
        self.group = group
        self.log = log
        self.position = position
        self.queue: DeliveryQueue | None = None

    @property
    def active_queue(self) -> DeliveryQueue:
        """The queue, where a lease or a poll says that there is one."""
        assert self.queue is not None
        return self.queue


class GroupPartitions:
    """All group partitions of a node, by the number of the group and by the log."""

    def __init__(self) -> None:
        # A backup tells where everybody stood at one moment.
        self.checkpoint = Checkpoint()
        self._by_group: dict[int, dict[LogId, GroupPartition]] = {}
        # Those with a queue: by group, and by partition.
        self._queues_of: dict[int, dict[LogId, GroupPartition]] = {}
        self._queues_on: dict[LogId, dict[int, GroupPartition]] = {}

    def get(self, group: int, log: LogId) -> GroupPartition | None:
        of_group = self._by_group.get(group)
        return None if of_group is None else of_group.get(log)

    def find(self, group: int, log: LogId) -> GroupPartition:
        """One that must be there: somebody holds a lease, or waits for it."""
        return self._by_group[group][log]

    def open(self, group: int, log: LogId, floor: int = 0) -> GroupPartition:
        """The place of a group on a partition; a new one stands at `floor`."""
        of_group = self._by_group.setdefault(group, {})
        found = of_group.get(log)
        if found is None:
            position = Position(floor, checkpoint=self.checkpoint)
            found = of_group[log] = GroupPartition(group, log, position)
        return found

    def position(self, group: int, log: LogId) -> Position | None:
        found = self.get(group, log)
        return None if found is None else found.position

    def queue(self, group: int, log: LogId) -> DeliveryQueue | None:
        found = self.get(group, log)
        return None if found is None else found.queue

    # Many of them; the lists stay as they are while turns are taken

    @property
    def groups(self) -> list[int]:
        """The groups that have a position anywhere."""
        return list(self._by_group)

    @property
    def polling_groups(self) -> list[int]:
        """The groups that have a queue anywhere."""
        return list(self._queues_of)

    def of_group(self, group: int) -> list[GroupPartition]:
        return list(self._by_group.get(group, {}).values())

    def of_group_on(self, group: int, logs: Collection[LogId]) -> list[GroupPartition]:
        """Those of a group on some partitions; costs by the fewer of what it has and of these."""
        of_group = self._by_group.get(group, {})
        if len(of_group) < len(logs):
            wanted = frozenset(logs)
            return [found for log, found in of_group.items() if log in wanted]
        return [of_group[log] for log in logs if log in of_group]

    def queues_of(self, group: int) -> list[tuple[LogId, DeliveryQueue]]:
        """The queues of one group by partition."""
        return [(each.log, each.active_queue) for each in self._queues_of.get(group, {}).values()]

    def has_queues(self, group: int) -> bool:
        return group in self._queues_of

    def queues_on(self, log: LogId) -> list[DeliveryQueue]:
        """The queues of all groups on one partition."""
        return [each.active_queue for each in self._queues_on.get(log, {}).values()]

    # Coming and going

    def add_queue(self, place: GroupPartition, queue: DeliveryQueue) -> None:
        place.queue = queue
        self._queues_of.setdefault(place.group, {})[place.log] = place
        self._queues_on.setdefault(place.log, {})[place.group] = place

    def remove_queue(self, group: int, log: LogId) -> bool:
        """From now on the group begins at its position again. Whether there was a queue."""
        of_group = self._queues_of.get(group, {})
        place = of_group.pop(log, None)
        if place is None:
            return False
        place.queue = None
        if not of_group:
            del self._queues_of[group]
        on_log = self._queues_on[log]
        del on_log[group]
        if not on_log:
            del self._queues_on[log]
        return True

    def remove(self, place: GroupPartition) -> None:
        """The partition is gone; its queue must be removed before."""
        assert place.queue is None
        of_group = self._by_group[place.group]
        del of_group[place.log]
        if not of_group:
            del self._by_group[place.group]

    def remove_group(self, group: int) -> None:
        """The group is gone; its queues must be removed before."""
        assert group not in self._queues_of
        self._by_group.pop(group, None)
