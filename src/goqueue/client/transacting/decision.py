"""The commit of a transaction, asked for until its outcome is known.

The same call answers the same again, so it is repeated as long as no answer comes. Where no answer
comes in time, or one that does not tell what an earlier attempt did, that is said.
"""

import asyncio

from goqueue.client.errors import (
    GoQueueError,
    ProducerFenced,
    ProducerNotFound,
    TransactionAborted,
    TransactionOutcomeUnknown,
    TransactionStateInvalid,
    raise_for,
)
from goqueue.client.transacting.coordinator import Coordinator
from goqueue.client.transport import is_worth_retrying
from goqueue.model.requests import Owner, TransactionState

__all__ = ["decide"]

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
        await asyncio.sleep(_PAUSE_S)


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
