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
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from goqueue.client import (
    ArgumentInvalid,
    GoQueueError,
    NotAllowed,
    NotFound,
    ServerUnreachable,
    TlsError,
    TopicNotFound,
    TransactionNotFound,
    connect,
)
from goqueue.client.batch import Identity
from goqueue.client.credentials import read_key as read_key_file
from goqueue.client.retries import Retries
from goqueue.client.schemas import SchemaSet, SchemaTypeName
from goqueue.client.stored_records import RecordBatch, RecordPage
from goqueue.client.sync import LoopThread
from goqueue.model import Secret
from goqueue.model.requests import Owner
from goqueue.spark.offsets import Edge
from goqueue.spark.options import Link, OptionInvalid

T = TypeVar("T")

__all__ = ["Broker", "TopicView", "Truncated", "broker", "read_key"]


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


def read_key(link: Link) -> Secret | None:
    if link.token_file is None:
        return None
    try:
        return read_key_file(link.token_file)
    except ArgumentInvalid as invalid:
        raise OptionInvalid("goqueue.tokenFile", invalid.sentence) from invalid


# The options behind the arguments of the SDK, with which its refusals of files begin.
_FILE_OPTIONS = {
    "ca_file": "goqueue.tls.caFile",
    "client_cert": "goqueue.tls.certFile",
    "client_key": "goqueue.tls.keyFile",
}
_ARGUMENT = re.compile("|".join(_FILE_OPTIONS))
_KEY_MISSING = "The server asks for an API key: name the file that holds it in goqueue.tokenFile."
_KEY_REFUSED = "The server does not accept the API key in the file that goqueue.tokenFile names."
_BEGIN_ATTEMPTS = 3
# Bounded by time alone: a broker that starts refuses at once, and often. The time is enough for a
# second attempt after one that was not answered.
_ATTEMPTS_MAX = 10_000
_PATIENCE = 1.5
_SCHEMAS_MAX = 1000
# Numbers of transactions count from one.
_NO_TRANSACTION = "0-0"
_COMMITTED = frozenset({"preparing_commit", "completed_commit"})


# One per process: what was made before a fork has no thread after it.
_OPEN: dict[tuple[int, Link], tuple[Secret | None, "Broker"]] = {}


def broker(link: Link) -> "Broker":
    """The connection of this process; opened at the first call, and again for another key.

    Several servers are nodes of a cluster: it uses those that answer, and goes to leaders directly.
    """
    place = (os.getpid(), link)
    key = read_key(link)
    known = _OPEN.get(place)
    if known is None or not _is_same(known[0], key):
        # The old one is not closed: another thread may be using it, and it is idle soon.
        _OPEN[place] = (key, Broker(link, key))
    return _OPEN[place][1]


def _is_same(one: Secret | None, other: Secret | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.is_same(other)


class Broker:
    """Calls that wait for their answers. May be used by several threads."""

    def __init__(self, link: Link, key: Secret | None) -> None:
        attempts_max = _ATTEMPTS_MAX if link.retries is None else link.retries + 1
        self.server = ",".join(link.servers)
        self._seen: set[str] = set()
        self._schemas: dict[int, SchemaSet] = {}
        self._later: set[asyncio.Task[None]] = set()
        try:
            self._q = connect(
                link.servers,
                api_key=key,
                ca_file=link.ca_file,
                client_cert=link.cert_file,
                client_key=link.key_file,
                allow_plaintext=link.allow_plaintext,
                timeout_s=link.timeout_s,
                client_id="spark",
                retries=Retries(attempts_max=attempts_max, total_s=_PATIENCE * link.timeout_s),
            )
        except ArgumentInvalid as invalid:
            option = _FILE_OPTIONS.get(invalid.sentence.partition(" ")[0], "goqueue.servers")
            raise OptionInvalid(option, invalid.sentence) from invalid
        self._loop = LoopThread(self._close)
        self._has_key = key is not None
        self._call(self._open())

    def close(self) -> None:
        self._loop.stop()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer; a refusal speaks of options, not of the arguments of the SDK."""
        try:
            return self._loop.call(work)
        except (TlsError, ServerUnreachable) as error:
            error.sentence = _ARGUMENT.sub(lambda found: _FILE_OPTIONS[found[0]], error.sentence)
            raise
        except NotAllowed as error:
            if error.code == "unauthenticated":
                error.sentence = _KEY_REFUSED if self._has_key else _KEY_MISSING
            raise

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
                self._call(self._q.topics.describe(topic))
            except TopicNotFound:
                return False
            self._seen.add(topic)
        return True

    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""
        return self._call(self._q.topics.list())

    def view(self, topic: str, isolation: str = "read_committed") -> TopicView:
        """The topic as it is now. For committed reads it ends before the first open transaction."""
        return self._call(self._view(topic, isolation))

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
            page = self._call(fetching)
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
        found = self._call(self._q.offset_at(topic, partition, moment))
        return end if found is None else found

    def committed(self, group: str) -> Mapping[str, Mapping[int, int]]:
        """The next offsets of a group; none for one that does not exist."""
        try:
            return self._call(self._q.groups.offsets(group)).offsets
        except NotFound:
            return {}

    # Schemas

    def schema(self, id_: int) -> SchemaSet | None:
        """The schema with an id, asked for once; None if there is none."""
        known = self._schemas.get(id_)
        if known is not None:
            return known
        try:
            found = self._call(self._schema(id_))
        except NotFound:
            return None
        if len(self._schemas) >= _SCHEMAS_MAX:
            self._schemas.clear()
        self._schemas[id_] = found
        return found

    async def _schema(self, id_: int) -> SchemaSet:
        return await self._q.schemas.resolve(await self._q.schemas.get_by_id(id_))

    def subject_schema(self, subject: str, version: int | None = None) -> SchemaSet | None:
        """A version of a subject, the latest without one; None if there is none."""
        try:
            return self._call(self._subject_schema(subject, version))
        except NotFound:
            return None

    async def _subject_schema(self, subject: str, version: int | None) -> SchemaSet:
        found = await self._q.schemas.get(subject, "latest" if version is None else version)
        return await self._q.schemas.resolve(found)

    def latest_schema_id(self, subject: str) -> int | None:
        """The id of the latest version of a subject; None if there is none."""
        try:
            return self._call(self._q.schemas.get(subject)).id
        except NotFound:
            return None

    def schema_conflicts(self, subject: str, text: str, kind: SchemaTypeName) -> tuple[str, ...]:
        """What keeps a schema from being a version of a subject."""
        try:
            report = self._call(self._q.schemas.check(subject, text, type=kind))
        except NotFound:
            return ()
        return () if report.is_compatible else report.messages or ("it is not compatible",)

    def register_schema(self, subject: str, text: str, kind: SchemaTypeName) -> SchemaSet:
        """Make a schema a version of a subject; the same content again is the same version."""
        place = self._call(self._q.schemas.register(subject, text, type=kind))
        return SchemaSet(id=place.id, schema_type=kind, text=text)

    # Writing

    def register(self) -> Identity:
        """A producer of its own, without transactions."""
        return self._call(self._q.coordinator.register())

    def begin(self, transactional_id: str, timeout_s: float) -> Owner:
        """Hold the id, and open a transaction; whatever was open under the id is aborted."""
        return self._call(self._begin(transactional_id, timeout_s))

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
        self._call(self._q.coordinator.beat(owner))

    def publish(self, batches: Sequence[RecordBatch], producer: Identity) -> None:
        """Publish batches of different partitions side by side; all are taken when it returns."""
        self._call(self._publish(batches, producer))

    async def _publish(self, batches: Sequence[RecordBatch], producer: Identity) -> None:
        publishing = (self._q.records.publish(batch, producer) for batch in batches)
        # All have ended when one has failed: an abort does not race with the rest.
        for outcome in await asyncio.gather(*publishing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def prepare(self, owner: Owner) -> str:
        """Wait for the decision of a group; the id of the transaction."""
        return self._call(self._q.coordinator.prepare(owner))

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
        return self._call(self._prepare_all(owners))

    async def _prepare_all(self, owners: Sequence[Owner]) -> list[str]:
        return await asyncio.gather(*(self._q.coordinator.prepare(owner) for owner in owners))

    def abort(self, owner: Owner) -> bool:
        """Whether the transaction is aborted; if not, it was decided otherwise before."""
        try:
            self._call(self._q.coordinator.abort(owner))
        except GoQueueError as error:
            if error.status not in {404, 409}:
                raise
            return False
        return True

    def commit_group(self, key: str, transaction_ids: Sequence[str]) -> bool:
        """Commit them by one decision; False if the key was committed before, and they are gone."""
        return self._call(self._q.commit_group(key, transaction_ids))

    def has_key(self, key: str) -> bool:
        """Whether something was committed under the key, without committing anything."""
        try:
            self._call(self._q.commit_group(key, [_NO_TRANSACTION]))
        except TransactionNotFound:
            return False
        return True

    def is_committed(self, transaction_id: str) -> bool:
        """Whether this transaction was; one that is long gone counts as not."""
        try:
            described = self._call(self._q.transactions.describe(transaction_id))
        except TransactionNotFound:
            return False
        return described.state in _COMMITTED

    def open_owners(self, pattern: re.Pattern[str]) -> list[Owner]:
        """Who has a transaction open under an id of this form."""
        listed = self._call(self._q.transactions.list())
        return [
            Owner(
                producer_id=each.producer_id,
                epoch=each.epoch,
                transactional_id=each.transactional_id,
            )
            for each in listed
            if pattern.fullmatch(each.transactional_id)
        ]
