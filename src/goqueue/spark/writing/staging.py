"""What one task publishes, staged as a whole: nothing of it is seen before the driver decides.

A beat tells the broker that the task lives while Spark is slow. A prepared transaction waits for
its driver for an hour, and readers wait with it; one that is open is aborted when nobody was heard
for half a minute. So the task of a micro-batch leaves its transaction open, and the driver prepares
it when it decides. If that takes longer, the worker prepares it.
"""

import os
import threading
from collections.abc import Iterable

import msgspec
import pyarrow as pa

from goqueue.client import GoQueueError, NotFound, ProducerFenced
from goqueue.model.requests import Owner
from goqueue.spark.broker import Author, Broker, broker
from goqueue.spark.options import WriteOptions
from goqueue.spark.writing.posting import Posting

__all__ = ["Beats", "Staged", "publish"]

_BEAT_S = 10.0
# Without it Spark ends a worker with its task, and nobody is left to prepare anything.
_IS_REUSED = "SPARK_REUSE_WORKER"


class Staged(msgspec.Struct, frozen=True):
    """What a task left behind: a transaction to decide, or nothing that is.

    Without `transaction_id` it is open, and to be prepared.
    """

    rows: int
    owner: Owner | None = None
    transaction_id: str | None = None


def publish(
    options: WriteOptions,
    transactional_id: str,
    batches: Iterable[pa.RecordBatch],
    *,
    open_s: float = 0.0,
) -> Staged:
    """Publish rows as the options say. Without rows nothing is begun.

    The transaction is prepared so many seconds later, if nobody did that before.
    """
    link = broker(options.link)
    posting: Posting | None = None
    owner: Owner | None = None
    beats = Beats(link)
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if posting is None:
                if options.exactly_once:
                    owner = link.begin(transactional_id, options.transaction_timeout_s)
                    beats.start(owner)
                    author = Author(owner.producer_id, owner.epoch)
                else:
                    author = link.register()
                posting = Posting(link, author, options)
            posting.add(batch)
        if posting is None:
            return Staged(0)
        rows = posting.finish()
        beats.stop()
        if owner is None:
            return Staged(rows)
        if open_s and _IS_REUSED in os.environ:
            link.prepare_later(owner, open_s)
            return Staged(rows, owner)
        return Staged(rows, owner, link.prepare(owner))
    except BaseException:
        beats.stop()
        if posting is not None:
            posting.cancel()
        if owner is not None:
            _give_up(link, owner)
        raise


def _give_up(link: Broker, owner: Owner) -> None:
    """Abort at once what would time out: until then it holds up those who read the topic."""
    try:
        link.abort(owner)
    except GoQueueError:
        # Whatever made the task fail is worth more than this.
        return


class Beats:
    """Tells the broker that a producer lives, from a thread of its own."""

    def __init__(self, link: Broker, every_s: float = _BEAT_S) -> None:
        self._link = link
        self._every_s = every_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, owner: Owner) -> None:
        self._thread = threading.Thread(target=self._run, args=(owner,), daemon=True, name="beats")
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, owner: Owner) -> None:
        while not self._over.wait(self._every_s):
            try:
                self._link.beat(owner)
            except (ProducerFenced, NotFound):
                # Told by the next request of the task, too.
                return
            except GoQueueError:
                # The broker is away: it may be back for the next beat.
                continue
