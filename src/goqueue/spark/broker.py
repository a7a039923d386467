"""The broker as Spark's driver and tasks call it.

What the broker is told and answers, as values; and how its answers are read.

The way to a broker: which of its servers, with which key, trusting whom.

Owns what is read from files that the options name, in the process that needs it.

The broker as a task or a driver of Spark sees it: asked, and waited for.

Owns one connection per process and server, on a loop in a thread of its own, kept over tasks
because Spark uses its workers again. Never crosses a pickle: whoever does asks for it anew. One
that does not answer is asked again for a while: it may just be starting.
"""

import asyncio
import contextlib
import datetime as dt
import os
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from goqueue.client import GoQueueError, NotFound, TopicNotFound, TransactionNotFound
from goqueue.client.admin import Groups, Topics, Transactions
from goqueue.client.http import Address, Request, Settings, Transport, get, post, target
from goqueue.client.retries import Retries
from goqueue.client.sync import LoopThread
from goqueue.client.transactional_producer import Coordinator, commit_group
from goqueue.model import (
    ABORTED_HEADER,
    LAST_STABLE_OFFSET_HEADER,
    LOG_START_HEADER,
    NEXT_OFFSET_HEADER,
    RECORDS_MEDIA,
)
from goqueue.model.requests import Owner
from goqueue.spark.offsets import Edge
from goqueue.spark.options import Link, OptionInvalid

__all__ = [
    "AUTHORS",
    "MESSAGES",
    "PARTITIONS",
    "PUBLISHED",
    "Author",
    "Batch",
    "Broker",
    "Portion",
    "TopicView",
    "Truncated",
    "broker",
    "reachable",
    "read_key",
    "read_tls",
]


_ABORTED = ABORTED_HEADER.lower().encode()


class TopicView(msgspec.Struct, frozen=True, kw_only=True):
    """A topic for a reader or writer. `born` tells it from one of the same name made later."""

    name: str
    born: str
    edges: dict[int, Edge]
    message_bytes_max: int


class Portion(msgspec.Struct, frozen=True):
    """Stored records, where to go on, and the ranges to leave out."""

    data: bytes
    next_offset: int
    aborted: list[tuple[int, int]]


class Author(msgspec.Struct, frozen=True):
    """Who publishes: an idempotent producer, or the owner of a transaction."""

    producer_id: int
    epoch: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Records for one partition; `sequence` is the number of the first one there."""

    topic: str
    partition: int
    data: bytearray
    count: int
    sequence: int


class Truncated(Exception):
    """The records asked for are gone; there are some from `earliest` on."""

    def __init__(self, earliest: int) -> None:
        super().__init__(earliest)
        self.earliest = earliest


class _Partition(msgspec.Struct, frozen=True):
    partition: int
    earliest_offset: int
    end_offset: int
    size_bytes: int


class _Partitions(msgspec.Struct, frozen=True):
    partitions: list[_Partition]


class _Message(msgspec.Struct, frozen=True):
    offset: int


class _Messages(msgspec.Struct, frozen=True):
    messages: list[_Message]
    next_offset: int


class _Placed(msgspec.Struct, frozen=True):
    count: int


class _Published(msgspec.Struct, frozen=True):
    results: list[_Placed]


PARTITIONS = msgspec.json.Decoder(_Partitions)
MESSAGES = msgspec.json.Decoder(_Messages)
PUBLISHED = msgspec.json.Decoder(_Published)
AUTHORS = msgspec.json.Decoder(Author)


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


def reachable(link: Link) -> str:
    """The first server that takes a connection; the very first if none does."""
    for server in link.servers:
        address = Address.parse(server)
        try:
            socket.create_connection((address.host, address.port), min(link.timeout_s, 3.0)).close()
        except OSError:
            continue
        return server
    return link.servers[0]


_BEGIN_ATTEMPTS = 3
# Bounded by time alone: a broker that starts refuses at once, and often. The time is enough for a
# second attempt after one that was not answered.
_ATTEMPTS_MAX = 10_000
_PATIENCE = 1.5
# Numbers of transactions count from one.
_NO_TRANSACTION = "0-0"
_COMMITTED = frozenset({"preparing_commit", "completed_commit"})


# One per process: what was made before a fork has no thread after it.
_OPEN: dict[tuple[int, Link], tuple[str | None, "Broker"]] = {}


def broker(link: Link) -> "Broker":
    """The connection of this process; opened at the first call, and anew with another key.

    Of several servers the first one that takes a connection is used, as long as it does.
    """
    place = (os.getpid(), link)
    key = read_key(link)
    known = _OPEN.get(place)
    server = link.servers[0] if len(link.servers) == 1 else reachable(link)
    if known is None or known[1].server != server or known[0] != key:
        # The old one is not closed: another thread may be using it, and it is idle soon.
        _OPEN[place] = (key, Broker(link, key, server))
    return _OPEN[place][1]


class Broker:
    """Calls that wait for their answers. May be used by several threads."""

    def __init__(self, link: Link, key: str | None, server: str) -> None:
        attempts_max = _ATTEMPTS_MAX if link.retries is None else link.retries + 1
        settings = Settings(
            server=server,
            api_key=key,
            timeout_s=link.timeout_s,
            tls=read_tls(link),
            client_id="spark",
            retries=Retries(attempts_max=attempts_max, total_s=_PATIENCE * link.timeout_s),
        )
        self.server = server
        self._seen: set[str] = set()
        self._later: set[asyncio.Task[None]] = set()
        self._transport = Transport(settings)
        self._loop = LoopThread(self._close)
        self._topics = Topics(self._transport)
        self._groups = Groups(self._transport)
        self._transactions = Transactions(self._transport)
        # No call of a task is late for a transaction that follows: an attempt has only one.
        self._coordinator = Coordinator(self._transport, lambda: None)

    def close(self) -> None:
        self._loop.stop()

    async def _close(self) -> None:
        for task in self._later:
            task.cancel()
        self._transport.close()

    # Reading

    def has_topic(self, topic: str) -> bool:
        """Whether there is one; asked once for each that there is."""
        if topic not in self._seen:
            try:
                self._loop.call(self._topics.describe(topic))
            except TopicNotFound:
                return False
            self._seen.add(topic)
        return True

    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""
        return self._loop.call(self._topics.list())

    def view(self, topic: str, isolation: str = "read_committed") -> TopicView:
        """The topic as it is now. For committed reads it ends before the first open transaction."""
        return self._loop.call(self._view(topic, isolation))

    async def _view(self, topic: str, isolation: str) -> TopicView:
        described = await self._topics.describe(topic)
        listed = await self._transport.read(get("topics", topic, "partitions"), PARTITIONS)
        ends = [each.end_offset for each in listed.partitions]
        if isolation == "read_committed":
            ends = await asyncio.gather(
                *(
                    self._stable(topic, each.partition, each.end_offset)
                    for each in listed.partitions
                )
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
                for each, end in zip(listed.partitions, ends, strict=True)
            },
        )

    async def _stable(self, topic: str, partition: int, end: int) -> int:
        """The last stable offset, which only the records route tells, at no cost at its end."""
        request = get("topics", topic, "partitions", partition, "records", offset=end, max_bytes=1)
        response = await self._transport.ask(request)
        return min(end, _number(response.headers, LAST_STABLE_OFFSET_HEADER))

    def fetch(
        self, topic: str, partition: int, offset: int, bytes_max: int, isolation: str
    ) -> Portion:
        """Stored records from an offset on; `Truncated` if retention has taken them."""
        request = get(
            "topics",
            topic,
            "partitions",
            partition,
            "records",
            offset=offset,
            max_bytes=bytes_max,
            isolation=isolation,
        )
        try:
            response = self._loop.call(self._transport.ask(request))
        except GoQueueError as error:
            following = error.details.get("next_offset")
            if error.code == "records_damaged" and isinstance(following, int):
                # As lost as what retention took: the same option decides whether to go on.
                raise Truncated(following) from error
            if error.code != "offset_out_of_range":
                raise
            raise Truncated(int(str(error.details.get("earliest", 0)))) from error
        headers = response.headers
        start = _number(headers, LOG_START_HEADER)
        if start > offset:
            raise Truncated(start)
        following = _number(headers, NEXT_OFFSET_HEADER)
        return Portion(response.body, following, _ranges(headers.get(_ABORTED, b"")))

    def offset_at(self, topic: str, partition: int, time_us: int, end: int) -> int:
        """The offset of the first message at or after a time, or the end."""
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=time_us)
        stamp = moment.isoformat().replace("+00:00", "Z")
        request = get(
            "topics", topic, "partitions", partition, "messages", timestamp=stamp, limit=1
        )
        found = self._loop.call(self._transport.read(request, MESSAGES))
        return found.messages[0].offset if found.messages else end

    def committed(self, group: str) -> Mapping[str, Mapping[int, int]]:
        """The next offsets of a group; none for one that nobody made."""
        try:
            return self._loop.call(self._groups.offsets(group)).offsets
        except NotFound:
            return {}

    # Writing

    def register(self) -> Author:
        """A producer of its own, without transactions."""
        request = post("producers", "init", fields={}, is_repeatable=True)
        return self._loop.call(self._transport.read(request, AUTHORS))

    def begin(self, transactional_id: str, timeout_s: float) -> Owner:
        """Hold the id, and open a transaction; whatever was open under the id is aborted."""
        return self._loop.call(self._begin(transactional_id, timeout_s))

    async def _begin(self, transactional_id: str, timeout_s: float) -> Owner:
        for attempt in range(_BEGIN_ATTEMPTS):
            owner = await self._coordinator.init(transactional_id, timeout_s)
            try:
                await self._coordinator.begin(owner)
            except GoQueueError as error:
                # It may be open: a new epoch aborts it, so that beginning again is the first time.
                if not error.is_outcome_unknown or attempt + 1 == _BEGIN_ATTEMPTS:
                    raise
            else:
                return owner
        raise AssertionError("the last attempt returns or raises")

    def beat(self, owner: Owner) -> None:
        self._loop.call(self._coordinator.beat(owner))

    def publish(self, batches: Sequence[Batch], author: Author) -> None:
        """Publish batches of different partitions side by side; all are taken when it returns."""
        self._loop.call(self._publish(batches, author))

    async def _publish(self, batches: Sequence[Batch], author: Author) -> None:
        posts = (self._post(batch, author) for batch in batches)
        # All have ended when one has failed: an abort does not race with the rest.
        for outcome in await asyncio.gather(*posts, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _post(self, batch: Batch, author: Author) -> None:
        whither = target(
            "topics",
            batch.topic,
            "records",
            partition=batch.partition,
            producer_id=author.producer_id,
            epoch=author.epoch,
            sequence=batch.sequence,
        )
        request = Request(
            method="POST",
            target=whither,
            body=batch.data,
            content_type=RECORDS_MEDIA,
            is_repeatable=True,
        )
        published = await self._transport.read(request, PUBLISHED)
        taken = sum(each.count for each in published.results)
        if taken != batch.count:
            raise GoQueueError("response_invalid", f"{taken} of {batch.count} records were taken")

    def prepare(self, owner: Owner) -> str:
        """Wait for the decision of a group; the id of the transaction."""
        return self._loop.call(self._coordinator.prepare(owner))

    def prepare_later(self, owner: Owner, wait_s: float) -> None:
        """Prepare what nobody has decided by then, without waiting for it."""
        self._loop.post(lambda: self._keep(owner, wait_s))

    def _keep(self, owner: Owner, wait_s: float) -> None:
        task = asyncio.ensure_future(self._prepare_later(owner, wait_s))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _prepare_later(self, owner: Owner, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        # Decided, as it should be; or lost, which the driver is told when it decides.
        with contextlib.suppress(GoQueueError):
            await self._coordinator.prepare(owner)

    def prepare_all(self, owners: Sequence[Owner]) -> list[str]:
        """The ids of their transactions, side by side; one that is prepared stays so."""
        return self._loop.call(self._prepare_all(owners))

    async def _prepare_all(self, owners: Sequence[Owner]) -> list[str]:
        return await asyncio.gather(*(self._coordinator.prepare(owner) for owner in owners))

    def abort(self, owner: Owner) -> bool:
        """Whether the transaction is aborted; if not, it was decided otherwise before."""
        try:
            self._loop.call(self._coordinator.abort(owner))
        except GoQueueError as error:
            if error.status not in {404, 409}:
                raise
            return False
        return True

    def commit_group(self, key: str, transaction_ids: Sequence[str]) -> bool:
        """Commit them by one decision; False if the key was committed before, and they are gone."""
        return self._loop.call(commit_group(self._transport, key, transaction_ids))

    def has_key(self, key: str) -> bool:
        """Whether something was committed under the key, without committing anything."""
        try:
            self._loop.call(commit_group(self._transport, key, [_NO_TRANSACTION]))
        except TransactionNotFound:
            return False
        return True

    def is_committed(self, transaction_id: str) -> bool:
        """Whether this transaction was; one that is long gone counts as not."""
        try:
            described = self._loop.call(self._transactions.describe(transaction_id))
        except TransactionNotFound:
            return False
        return described.state in _COMMITTED

    def open_owners(self, pattern: re.Pattern[str]) -> list[Owner]:
        """Who has a transaction open under an id of this form."""
        listed = self._loop.call(self._transactions.list())
        return [
            Owner(
                producer_id=each.producer_id,
                epoch=each.epoch,
                transactional_id=each.transactional_id,
            )
            for each in listed
            if pattern.fullmatch(each.transactional_id)
        ]


def _number(headers: Mapping[bytes, bytes], name: str) -> int:
    text = headers.get(name.lower().encode(), b"")
    if not text.isdigit():
        raise GoQueueError("response_invalid", f"{name} is {text!r}")
    return int(text)


def _ranges(text: bytes) -> list[tuple[int, int]]:
    """`a-b,c-d`, both ends included, as ranges up to the one after their last."""
    try:
        pairs = [part.split(b"-") for part in text.split(b",") if part]
        return [(int(first), int(last) + 1) for first, last in pairs]
    except ValueError:
        raise GoQueueError("response_invalid", f"{text!r} lists no offsets") from None
