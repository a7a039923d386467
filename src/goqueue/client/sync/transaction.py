"""A transaction for threads."""

from collections.abc import Mapping
from types import TracebackType

from goqueue.client.producer import Due
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.sync.message import SyncMessage
from goqueue.client.sync.producer import SyncReceipt
from goqueue.client.transaction import Transaction
from goqueue.client.values import Headers, Value
from goqueue.model import LogId, Priority

__all__ = ["SyncTransaction"]

_NORMAL = int(Priority.NORMAL)


class SyncTransaction:
    """`with q.transaction("billing-1") as tx: ...`; see `Transaction`."""

    def __init__(self, loop: LoopThread, transaction: Transaction) -> None:
        self._loop = loop
        self._transaction = transaction

    def __enter__(self) -> "SyncTransaction":
        self._loop.call(self._transaction.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call(self._transaction.__aexit__(kind, error, trace))

    @property
    def transaction_id(self) -> str:
        """What names it to operators, once it has begun."""
        return self._transaction.transaction_id

    def publish(
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | str = _NORMAL,
        due: Due | None = None,
    ) -> SyncReceipt:
        """Take a message in; it is seen when the transaction is committed."""
        publishing = self._transaction.publish(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            priority=priority,
            due=due,
        )
        return SyncReceipt(self._loop, self._loop.call(publishing))

    def ack(self, message: SyncMessage) -> None:
        """Acknowledge a leased message if the transaction is committed."""
        self._loop.call(self._transaction.ack(message.message))

    def send_offsets(
        self,
        group: str,
        offsets: Mapping[LogId, int],
        *,
        member_id: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Commit positions of a group with the transaction: each the next offset to read."""
        sending = self._transaction.send_offsets(
            group, offsets, member_id=member_id, generation=generation
        )
        self._loop.call(sending)

    def prepare(self) -> str:
        """Take no more and wait for `q.commit_group`; the transaction's id."""
        return self._loop.call(self._transaction.prepare())

    def abort(self) -> None:
        """Nothing of the transaction will be seen."""
        self._loop.call(self._transaction.abort())
