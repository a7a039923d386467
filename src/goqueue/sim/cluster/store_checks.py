"""What must hold of metadata in an external store, whatever happens to brokers and to the store.

The history of images is judged as in `QuorumChecks`: one history, an id has one directory, a broker
that decides has all that was committed. Beside that the store itself is read after each
transaction: nothing that the head counts ever changes or is missing, each epoch adds to the log
while it holds the key of the controller only, and each proposal is in the log once.
"""

import msgspec

from goqueue.broker import ExternalMetadata
from goqueue.cluster import Voter
from goqueue.model import Send
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.quorum_checks import QuorumChecks
from goqueue.sim.cluster.simulated_etcd import SimulatedEtcd
from goqueue.sim.oracle import Violation

__all__ = ["StoreChecks", "store_of"]


class _Record(msgspec.Struct, frozen=True):
    version: int
    epoch: int
    before: str
    digest: str
    parts: int = 0
    changes: msgspec.Raw = msgspec.Raw(b"[]")


class _Head(msgspec.Struct, frozen=True):
    version: int
    base: int


def store_of(machine: BrokerMachine) -> ExternalMetadata | None:
    """What a broker knows of the store."""
    member = machine.node.cluster
    metadata = None if member is None else member.metadata
    assert metadata is None or isinstance(metadata, ExternalMetadata)
    return metadata


class StoreChecks(QuorumChecks):
    """The history of a world, and its judge."""

    def __init__(self) -> None:
        super().__init__()
        self._log: dict[int, _Record] = {}
        self._head = _Head(0, 1)
        self._controllers: dict[int, str] = {}
        # Where the log ends in a backup that is in the place of the store: nobody may build on it.
        self._restored: int | None = None
        self.parts_total = 0
        self.bases_total = 0

    def sending(self, machine: BrokerMachine, effect: Send) -> None:
        """Brokers say nothing of votes."""

    def turned(self, machine: BrokerMachine) -> None:
        metadata = store_of(machine)
        if metadata is None:
            return
        image, term = metadata.image, metadata.election.term
        facts = (image.version, term, int(metadata.is_controller))
        if self._seen.get(id(machine)) == facts:
            return
        self._seen[id(machine)] = facts
        who = Voter(machine.process.name, machine.process.directory)
        self._check_image(who, image)
        if metadata.is_controller:
            known = self._controllers.setdefault(term, who.broker)
            if known != who.broker:
                raise Violation("one controller per epoch", f"{known} and {who.broker} in {term}")
            self.elections_total = len(self._controllers)
            self._check_complete(who, image.cluster_id, image.version, term)

    def backup_restored(self, etcd: SimulatedEtcd) -> None:
        """An operator restored a backup."""
        self._restored = _head_of(etcd).version

    def backup_replaced(self) -> None:
        """What was there is there again."""
        self._restored = None

    def written(self, etcd: SimulatedEtcd) -> None:
        """A transaction was done."""
        head = _head_of(etcd)
        if self._restored is not None:
            if head.version > self._restored:
                raise Violation("nobody builds on a backup", f"version {head.version}")
            return
        if head == self._head:
            return
        self.bases_total += head.base > self._head.base
        self._head = head
        stored = etcd.content(b"/goqueue/log/")
        records = {
            each.version: each
            for each in (msgspec.json.decode(value, type=_Record) for value in stored.values())
        }
        for version in range(head.base, head.version + 1):
            found = records.get(version)
            if found is None or self._log.setdefault(version, found) != found:
                raise Violation("the log of the store only grows", f"{version}: {found}")
        self._check_newest(etcd, head)

    def _check_newest(self, etcd: SimulatedEtcd, head: _Head) -> None:
        newest, before = self._log[head.version], self._log.get(head.version - 1)
        place = f"/goqueue/parts/{newest.version:020d}/{newest.epoch:020d}/"
        held = len(etcd.content(place.encode()))
        if held < newest.parts:
            raise Violation("a record is whole", f"{held} parts of {newest.parts}")
        self.parts_total += newest.parts
        if before is None:
            return
        if newest.before != before.digest:
            raise Violation("a record follows another", f"{newest.version}")
        if newest.epoch != etcd.created_at(b"/goqueue/live/controller"):
            raise Violation("a deposed controller adds nothing", f"{newest.version}")
        is_again = not newest.parts and bytes(newest.changes) == bytes(before.changes)
        if newest.epoch == before.epoch and is_again:
            again = bytes(newest.changes).decode()
            raise Violation("a proposal is in the log once", f"{newest.version}: {again}")


def _head_of(etcd: SimulatedEtcd) -> _Head:
    live = etcd.content(b"/goqueue/live/head")
    return next((msgspec.json.decode(value, type=_Head) for value in live.values()), _Head(0, 1))
