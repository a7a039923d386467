"""Readers that follow logs from their start, and are shown only what is committed."""

from goqueue.model import SECOND, Offset, Refused
from goqueue.model.requests import Read, Records, Reply
from goqueue.sim.node.clients.publishers import Publishers
from goqueue.sim.node.clients.reading import Reading
from goqueue.sim.node.truth import TopicTruth
from goqueue.sim.node.world import World

__all__ = ["Followers"]

_FOLLOWERS = 2


class Followers:
    """A few readers, each with its place in every log."""

    def __init__(self, world: World, publishers: Publishers) -> None:
        self._world = world
        self._random = world.random
        self._publishers = publishers
        # By reader, number of the topic, and partition.
        self._places: dict[tuple[int, int, int], int] = {}
        self._busy: dict[tuple[int, int, int], None] = {}

    def step(self) -> None:
        """One of them reads on."""
        topic = self._publishers.choose_topic(with_letters=True)
        if topic is None:
            return
        random = self._random
        key = (random.randrange(_FOLLOWERS), topic.number, random.randrange(topic.partitions))
        wait_ns = random.choice([0, 0, SECOND])
        bytes_max = random.choice([1, 300, 1 << 20])
        if key not in self._busy:
            self._read(key, topic, wait_ns, bytes_max)

    def _read(
        self, key: tuple[int, int, int], topic: TopicTruth, wait_ns: int, bytes_max: int
    ) -> None:
        offset = Offset(self._places.get(key, 0))
        reading = Reading(reader=f"follower-{key[0]}")
        self._busy[key] = None

        def done(reply: Reply | Refused | None) -> None:
            del self._busy[key]
            if isinstance(reply, Records):
                records = self._publishers.check_records(topic, reply, reading)
                self._places[key] = records[-1].offset + 1 if records else reply.upto

        command = Read(
            topic=topic.name,
            partition=key[2],
            offset=offset,
            bytes_max=bytes_max,
            wait_ns=wait_ns,
        )
        self._world.ask(command, done, wait_ns)
