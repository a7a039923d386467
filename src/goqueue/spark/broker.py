"""The broker as Spark's driver and tasks call it: blocking calls over one SDK connection.

Owns one connection per process and server, on a loop in a thread of its own, kept over tasks
because Spark uses its workers again; and what is read from files that the options name. Never
crosses a pickle: a process that unpickled its options asks for it anew. A broker that does not
answer is asked again for a while: it may just be starting.
"""

import asyncio
import contextlib
import datetime as dt
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from goqueue.client import (
    GoQueueError,
    NotFound,
    TopicNotFound,
    TransactionNotFound,
    connect,
)
from goqueue.client.batch import Identity
from goqueue.client.entry import first_reachable
from goqueue.client.retries import Retries
from goqueue.client.stored_records import RecordBatch, RecordPage
from goqueue.client.sync import LoopThread
from goqueue.model.requests import Owner
from goqueue.spark.offsets import Edge
from goqueue.spark.options import Link, OptionInvalid

__all__ = ["Broker", "TopicView", "Truncated", "broker", "read_key", "read_tls"]


class TopicView(msgspec.Struct, frozen=True, kw_only=True):
    """A topic for a reader or writer. `born` distinguishes it from a later one of the same name."""

    name: str
    born: str
    edges: dict[int, Edge]
    message_bytes_max: int


class Truncated(Exception):
    """The records asked for are gone; there are some from `earliest` on."""

    def __init__(self, earliest: int) -> None:
        super().__init__(earliest)
        self.earliest = earliest


def read_key(link: Link) -> str | None:
    if link.token_file is None:
        return None
    try:
        return Path(link.token_file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionInvalid("goqueue.tokenFile", f"cannot be read: {error}") from error


def read_tls(link: Link) -> ssl.SSLContext | None:
    if link.ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=link.ca_file)
    except OSError as error:
        raise OptionInvalid("goqueue.tls.caFile", f"cannot be read: {error}") from error


_BEGIN_ATTEMPTS = 3
# Bounded by time alone: a broker that starts refuses at once, and often. The time is enough for a
# second attempt after one that was not answered.
_ATTEMPTS_MAX = 10_000
_PATIENCE = 1.5
# How long one of several servers may take to accept a connection.
_PROBE_S_MAX = 3.0
# Numbers of transactions count from one.
_NO_TRANSACTION = "0-0"
_COMMITTED = frozenset({"preparing_commit", "completed_commit"})


# One per process: what was made before a fork has no thread after it.
_OPEN: dict[tuple[int, Link], tuple[str | None, "Broker"]] = {}


def broker(link: Link) -> "Broker":
    """The connection of this process; opened at the first call, and again for another key.

    Of several servers the first one that takes a connection is used, as long as it does.
    """
    place = (os.getpid(), link)
    key = read_key(link)
    known = _OPEN.get(place)
    server = link.servers[0]
    if len(link.servers) > 1:
        server = first_reachable(link.servers, timeout_s=min(link.timeout_s, _PROBE_S_MAX))
    if known is None or known[1].server != server or known[0] != key:
        # The old one is not closed: another thread may be using it, and it is idle soon.
        _OPEN[place] = (key, Broker(link, key, server))
    return _OPEN[place][1]


class Broker:
    """Calls that wait for their answers. May be used by several threads."""

    def __init__(self, link: Link, key: str | None, server: str) -> None:
        attempts_max = _ATTEMPTS_MAX if link.retries is None else link.retries + 1
        self.server = server
        self._seen: set[str] = set()
        self._later: set[asyncio.Task[None]] = set()
        self._q = connect(
            server,
            api_key=key,
            timeout_s=link.timeout_s,
            tls=read_tls(link),
            client_id="spark",
            retries=Retries(attempts_max=attempts_max, total_s=_PATIENCE * link.timeout_s),
        )
        self._loop = LoopThread(self._close)
        self._loop.call(self._open())

    def close(self) -> None:
        self._loop.stop()

    async def _open(self) -> None:
        await self._q.__aenter__()

    async def _close(self) -> None:
        for task in self._later:
            task.cancel()
        await self._q.close()

    # Reading

    def has_topic(self, topic: str) -> bool:
        """Whether there is one; asked once for each that there is."""
        if topic not in self._seen:
            try:
                self._loop.call(self._q.topics.describe(topic))
            except TopicNotFound:
                return False
            self._seen.add(topic)
        return True

    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""
        return self._loop.call(self._q.topics.list())

    def view(self, topic: str, isolation: str = "read_committed") -> TopicView:
        """The topic as it is now. For committed reads it ends before the first open transaction."""
        return self._loop.call(self._view(topic, isolation))

    async def _view(self, topic: str, isolation: str) -> TopicView:
        described = await self._q.topics.describe(topic)
        listed = await self._q.topics.partitions(topic)
        ends = [each.end_offset for each in listed]
        if isolation == "read_committed":
            ends = await asyncio.gather(
                *(self._stable(topic, each.partition, each.end_offset) for each in listed)
            )
        return TopicView(
            name=topic,
            born="" if described.created_at is None else described.created_at.isoformat(),
            message_bytes_max=described.config.max_message_bytes,
            edges={
                each.partition: Edge(
                    earliest=each.earliest_offset,
                    end=max(end, each.earliest_offset),
                    size_bytes=each.size_bytes,
                )
                for each, end in zip(listed, ends, strict=True)
            },
        )

    async def _stable(self, topic: str, partition: int, end: int) -> int:
        """The last stable offset, which only the records route returns; cheap at the end."""
        page = await self._q.records.fetch(topic, partition, end, max_bytes=1)
        return min(end, page.last_stable_offset)

    def fetch(
        self, topic: str, partition: int, offset: int, bytes_max: int, isolation: str
    ) -> RecordPage:
        """Stored records from an offset on; `Truncated` if retention has taken them."""
        fetching = self._q.records.fetch(
            topic, partition, offset, max_bytes=bytes_max, isolation=isolation
        )
        try:
            page = self._loop.call(fetching)
        except GoQueueError as error:
            following = error.details.get("next_offset")
            if error.code == "records_damaged" and isinstance(following, int):
                # As lost as what retention removed: the same option decides whether to continue.
                raise Truncated(following) from error
            if error.code != "offset_out_of_range":
                raise
            raise Truncated(int(str(error.details.get("earliest", 0)))) from error
        if page.log_start > offset:
            raise Truncated(page.log_start)
        return page

    def offset_at(self, topic: str, partition: int, time_us: int, end: int) -> int:
        """The offset of the first message at or after a time, or the end."""
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=time_us)
        found = self._loop.call(self._q.offset_at(topic, partition, moment))
        return end if found is None else found

    def committed(self, group: str) -> Mapping[str, Mapping[int, int]]:
        """The next offsets of a group; none for one that does not exist."""
        try:
            return self._loop.call(self._q.groups.offsets(group)).offsets
        except NotFound:
            return {}

    # Writing

    def register(self) -> Identity:
        """A producer of its own, without transactions."""
        return self._loop.call(self._q.coordinator.register())

    def begin(self, transactional_id: str, timeout_s: float) -> Owner:
        """Hold the id, and open a transaction; whatever was open under the id is aborted."""
        return self._loop.call(self._begin(transactional_id, timeout_s))

    async def _begin(self, transactional_id: str, timeout_s: float) -> Owner:
        for attempt in range(_BEGIN_ATTEMPTS):
            owner = await self._q.coordinator.init(transactional_id, timeout_s)
            try:
                await self._q.coordinator.begin(owner)
            except GoQueueError as error:
                # It may be open: a new epoch aborts it, so that beginning again is the first time.
                if not error.is_outcome_unknown or attempt + 1 == _BEGIN_ATTEMPTS:
                    raise
            else:
                return owner
        raise AssertionError("the last attempt returns or raises")

    def beat(self, owner: Owner) -> None:
        self._loop.call(self._q.coordinator.beat(owner))

    def publish(self, batches: Sequence[RecordBatch], producer: Identity) -> None:
        """Publish batches of different partitions side by side; all are taken when it returns."""
        self._loop.call(self._publish(batches, producer))

    async def _publish(self, batches: Sequence[RecordBatch], producer: Identity) -> None:
        publishing = (self._q.records.publish(batch, producer) for batch in batches)
        # All have ended when one has failed: an abort does not race with the rest.
        for outcome in await asyncio.gather(*publishing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def prepare(self, owner: Owner) -> str:
        """Wait for the decision of a group; the id of the transaction."""
        return self._loop.call(self._q.coordinator.prepare(owner))

    def prepare_later(self, owner: Owner, wait_s: float) -> None:
        """Prepare what is still undecided then, without waiting for it."""
        self._loop.post(lambda: self._keep(owner, wait_s))

    def _keep(self, owner: Owner, wait_s: float) -> None:
        task = asyncio.ensure_future(self._prepare_later(owner, wait_s))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _prepare_later(self, owner: Owner, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        # Decided, as it should be; or lost, which the driver learns when it commits.
        with contextlib.suppress(GoQueueError):
            await self._q.coordinator.prepare(owner)

    def prepare_all(self, owners: Sequence[Owner]) -> list[str]:
        """The ids of their transactions, side by side; one that is prepared stays so."""
        return self._loop.call(self._prepare_all(owners))

    async def _prepare_all(self, owners: Sequence[Owner]) -> list[str]:
        return await asyncio.gather(*(self._q.coordinator.prepare(owner) for owner in owners))

    def abort(self, owner: Owner) -> bool:
        """Whether the transaction is aborted; if not, it was decided otherwise before."""
        try:
            self._loop.call(self._q.coordinator.abort(owner))
        except GoQueueError as error:
            if error.status not in {404, 409}:
                raise
            return False
        return True

    def commit_group(self, key: str, transaction_ids: Sequence[str]) -> bool:
        """Commit them by one decision; False if the key was committed before, and they are gone."""
        return self._loop.call(self._q.commit_group(key, transaction_ids))

    def has_key(self, key: str) -> bool:
        """Whether something was committed under the key, without committing anything."""
        try:
            self._loop.call(self._q.commit_group(key, [_NO_TRANSACTION]))
        except TransactionNotFound:
            return False
        return True

    def is_committed(self, transaction_id: str) -> bool:
        """Whether this transaction was; one that is long gone counts as not."""
        try:
            described = self._loop.call(self._q.transactions.describe(transaction_id))
        except TransactionNotFound:
            return False
        return described.state in _COMMITTED

    def open_owners(self, pattern: re.Pattern[str]) -> list[Owner]:
        """Who has a transaction open under an id of this form."""
        listed = self._loop.call(self._q.transactions.list())
        return [
            Owner(
                producer_id=each.producer_id,
                epoch=each.epoch,
                transactional_id=each.transactional_id,
            )
            for each in listed
            if pattern.fullmatch(each.transactional_id)
        ]
