"""Who serves what, as the metadata image of this broker says it.

Reads the image and decides nothing. An image may be older than that of others: the broker that is
asked checks by its own, and refuses with `not_leader`.
"""

from collections.abc import Callable, Iterable

from goqueue.cluster import BrokerState, MetadataImage, PartitionState, TopicStated
from goqueue.model import LogId

__all__ = ["Routes"]


class Routes:
    """Leaders and the controller, as one broker knows them."""

    def __init__(
        self,
        me: str,
        image: Callable[[], MetadataImage | None],
        controller: Callable[[], str | None],
    ) -> None:
        """`image` is None before the metadata log was read."""
        self.me = me
        self._image = image
        self._controller = controller

    @property
    def version(self) -> int:
        """The version of the image; 0 before there is one."""
        image = self._image()
        return 0 if image is None else image.version

    @property
    def controller(self) -> str | None:
        """The broker that decides, as far as this one knows."""
        return self._controller()

    @property
    def image(self) -> MetadataImage | None:
        """The committed image; None before the metadata log was read."""
        return self._image()

    def topic(self, name: str) -> TopicStated | None:
        image = self._image()
        return None if image is None else image.topic(name)

    def partition(self, log: LogId) -> PartitionState | None:
        """What the image says of a partition; None if it does not know it."""
        image = self._image()
        topic = None if image is None else image.topic(log.topic)
        if image is None or topic is None:
            return None
        return image.partition(topic.number, log.partition)

    def leader(self, log: LogId) -> str | None:
        """The broker that leads a partition; None if nobody does."""
        found = self.partition(log)
        return None if found is None else found.leader

    def by_leader(self, topic: str, numbers: Iterable[int]) -> dict[str | None, list[int]] | None:
        """Partitions by their leader; None if one of them, or the topic, does not exist."""
        found: dict[str | None, list[int]] = {}
        for number in numbers:
            partition = self.partition(LogId(topic, number))
            if partition is None:
                return None
            found.setdefault(partition.leader, []).append(number)
        return found or None

    def leaders(self) -> list[LogId]:
        """For each broker that leads any, one of its partitions; and one that nobody leads."""
        image = self._image()
        if image is None:
            return []
        led = [next(iter(image.table.led_by(name)), None) for name in (*image.brokers, None)]
        return [
            LogId(image.table.topics[each.topic].name, each.partition)
            for each in led
            if each is not None
        ]

    def address(self, broker: str) -> str:
        """Where clients reach a broker; empty if that is not known."""
        image = self._image()
        found = None if image is None else image.brokers.get(broker)
        return "" if found is None else found.registration.addresses.http

    @property
    def live_brokers(self) -> list[str]:
        """All brokers that are registered and not fenced."""
        image = self._image()
        return [] if image is None else [name for name in image.brokers if self.live(name)]

    def live(self, broker: str) -> bool:
        """Whether a broker is registered and not fenced."""
        image = self._image()
        found = None if image is None else image.brokers.get(broker)
        return found is not None and found.state is not BrokerState.FENCED

    @property
    def active_count(self) -> int:
        """How many brokers may keep copies of a new topic."""
        image = self._image()
        brokers = () if image is None else image.brokers.values()
        return sum(each.state is BrokerState.ACTIVE for each in brokers)

    def is_member(self, broker: str, incarnation: int) -> bool:
        """Whether this run of a broker belongs to the cluster."""
        image = self._image()
        found = None if image is None else image.brokers.get(broker)
        return found is not None and found.registration.incarnation == incarnation
