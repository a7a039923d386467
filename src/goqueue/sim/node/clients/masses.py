"""Those who do hundreds of things at once: what a turn must not do in one go.

All that they ask is judged as if others had asked it one by one; the number is the point.
"""

from collections.abc import Callable

from goqueue.model import SECOND
from goqueue.sim.node.clients.members import Members
from goqueue.sim.node.clients.publishers import Publishers
from goqueue.sim.node.clients.settlers import Settlers
from goqueue.sim.node.truth import Delivery, GroupTruth
from goqueue.sim.node.world import World

__all__ = ["Masses"]

_MANY = 150


class Masses:
    """Batches, leases and settlements by the hundred."""

    def __init__(
        self, world: World, publishers: Publishers, members: Members, settlers: Settlers
    ) -> None:
        self._world = world
        self._random = world.random
        self._publishers = publishers
        self._members = members
        self._settlers = settlers

    def actions(self) -> list[Callable[[], None]]:
        """What they do, as often as it is named."""
        actions: list[Callable[[], None]] = [self._publish] * 3 + [self._lease] * 8
        return [*actions, self._ack, self._give_back, self._bury]

    def _publish(self) -> None:
        topic = self._publishers.choose_topic()
        if topic is not None:
            self._publishers.publish_many(topic, self._random.randint(1, _MANY))

    def _lease(self) -> None:
        found = self._members.choose()
        if found is not None and not found[0].is_stream:
            self._members.poll(*found, 0, 1000)

    def _ack(self) -> None:
        group, held = self._held()
        if group is not None and not group.is_copied:
            self._settlers.ack(group, held)

    def _give_back(self) -> None:
        """All of them come again at the same time, or at once."""
        group, held = self._held()
        delay_ns = self._random.choice([None, 0, SECOND // 2, 2 * SECOND])
        for delivery in held if group is not None else []:
            assert group is not None
            self._settlers.give_back(group, delivery, delay_ns)

    def _bury(self) -> None:
        group, held = self._held()
        for delivery in held if group is not None else []:
            assert group is not None
            self._settlers.bury(group, delivery)

    def _held(self) -> tuple[GroupTruth | None, list[Delivery]]:
        """Much of what one group holds."""
        groups = [group for group in self._world.groups.values() if not group.is_leaving]
        held: dict[GroupTruth, list[Delivery]] = {}
        for group in groups:
            for member in group.members.values():
                for each in member.deliveries[-_MANY:]:
                    if not each.is_used and not each.handed.topic.is_gone:
                        held.setdefault(group, []).append(each)
        if not held:
            return None, []
        group = self._random.choice(list(held))
        return group, held[group][:_MANY]
