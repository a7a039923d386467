"""A transaction for threads."""

from collections.abc import Mapping
from types import TracebackType

from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.sync.message import SyncMessage
from goqueue.client.sync.producer import SyncReceipt
from goqueue.client.transaction import Transaction
from goqueue.client.values import (
    NORMAL_PRIORITY,
    Delay,
    DeliverAt,
    Due,
    Headers,
    PriorityName,
    Value,
)
from goqueue.model import LogId

__all__ = ["SyncTransaction"]


class SyncTransaction:
    # Generated from Transaction by `make sync-client`.
    """`with q.transaction("billing-1") as tx: ...`; for any number of threads in the block."""

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
        priority: int | PriorityName = NORMAL_PRIORITY,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
        due: Due | None = None,
    ) -> SyncReceipt:
        """Take a message in; it is seen when the transaction is committed.

        The options are those of `Connection.publish`. The receipt tells where it went, as that of a
        producer does, and need not be waited for.
        """
        return SyncReceipt(
            self._loop,
            self._loop.call(
                self._transaction.publish(
                    topic,
                    value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    priority=priority,
                    delay=delay,
                    deliver_at=deliver_at,
                    due=due,
                )
            ),
        )

    def ack(self, message: SyncMessage) -> None:
        """Acknowledge a leased message if the transaction is committed.

        If it is aborted, the lease runs on to its deadline.
        """
        self._loop.call(self._transaction.ack(message.message))

    def send_offsets(
        self,
        group: str,
        offsets: Mapping[LogId, int],
        *,
        member_id: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Commit positions of a group with the transaction: each the next offset to read.

        For readers other than `q.subscribe`, whose consumer is handed to the transaction.
        """
        self._loop.call(
            self._transaction.send_offsets(
                group, offsets, member_id=member_id, generation=generation
            )
        )

    def prepare(self) -> str:
        """Take no more and wait for `q.commit_group`, for an hour at most; the transaction's id.

        Leaving the block then decides nothing. Leaving it by an exception still aborts.
        """
        return self._loop.call(self._transaction.prepare())

    def abort(self) -> None:
        """Nothing of the transaction will be seen; the block may be left in peace."""
        self._loop.call(self._transaction.abort())
