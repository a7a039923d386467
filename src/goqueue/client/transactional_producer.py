"""A transactional id and its epochs: who may write, and in which transaction.

- `ProducerEpoch` owns the producer that numbers its batches. Numbers continue from transaction to
  transaction. The epoch ends when the outcome of a batch stays unknown: should that batch arrive
  late, the broker could not tell it from one of the next transaction.
- `Coordinator` has the calls, one per route, and decides nothing. All but `begin` may be repeated.
  But a call names its producer and epoch, not its transaction: one that arrives late would act on
  the next transaction. So the epoch is told of each attempt with an unknown outcome, and ends.
- `TransactionalId` initialises the id once on this connection and runs one transaction at a time.
  It takes a new epoch where the old one has ended, after checking that no other process has taken
  the id over, and does so at once: until the transaction is decided, nobody can read the positions
  that it would commit.

Invariant: when a transaction begins, no request of an earlier one can still take effect in it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import msgspec

from goqueue.client.batch import Fixed, Identity, ProducerConfig, init_producer
from goqueue.client.errors import (
    Closed,
    GoQueueError,
    ProducerFenced,
    ProducerNotFound,
    TransactionAborted,
    TransactionStateInvalid,
    raise_for,
)
from goqueue.client.http import Request, Transport, post
from goqueue.client.producer import Producer
from goqueue.client.retries import is_worth_retrying
from goqueue.client.stream_consumer import Progress
from goqueue.client.tasks import Tasks
from goqueue.model.requests import Owner

__all__ = ["Coordinator", "ProducerEpoch", "TransactionalId", "commit_group"]

# Far below the last number, so that no transaction comes near it.
_NUMBER_MAX = 2**30


class ProducerEpoch:
    """Good for one transaction after the other, until it `is_spent`."""

    def __init__(
        self,
        transport: Transport,
        tasks: Tasks,
        owner: Owner,
        gathering: ProducerConfig,
        timeout_s: float,
    ) -> None:
        registry = Fixed(Identity(owner.producer_id, owner.epoch))
        self.owner = owner
        self.timeout_s = timeout_s
        # Of the transaction that is open, or was the last.
        self.transaction_id = ""
        self.producer = Producer(transport, tasks, gathering, registry)
        self._is_spent = False

    @property
    def is_spent(self) -> bool:
        producer = self.producer
        return self._is_spent or producer.is_lost or producer.following > _NUMBER_MAX

    def spend(self) -> None:
        """The next transaction needs another epoch."""
        self._is_spent = True

    async def give_up(self) -> None:
        """Send nothing more of what waits. What is under way is nobody's any more."""
        words = "the transaction was aborted before the message was sent"
        if self.producer.discard(TransactionAborted("transaction_aborted", words)):
            self.spend()
        if self.is_spent:
            # Said once more: the producer forgets what it was spent by.
            self.spend()
            await self.producer.end()


class _Begun(msgspec.Struct, frozen=True):
    transaction_id: str


class _Status(msgspec.Struct, frozen=True):
    status: str


_BEGUN = msgspec.json.Decoder(_Begun)
_STATUS = msgspec.json.Decoder(_Status)


class Coordinator:
    """The broker's side of transactions."""

    def __init__(self, transport: Transport, on_doubt: Callable[[], None]) -> None:
        self._transport = transport
        self.clock = transport.clock
        self._on_doubt = on_doubt

    async def register(self) -> Identity:
        """Become an idempotent producer without transactions."""
        return await init_producer(self._transport)

    async def init(self, transactional_id: str, timeout_s: float) -> Owner:
        """Hold the transactional id from now on; who held it before is fenced."""
        granted = await init_producer(
            self._transport,
            transactional_id=transactional_id,
            transaction_timeout_ms=round(timeout_s * 1000),
        )
        return Owner(
            producer_id=granted.producer_id,
            epoch=granted.epoch,
            transactional_id=transactional_id,
        )

    async def beat(self, owner: Owner) -> None:
        """Say that the producer lives; raises if it is fenced."""
        fields: dict[str, object] = {"epoch": owner.epoch}
        await self._transport.ask(
            post("producers", owner.producer_id, "heartbeat", fields=fields, is_repeatable=True)
        )

    async def begin(self, owner: Owner) -> str:
        """Open a transaction. Not repeated: the second call would find it open."""
        request = _step("begin", owner, is_repeatable=False)
        return (await self._transport.read(request, _BEGUN, self._on_doubt)).transaction_id

    async def add_offsets(self, owner: Owner, progress: Progress) -> None:
        """Let the progress of a group take effect with the transaction."""
        by_topic: dict[str, dict[str, int]] = {}
        for log, offset in progress.offsets.items():
            by_topic.setdefault(log.topic, {})[str(log.partition)] = offset
        request = _step(
            "offsets",
            owner,
            group=progress.group,
            offsets=by_topic,
            member_id=progress.member_id,
            generation=progress.generation,
        )
        await self._transport.ask(request, self._on_doubt)

    async def add_acks(self, owner: Owner, group: str, receipt_handles: Sequence[str]) -> None:
        """Let acknowledgements take effect with the transaction; all or none."""
        request = _step("offsets", owner, group=group, receipt_handles=receipt_handles)
        await self._transport.ask(request, self._on_doubt)

    async def prepare(self, owner: Owner) -> str:
        """Take no more, and wait for the decision of a group."""
        request = _step("prepare", owner)
        return (await self._transport.read(request, _BEGUN, self._on_doubt)).transaction_id

    async def commit(self, owner: Owner) -> None:
        await self._transport.read(_step("commit", owner), _STATUS, self._on_doubt)

    async def abort(self, owner: Owner) -> None:
        await self._transport.read(_step("abort", owner), _STATUS, self._on_doubt)


async def commit_group(transport: Transport, key: str, transaction_ids: Sequence[str]) -> bool:
    """Whether this call committed them; if not, the key was committed before."""
    fields: dict[str, object] = {"key": key, "transaction_ids": transaction_ids}
    request = post("transactions", "commit-group", fields=fields, is_repeatable=True)
    return (await transport.read(request, _STATUS)).status == "committed"


def _step(step: str, owner: Owner, *, is_repeatable: bool = True, **fields: object) -> Request:
    given: dict[str, object] = {**msgspec.structs.asdict(owner), **fields}
    return post("transactions", step, fields=given, is_repeatable=is_repeatable)


# As often as any request is tried.
_BEGINNINGS_MAX = 8
_PAUSE_S = 0.5


class TransactionalId:
    """The transactional id `name`."""

    def __init__(
        self, name: str, transport: Transport, tasks: Tasks, gathering: ProducerConfig
    ) -> None:
        self.name = name
        self.coordinator = Coordinator(transport, self._note_doubt)
        self.tasks = tasks
        self._transport = transport
        self._gathering = gathering
        self._tenure: ProducerEpoch | None = None
        self._is_fenced = False
        self._is_taken = False
        # Left to the decision of a group: not ours to end by a new epoch.
        self._is_prepared = False
        self._renewing = asyncio.Lock()

    async def take_over(self, timeout_s: float) -> None:
        """Hold the id from now on, if that is not so already."""
        if self._is_taken or self._is_prepared:
            return
        try:
            await self._present(timeout_s)
        except GoQueueError as error:
            raise_for(self.told(error), error)

    async def begin(self, timeout_s: float) -> ProducerEpoch:
        """Open a transaction; until `leave` there is no other."""
        if self._is_taken:
            words = f"a transaction of {self.name!r} is open on this connection: one at a time"
            raise TransactionStateInvalid("transaction_state_invalid", words)
        self._is_taken = True
        try:
            return await self._begin(timeout_s)
        except GoQueueError as error:
            told = self.told(error)
            self.leave()
            raise_for(told, error)
        except BaseException:
            self.leave()
            raise

    def leave(self, *, is_prepared: bool = False) -> None:
        """The transaction has ended, as far as this side can tell, or waits for its group."""
        self._is_taken = False
        self._is_prepared = self._is_prepared or is_prepared
        tenure = self._tenure
        is_free = not self._is_fenced and not self._is_prepared
        if tenure is not None and tenure.is_spent and is_free:
            with contextlib.suppress(Closed):
                self.tasks.start(self._recover(tenure))

    def told(self, error: GoQueueError) -> GoQueueError:
        """The error in words about this id; one that is fenced stays so."""
        if not isinstance(error, ProducerFenced):
            return error
        self._is_fenced = True
        return self._fence()

    async def close(self) -> None:
        """Send nothing more, and abort what is open, or it would hold up its readers."""
        tenure = self._tenure
        if tenure is None:
            return
        is_undecided = self._is_taken or (tenure.is_spent and not self._is_prepared)
        tenure.spend()
        await tenure.give_up()
        if is_undecided:
            with contextlib.suppress(GoQueueError):
                await self.coordinator.abort(tenure.owner)

    async def _begin(self, timeout_s: float) -> ProducerEpoch:
        if self._is_prepared:
            await self._check_decided()
        attempt = 0
        while True:
            attempt += 1
            tenure = await self._present(timeout_s)
            try:
                tenure.transaction_id = await self.coordinator.begin(tenure.owner)
                return tenure
            except GoQueueError as error:
                is_forgotten = isinstance(error, ProducerNotFound)
                if not (is_forgotten or error.is_outcome_unknown) or attempt == _BEGINNINGS_MAX:
                    raise
                tenure.spend()

    async def _check_decided(self) -> None:
        """Raises as long as what was prepared waits for its group."""
        assert self._tenure is not None, "prepared without an epoch"
        await self.coordinator.begin(self._tenure.owner)
        await self.coordinator.abort(self._tenure.owner)
        self._is_prepared = False

    def _note_doubt(self) -> None:
        """A call may arrive late: the next transaction is another epoch's, which refuses it."""
        if self._tenure is not None:
            self._tenure.spend()

    async def _recover(self, spent: ProducerEpoch) -> None:
        """End what may have been left open, unless whoever begins the next one has done it."""
        while not self._is_fenced:
            try:
                async with self._renewing:
                    if self._tenure is spent and not self._is_fenced:
                        await self._renew(spent.timeout_s)
                return
            except GoQueueError as error:
                self.told(error)
                if not is_worth_retrying(error, is_repeatable=True):
                    return
            await self._transport.clock.pause(_PAUSE_S)

    async def _present(self, timeout_s: float) -> ProducerEpoch:
        """The epoch that is ours, a new one if need be."""
        async with self._renewing:
            if self._is_fenced:
                raise self._fence()
            tenure = self._tenure
            if tenure is not None and not tenure.is_spent and tenure.timeout_s == timeout_s:
                return tenure
            return await self._renew(timeout_s)

    async def _renew(self, timeout_s: float) -> ProducerEpoch:
        if self._tenure is not None:
            await self._check_newest(self._tenure)
            await self._tenure.producer.end()
        owner = await self.coordinator.init(self.name, timeout_s)
        self._tenure = ProducerEpoch(self._transport, self.tasks, owner, self._gathering, timeout_s)
        return self._tenure

    async def _check_newest(self, tenure: ProducerEpoch) -> None:
        """Raises if another took over; then nobody here tries to take the id back."""
        try:
            await self.coordinator.beat(tenure.owner)
        except ProducerNotFound:
            # Forgotten, so that nobody else can hold it either.
            return
        except ProducerFenced as error:
            raise_for(self.told(error), error)

    def _fence(self) -> ProducerFenced:
        words = f"another process took over the transactional id {self.name!r}"
        return ProducerFenced("producer_fenced", words, status=409)
