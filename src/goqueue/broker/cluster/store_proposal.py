"""A record on its way into an external store: the transactions that write it, the end last.

Compare and append: the transaction that makes the record count compares the epoch of the
controller and the revision of the head that it was decided on. So it may be sent again when there
was no reply: of all tries at most one is done, and only where nothing else came before.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from goqueue.broker.cluster.etcd_calls import Compare, DeleteKeys, PutKey, Transaction
from goqueue.broker.cluster.store_records import StoredHead, StoredRecord, StoreKeys
from goqueue.cluster import ClusterCreated, MetadataChange
from goqueue.model import Answer, Instant, Offset

__all__ = ["KnownHead", "StoreProposal"]


class KnownHead(msgspec.Struct, frozen=True):
    """The head as it was seen, None if there was none, and the revision at which it was written."""

    head: StoredHead | None
    revision: int


class StoreProposal:
    """One record, and who waits for it."""

    def __init__(
        self,
        record: StoredRecord,
        changes: Sequence[MetadataChange],
        answers: Sequence[Answer],
        encoded: bytes,
        *,
        part_bytes: int,
        states_from: Offset | None,
    ) -> None:
        self.record = record
        self.answers = tuple(answers)
        # Where a statement began that this record completes: what is before may go.
        self.states_from = states_from
        # When it is sent again; None: a try is on its way.
        self.retry_at: Instant | None = None
        # Whether its comparisons failed: then the records tell what became of it.
        self.is_refused = False
        self._created = [each for each in changes if isinstance(each, ClusterCreated)]
        self._encoded = encoded
        self._part_bytes = part_bytes
        self._calls: deque[Transaction] = deque()

    def prepare(self, keys: StoreKeys, known: KnownHead) -> None:
        """Decide on the transactions, by the head that this record follows."""
        self._calls.extend(self._parts(keys))
        self._calls.append(self._end(keys, known))

    @property
    def call(self) -> Transaction:
        """What is to be done next."""
        return self._calls[0]

    def done(self) -> bool:
        """The transaction was done; whether it was the last."""
        self._calls.popleft()
        return not self._calls

    def _parts(self, keys: StoreKeys) -> Iterator[Transaction]:
        is_mine = Compare.created(keys.controller, self.record.epoch)
        for key, piece in keys.pieces(self.record, self._encoded, self._part_bytes):
            yield Transaction.of([is_mine], [PutKey(key=key, value=piece)])

    def _end(self, keys: StoreKeys, known: KnownHead) -> Transaction:
        record, before = self.record, known.head
        base = 1 if before is None else before.base
        head = StoredHead(
            cluster_id=self._created[0].cluster_id if before is None else before.cluster_id,
            version=record.version,
            digest=record.digest,
            base=base if self.states_from is None else int(self.states_from),
        )
        deleted = []
        if head.base > base:
            deleted = [
                DeleteKeys(key=keys.record(0), range_end=keys.record(head.base)),
                DeleteKeys(key=keys.parts(0), range_end=keys.parts(head.base)),
            ]
        compared = [
            Compare.created(keys.controller, record.epoch),
            Compare.modified(keys.head, known.revision),
        ]
        written = [
            PutKey(key=keys.record(record.version), value=msgspec.json.encode(record)),
            PutKey(key=keys.head, value=msgspec.json.encode(head)),
        ]
        return Transaction.of(compared, written, deleted)
