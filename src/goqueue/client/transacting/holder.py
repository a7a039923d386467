"""Who holds a transactional id on this connection: initialised once, one transaction at a time.

Takes a new epoch where the old one is spent, after asking whether it is still the newest: an id
that another process took over is never taken back. That happens at once, not with the next
transaction: as long as one is undecided, nobody is told the positions that it would commit.

Invariant: when a transaction begins, no request of an earlier one can still be taken for its own.
"""

import asyncio
import contextlib

from goqueue.client.errors import (
    Closed,
    GoQueueError,
    ProducerFenced,
    ProducerNotFound,
    TransactionStateInvalid,
    raise_for,
)
from goqueue.client.producing import ProducerConfig
from goqueue.client.tasks import Tasks
from goqueue.client.transacting.coordinator import Coordinator
from goqueue.client.transacting.tenure import ProducerEpoch
from goqueue.client.transport import Transport, is_worth_retrying

__all__ = ["TransactionalId"]

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
            await asyncio.sleep(_PAUSE_S)

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
