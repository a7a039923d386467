"""A transaction: publishes, offsets and acks that take effect together.

- Leaving the block commits; leaving it by an exception aborts, and the exception propagates. If one
  publish or ack of the transaction fails, the commit fails.
- The commit is repeated until its outcome is known, which is safe: the same call has the same
  answer. If no answer arrives in time, the error says that the outcome is unknown.
- Acks are sent in batches: when there are enough, with each heartbeat, and before the commit. An
  added message is held by the transaction, so its lease no longer expires and is not renewed.

Invariant: a block that was left without an exception was committed.
"""

import asyncio
import enum
import logging
from collections.abc import Awaitable, Mapping, Sequence
from types import TracebackType

from goqueue.client.batch import ProducerConfig, Receipt
from goqueue.client.errors import (
    Closed,
    GoQueueError,
    ProducerFenced,
    ProducerNotFound,
    TransactionAborted,
    TransactionOutcomeUnknown,
    TransactionStateInvalid,
    raise_for,
)
from goqueue.client.http import Transport
from goqueue.client.message import Lease, Message
from goqueue.client.retries import is_worth_retrying
from goqueue.client.stream_consumer import OffsetSource, Progress
from goqueue.client.tasks import Tasks
from goqueue.client.transactional_producer import (
    Coordinator,
    ProducerEpoch,
    TransactionalId,
    commit_group,
)
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
from goqueue.model.requests import Owner, TransactionState

__all__ = ["Acks", "Transaction", "TransactionFactory", "decide"]

_PAUSE_S = 0.1


async def decide(coordinator: Coordinator, owner: Owner, patience_s: float) -> None:
    """Commit. Raises `TransactionAborted` if it was aborted, and another error if it is open."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + patience_s
    is_unknown = False
    while True:
        try:
            await coordinator.commit(owner)
            return
        except GoQueueError as error:
            is_unknown = is_unknown or error.is_outcome_unknown
            state = error.details.get("state")
            if isinstance(error, TransactionStateInvalid):
                if state == TransactionState.COMPLETED_COMMIT:
                    return
                if state != TransactionState.PREPARING_COMMIT:
                    raise _aborted(owner, error) from error
            elif isinstance(error, TransactionAborted):
                raise
            elif not is_worth_retrying(error, is_repeatable=True) or clock() >= deadline:
                raise_for(_undecided(owner, error, is_unknown), error)
        await coordinator.clock.pause(_PAUSE_S)


def _aborted(owner: Owner, error: GoQueueError) -> GoQueueError:
    words = f"the transaction of {owner.transactional_id!r} had ended before: {error}"
    return TransactionAborted("transaction_aborted", words, details=error.details)


def _undecided(owner: Owner, error: GoQueueError, is_unknown: bool) -> GoQueueError:
    """No answer came that tells the outcome."""
    if not is_unknown:
        return error
    if isinstance(error, ProducerFenced | ProducerNotFound):
        words = "another took over before the answer to the commit came"
    else:
        words = f"no answer to the commit: {error}"
    return TransactionOutcomeUnknown(
        f"whether the transaction of {owner.transactional_id!r} was committed is unknown: {words}"
    )


_BATCH_MAX = 1000


class Acks:
    """What one transaction acknowledges, by group."""

    def __init__(self, coordinator: Coordinator, owner: Owner) -> None:
        self._coordinator = coordinator
        self._owner = owner
        self._waiting: dict[str, list[Lease]] = {}
        self._adding = asyncio.Lock()

    async def add(self, lease: Lease) -> None:
        waiting = self._waiting.setdefault(lease.group, [])
        waiting.append(lease)
        if len(waiting) >= _BATCH_MAX:
            await self.flush()

    async def flush(self) -> None:
        """Add what waits; raises if the broker will not have it, and then again next time."""
        async with self._adding:
            while self._waiting:
                group = next(iter(self._waiting))
                waiting = self._waiting[group]
                batch = waiting[:_BATCH_MAX]
                receipt_handles = [lease.receipt_handle for lease in batch]
                await self._coordinator.add_acks(self._owner, group, receipt_handles)
                for lease in batch:
                    lease.end()
                # Only now: a call that is cancelled has acknowledged nothing.
                del waiting[: len(batch)]
                if not waiting:
                    del self._waiting[group]


_log = logging.getLogger("goqueue.client")

# The broker gives up a producer that is silent for 30 s.
_BEAT_S = 5.0


class _State(enum.Enum):
    NEW = "has not begun: use `async with`"
    OPEN = "is open"
    ENDING = "is ending"
    PREPARED = "is prepared"
    ENDED = "has ended"


class Transaction:
    """`async with q.transaction("billing-1") as tx: ...`; for any number of tasks in the block."""

    def __init__(
        self,
        holder: TransactionalId,
        reading: OffsetSource | None = None,
        *,
        timeout_s: float = 60.0,
        beat_s: float = _BEAT_S,
    ) -> None:
        self._holder = holder
        self._reading = reading
        self._timeout_s = timeout_s
        self._beat_s = beat_s
        self._state = _State.NEW
        self._failure: GoQueueError | None = None
        # Calls of the block that are under way, and who waits until none is.
        self._busy = 0
        self._is_quiet = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._tenure: ProducerEpoch
        self._acks: Acks
        self._transaction_id = ""

    async def __aenter__(self) -> "Transaction":
        if self._state is not _State.NEW:
            words = "a transaction is used once: ask the connection for another"
            raise TransactionStateInvalid("transaction_state_invalid", words)
        if self._reading is not None:
            self._reading.check()
        self._tenure = await self._holder.begin(self._timeout_s)
        self._acks = Acks(self._holder.coordinator, self._tenure.owner)
        self._transaction_id = self._tenure.transaction_id
        self._state = _State.OPEN
        self._beating = self._holder.tasks.start(self._keep_alive())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._state is _State.ENDED:
            return
        if error is not None:
            await self._abandon()
        elif self._state is _State.OPEN:
            await self._commit()
        else:
            self._end()

    @property
    def transaction_id(self) -> str:
        """What names it to operators, once it has begun."""
        return self._transaction_id

    async def publish(  # noqa: PLR0913 - one for each property of a message
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
    ) -> Receipt:
        """Take a message in; it is seen when the transaction is committed.

        The options are those of `Connection.publish`. The receipt tells where it went, as that of a
        producer does, and need not be awaited.
        """
        self._check_open()
        self._busy += 1
        try:
            return await self._tenure.producer.send(
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
        finally:
            self._rest()

    async def ack(self, message: Message) -> None:
        """Acknowledge a leased message if the transaction is committed.

        If it is aborted, the lease runs on to its deadline.
        """
        self._check_open()
        await self._add(self._acks.add(message.held()))

    async def send_offsets(
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
        self._check_open()
        progress = Progress(
            group=group, offsets=dict(offsets), member_id=member_id, generation=generation
        )
        await self._add(self._holder.coordinator.add_offsets(self._tenure.owner, progress))

    async def prepare(self) -> str:
        """Take no more and wait for `q.commit_group`, for an hour at most; the transaction's id.

        Leaving the block then decides nothing. Leaving it by an exception still aborts.
        """
        self._check_open()
        if self._reading is not None:
            words = "who commits the group cannot tell a consumer of it: use send_offsets"
            raise TransactionStateInvalid("transaction_state_invalid", words)
        self._state = _State.ENDING
        try:
            await self._complete()
            transaction_id = await self._holder.coordinator.prepare(self._tenure.owner)
        except GoQueueError as error:
            await self._abandon()
            raise_for(self._aborted(error), error)
        except BaseException:
            await self._abandon()
            raise
        self._state = _State.PREPARED
        return transaction_id

    async def abort(self) -> None:
        """Nothing of the transaction will be seen; the block may be left in peace."""
        if self._state is _State.ENDED:
            return
        if self._state is _State.NEW:
            self._check_open()
        error = await self._abandon()
        if error is not None:
            raise_for(self._holder.told(error), error)

    def _check_open(self) -> None:
        if self._state is not _State.OPEN:
            words = f"the transaction {self._state.value}"
            raise TransactionStateInvalid("transaction_state_invalid", words)
        failure = self._failure or self._tenure.producer.failure
        if failure is not None:
            raise_for(self._aborted(failure), failure)

    async def _add(self, adding: Awaitable[None]) -> None:
        """What cannot be added is missing from then on, whether the caller minds or not."""
        self._busy += 1
        try:
            await adding
        except GoQueueError as error:
            self._failure = self._failure or error
            raise_for(self._holder.told(error), error)
        finally:
            self._rest()

    def _rest(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._is_quiet.set()

    async def _complete(self) -> None:
        """Let everything that belongs to the transaction arrive; raises what did not."""
        while self._busy:
            self._is_quiet.clear()
            await self._is_quiet.wait()
        await self._acks.flush()
        await self._tenure.producer.drain()
        failure = self._failure or self._tenure.producer.failure
        if failure is not None:
            raise failure

    async def _commit(self) -> None:
        progress: Progress | None = None
        self._state = _State.ENDING
        try:
            await self._complete()
            if self._reading is not None:
                progress = self._reading.progress()
                if progress.offsets:
                    await self._holder.coordinator.add_offsets(self._tenure.owner, progress)
        except GoQueueError as error:
            await self._abandon()
            raise_for(self._aborted(error), error)
        except BaseException:
            await self._abandon()
            raise
        await self._decide(progress)

    async def _decide(self, progress: Progress | None) -> None:
        is_committed = False
        try:
            await decide(self._holder.coordinator, self._tenure.owner, self._timeout_s)
            is_committed = True
        except (TransactionAborted, TransactionOutcomeUnknown):
            raise
        except GoQueueError as error:
            await self._abandon()
            raise_for(self._aborted(error), error)
        finally:
            if self._state is not _State.ENDED:
                self._end()
                self._settle(progress, is_committed=is_committed)

    def _settle(self, progress: Progress | None, *, is_committed: bool) -> None:
        if self._reading is None:
            return
        if is_committed and progress is not None:
            self._reading.note_committed(progress)
        else:
            self._reading.rewind()

    async def _abandon(self) -> GoQueueError | None:
        """Abort, whatever it takes. What goes wrong with that is told, not raised."""
        is_aborted = False
        self._state = _State.ENDED
        if self._busy:
            # What the block still has under way must not end up in the next one.
            self._tenure.spend()
        try:
            await self._stop_beating()
            await self._tenure.give_up()
            await self._holder.coordinator.abort(self._tenure.owner)
            is_aborted = True
        except GoQueueError as error:
            told = self._holder.told(error)
            if not isinstance(told, ProducerFenced):
                _log.warning("aborting a transaction of %s: %s", self._holder.name, told)
            return told
        finally:
            if not is_aborted:
                # The next one takes a new epoch, which ends this one.
                self._tenure.spend()
            self._end()
            self._settle(None, is_committed=False)
        return None

    def _end(self) -> None:
        is_prepared = self._state is _State.PREPARED
        self._state = _State.ENDED
        if self._beating is not None:
            self._beating.cancel()
        self._holder.leave(is_prepared=is_prepared)

    async def _stop_beating(self) -> None:
        """Wait for its end, too: it may be about to add something."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    def _aborted(self, cause: GoQueueError) -> GoQueueError:
        """What a caller is told when the transaction was given up because of `cause`."""
        told = self._holder.told(cause)
        if isinstance(told, ProducerFenced | TransactionAborted | Closed):
            return told
        words = f"the transaction of {self._holder.name!r} was aborted: {cause}"
        return TransactionAborted("transaction_aborted", words, details=cause.details)

    async def _keep_alive(self) -> None:
        while True:
            await self._holder.coordinator.clock.sleep(self._beat_s)
            try:
                await self._acks.flush()
                await self._holder.coordinator.beat(self._tenure.owner)
            except GoQueueError as error:
                if not is_worth_retrying(error, is_repeatable=True):
                    self._failure = self._failure or error
                    return
                _log.warning("heartbeat of %s: %s", self._holder.name, error)


class TransactionFactory:
    """Makes transactions; those of one id are of one holder."""

    def __init__(self, transport: Transport, tasks: Tasks) -> None:
        self._transport = transport
        self._tasks = tasks
        self._holders: dict[str, TransactionalId] = {}

    def transaction(
        self, transactional_id: str, reading: OffsetSource | None, timeout_s: float
    ) -> Transaction:
        return Transaction(self._holder(transactional_id), reading, timeout_s=timeout_s)

    async def take_over(self, transactional_id: str, timeout_s: float) -> None:
        await self._holder(transactional_id).take_over(timeout_s)

    async def commit_group(self, key: str, transaction_ids: Sequence[str]) -> bool:
        return await commit_group(self._transport, key, transaction_ids)

    async def close(self) -> None:
        """Abort what is open."""
        for holder in self._holders.values():
            await holder.close()

    def _holder(self, transactional_id: str) -> TransactionalId:
        holder = self._holders.get(transactional_id)
        if holder is None:
            holder = TransactionalId(
                transactional_id, self._transport, self._tasks, ProducerConfig()
            )
            self._holders[transactional_id] = holder
        return holder
