"""The driver's word on what tasks have staged: one decision for all of them, under a key.

A second attempt at the same write has the same key, and so is committed once, whoever is killed and
whenever. Task ids do not name the batch: the next one, and a restarted query, hold them anew, which
aborts what an earlier one left open.

Invariant: only transactions that a commit names are ever seen.
"""

import logging
import re
from collections.abc import Sequence

from goqueue.client import (
    GoQueueError,
    NotFound,
    ProducerFenced,
    TransactionAborted,
    TransactionStateInvalid,
)
from goqueue.spark.broker import broker
from goqueue.spark.options import WriteOptions
from goqueue.spark.writing.staging import Staged

__all__ = ["Decision"]

_LOG = logging.getLogger(__name__)
_GROUP_MAX = 1000


class Decision:
    """The driver's word on all tasks of a write, or of a micro-batch."""

    def __init__(self, options: WriteOptions, family: str, batch: int | None) -> None:
        self._link = broker(options.link)
        self._family = family
        self._batch = batch

    def commit(self, staged: Sequence[Staged]) -> None:
        """Commit what the tasks left, unless that was done before; nothing if they left nothing."""
        owners = [each.owner for each in staged if each.owner is not None]
        if not owners:
            return
        if len(owners) > _GROUP_MAX:
            words = f"{len(owners)} tasks wrote rows, and one commit takes {_GROUP_MAX}"
            raise GoQueueError("request_invalid", f"{words}: coalesce the rows before writing them")
        try:
            prepared = self._prepare(staged)
            is_first = self._link.commit_group(self._key(self._batch), prepared)
        except (NotFound, ProducerFenced, TransactionAborted, TransactionStateInvalid) as error:
            words = f"{self._family}: rows that tasks wrote were aborted before they were committed"
            reason = "another driver runs the same query, or it took too long"
            raise GoQueueError(error.code, f"{words}; {reason}: {error}") from error
        if not is_first and not self._link.is_committed(prepared[0]):
            self._check_repeated()
        self.sweep()

    def abort(self, staged: Sequence[Staged]) -> None:
        """Abort what is open. What was committed stays: the broker refuses, and that is right."""
        try:
            for each in staged:
                if each.owner is not None and not self._link.abort(each.owner):
                    _LOG.warning("%s was decided before", each.owner.transactional_id)
        except GoQueueError as error:
            # Raised, it would take the place of what made the write fail.
            _LOG.warning("what %s left open waits for its timeout: %s", self._family, error)

    def _key(self, batch: int | None) -> str:
        return self._family if batch is None else f"{self._family}:{batch}"

    def _prepare(self, staged: Sequence[Staged]) -> list[str]:
        """The ids of all transactions; those that are open are prepared now."""
        waiting = [each.owner for each in staged if each.owner and each.transaction_id is None]
        known = [each.transaction_id for each in staged if each.transaction_id is not None]
        return known + (self._link.prepare_all(waiting) if waiting else [])

    def _check_repeated(self) -> None:
        """Somebody committed this batch before: a restart repeats the last one, and no other."""
        if self._batch is not None and self._link.has_key(self._key(self._batch + 1)):
            words = f"batches after {self._batch} of {self._family} are committed already"
            hint = "the checkpoint is an old copy: start with a new one, from where it should go on"
            raise GoQueueError("checkpoint_outdated", f"{words}; {hint}")
        _LOG.warning("%s was committed before: its rows are there", self._key(self._batch))

    def sweep(self) -> None:
        """Abort attempts whose message Spark dropped: each would hold up the readers."""
        attempts = re.compile(rf"{re.escape(self._family)}\.\d+\.\d+")
        try:
            for owner in self._link.open_owners(attempts):
                self._link.abort(owner)
        except GoQueueError as error:
            # The decision stands, and so does the next one: a task that has the id ends it, too.
            _LOG.warning("left-overs of %s wait for their timeout: %s", self._family, error)
