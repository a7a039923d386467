"""A cluster that began as a single node, under the faults and with the checkers of any other."""

import msgspec
import pytest

from goqueue.broker import METADATA_SETTINGS, ConvertedNode
from goqueue.cluster import Voter
from goqueue.model import Instant, LogId, Message, Now, Offset, Record
from goqueue.model.requests import Publish, Published
from goqueue.records import build, decode, scan
from goqueue.sim import Trace
from goqueue.sim.cluster import ReplicationRun
from goqueue.storage import FileSystem, StagedLogs
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create

TOPIC = "orders"
PARTITIONS = 2
ALONE = b"alone"
COUNT = 30
SEEDS = 3


def single_node() -> DrivenNode:
    """A node that ran alone, and stopped; each partition has some messages."""
    node = DrivenNode()
    create(node, TOPIC, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        for number in range(COUNT):
            batch = build([Message(value=b"%s-%d" % (ALONE, number))])
            node.ask(Publish(topic=TOPIC, batch=batch, targets=[partition]), Published)
    node.stop()
    node.storage.close()
    return node


def put_on(files: FileSystem, node: DrivenNode) -> None:
    """The files of the node, durable on another disk."""
    made: dict[str, None] = {"": None}
    for path, data in sorted(node.files.copy().items()):
        parts = path.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            if parent not in made:
                files.make_directory(parent)
                made[parent] = None
        file = files.create(path)
        file.write_at(0, data)
        file.sync()
        file.close()
    for directory in made:
        files.sync_directory(directory)


class ConvertedRun(ReplicationRun):
    """The first broker was a single node; the others are blank."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Trace())
        # Blank brokers alone would form a cluster of their own.
        self._quorum = self.swarm.brokers
        # The topic is that of the single node, with its settings.
        self.copies = msgspec.structs.replace(self.copies, flushes_late=False)
        self.checks.may_lose = False
        node = single_node()
        first, *others = self.processes
        files = self.disks[first.name].files
        put_on(files, node)
        staged = StagedLogs(files)
        now = Now(Instant(0), node.now.wall)
        me = Voter(first.name, first.directory)
        names = tuple(each.name for each in others)
        converted = ConvertedNode(me=me, others=names, at=now.wall)
        for each in node.node.conversion.logs(converted):
            staged.write(each.log, METADATA_SETTINGS, each.records, now)
        staged.replace(("__topics", "__groups"))
        staged.finish()
        self.kept_total = 0

    def _is_message(self, record: Record) -> bool:
        is_of_single_node = (record.value or b"").startswith(ALONE)
        return not is_of_single_node and super()._is_message(record)

    def _check_content(self, number: int, data: bytes, start: Offset) -> None:
        super()._check_content(number, data, start)
        found = [decode(data, position) for position in scan(data).columns.positions]
        kept = [
            (each.offset, each.value) for each in found if (each.value or b"").startswith(ALONE)
        ]
        expected = [(offset, b"%s-%d" % (ALONE, offset)) for offset in range(start, COUNT)]
        assert kept == expected, LogId(TOPIC, number)
        self.kept_total += len(kept)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_cluster_that_began_as_a_single_node_keeps_what_that_had(seed: int) -> None:
    run = ConvertedRun(seed)
    run.live()
    assert run.acked_total, "it takes messages as well"
