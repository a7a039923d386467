"""Messages of a topic page by page, in the JSON form of the API and as values.

Owns the decoding of messages from JSON, for pages and for polls, and a reader that moves through
one partition on demand. A page keeps the JSON of each message as the server sent it, for programs
that show or forward it. For throughput use `stream`, which transfers stored records.

Invariant: the offset of a reader never moves back, except over messages that are returned to it.
"""

import base64
import binascii
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.client.admin_replies import PartitionEnds
from goqueue.client.errors import GoQueueError, NotFound
from goqueue.client.http import Request, Transport, get, target
from goqueue.client.message import Message
from goqueue.client.values import duration, nanoseconds
from goqueue.model import LogId, Priority
from goqueue.records import encode_headers

if TYPE_CHECKING:
    from goqueue.client.payloads import PayloadReader

__all__ = [
    "DamageSkipped",
    "JsonMessage",
    "MessagePage",
    "PageMessage",
    "PageReader",
    "decode_message",
    "decode_page",
    "fetch_page",
    "first_at",
    "open_readers",
    "with_payloads",
]

_log = logging.getLogger("goqueue.client")

_LIMIT_MAX = 1000


class JsonMessage(msgspec.Struct, frozen=True):
    """A message as the API words it; the last three fields are those of a delivery."""

    topic: str
    partition: int
    offset: int
    timestamp: str
    value: str | None
    key: str = ""
    priority: str = "normal"
    headers: dict[str, str] = {}
    encoding: str = ""
    base64_headers: list[str] = []
    trace_id: str = ""
    receipt_handle: str = ""
    delivery_count: int = 0
    deadline: str = ""


def decode_message(body: JsonMessage) -> Message:
    """The message as a value; a `ValueError` or `KeyError` for what the contract does not allow."""
    is_base64 = body.encoding == "base64"
    return Message(
        body.topic,
        body.partition,
        body.offset,
        nanoseconds(body.timestamp),
        int(Priority[body.priority.upper()]),
        _bytes(body.key, is_base64),
        None if body.value is None else _bytes(body.value, is_base64),
        _header_block(body),
        None,
        body.trace_id or None,
    )


def _bytes(text: str, is_base64: bool) -> bytes:
    return base64.b64decode(text, validate=True) if is_base64 else text.encode()


def _header_block(body: JsonMessage) -> bytes:
    if not body.headers:
        return b""
    encoded = body.base64_headers
    return encode_headers(
        (name, _bytes(value, name in encoded)) for name, value in body.headers.items()
    )


class PageMessage(msgspec.Struct, frozen=True, eq=False):
    """A message, and its JSON exactly as the server sent it.

    `receipt_handle` and `delivery_count` are empty unless the message was polled.
    """

    message: Message
    json: bytes
    receipt_handle: str = ""
    delivery_count: int = 0


class MessagePage(msgspec.Struct, frozen=True, eq=False):
    """Messages of one reply, and the offset to continue from."""

    messages: list[PageMessage]
    next_offset: int
    # A poll of a cooperative member that has to send a heartbeat.
    rebalance_required: bool = False


class _Page(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw]
    next_offset: int = 0
    rebalance_required: bool = False


class _Topic(msgspec.Struct, frozen=True):
    partition_offsets: dict[int, PartitionEnds]


_TOPICS = msgspec.json.Decoder(_Topic)
_PAGES = msgspec.json.Decoder(_Page)
_MESSAGES = msgspec.json.Decoder(JsonMessage)


def decode_page(body: bytes) -> MessagePage:
    """Read the body of a reply that holds messages."""
    try:
        page = _PAGES.decode(body)
        messages = [_page_message(bytes(raw)) for raw in page.messages]
        return MessagePage(messages, page.next_offset, page.rebalance_required)
    except (msgspec.MsgspecError, binascii.Error, KeyError, ValueError) as error:
        words = f"the answer is not what the contract says: {error}"
        raise GoQueueError("response_invalid", words, is_outcome_unknown=True) from error


def _page_message(raw: bytes) -> PageMessage:
    body = _MESSAGES.decode(raw)
    return PageMessage(decode_message(body), raw, body.receipt_handle, body.delivery_count)


async def with_payloads(
    messages: list[PageMessage], payloads: "PayloadReader | None"
) -> list[PageMessage]:
    """The same messages, with payloads if there is a serializer that reads them."""
    if payloads is None:
        return messages
    attached = await payloads.attach([each.message for each in messages])
    return [
        msgspec.structs.replace(each, message=message)
        for each, message in zip(messages, attached, strict=True)
    ]


async def fetch_page(
    transport: Transport,
    log: LogId,
    *,
    offset: int | None = None,
    time: str | None = None,
    limit: int,
    wait_s: float = 0.0,
    isolation: str | None = None,
    payloads: "PayloadReader | None" = None,
) -> MessagePage:
    """Messages from an offset on, or from the first one at or after a time (RFC 3339)."""
    request = Request(
        method="GET",
        target=target(
            "topics",
            log.topic,
            "partitions",
            log.partition,
            "messages",
            offset=offset,
            timestamp=time,
            limit=min(limit, _LIMIT_MAX),
            isolation=isolation,
            wait=duration(wait_s) if wait_s else None,
        ),
        is_repeatable=True,
        wait_s=wait_s,
        log=log,
    )
    page = decode_page((await transport.ask(request)).body)
    messages = await with_payloads(page.messages, payloads)
    return msgspec.structs.replace(page, messages=messages)


async def first_at(transport: Transport, log: LogId, time: dt.datetime) -> MessagePage:
    """A page of the first message at or after a time; empty if there is none yet."""
    return await fetch_page(transport, log, time=_utc_text(time), limit=1)


Convert = Callable[[Sequence[PageMessage]], Awaitable[list[PageMessage]]]


class DamageSkipped(msgspec.Struct, frozen=True):
    """Offsets that cannot be read any more; `first` is None where a read began at a time."""

    log: LogId
    first: int | None
    next_offset: int


class PageReader:
    """Reads one partition from a position on; `end` is where it ended when the reader was made."""

    def __init__(
        self,
        transport: Transport,
        log: LogId,
        *,
        offset: int,
        end: int,
        time: str | None = None,
        isolation: str | None = None,
        on_damage: Callable[[DamageSkipped], None] | None = None,
        payloads: "PayloadReader | None" = None,
    ) -> None:
        self.log = log
        self.offset = offset
        self.end = end
        self._transport = transport
        # Where to begin instead of at the offset, until the first page has told the offset.
        self._time = time
        self._isolation = isolation
        self._on_damage = on_damage or _log_damage
        self._payloads = payloads
        # Changes how messages are shown, such as by decoding their values.
        self.convert: Convert | None = None

    @property
    def is_at_end(self) -> bool:
        """Whether everything that was there when the reader was made has been read."""
        return self._time is None and self.offset >= self.end

    async def read(self, *, limit: int, wait_s: float = 0.0) -> list[PageMessage]:
        """The next messages, at most `limit` and 1000; none when there are none yet.

        Records that are damaged on the broker's disk are skipped and reported.
        """
        try:
            page = await fetch_page(
                self._transport,
                self.log,
                offset=self.offset if self._time is None else None,
                time=self._time,
                limit=limit,
                wait_s=wait_s,
                isolation=self._isolation,
                payloads=self._payloads,
            )
        except GoQueueError as error:
            self._skip_damage(error)
            return []
        if self._time is not None or page.next_offset > self.offset:
            self.offset = page.next_offset
        self._time = None
        return page.messages if self.convert is None else await self.convert(page.messages)

    def step_back(self, messages: Sequence[PageMessage]) -> None:
        """Return messages that were read and not used: the next read begins with them."""
        if messages:
            self.offset = messages[0].message.offset

    def _skip_damage(self, error: GoQueueError) -> None:
        following = error.details.get("next_offset")
        if error.code != "records_damaged" or not isinstance(following, int):
            raise error
        first = self.offset if self._time is None else None
        self._on_damage(DamageSkipped(self.log, first, following))
        self.offset, self._time = following, None


async def open_readers(
    transport: Transport,
    topic: str,
    *,
    partition: int | None,
    start: str | int | dt.datetime,
    isolation: str | None,
    on_damage: Callable[[DamageSkipped], None] | None,
    payloads: "PayloadReader | None" = None,
) -> list[PageReader]:
    """A reader for one partition, or for each; they begin at `start`."""
    described = await transport.read(get("topics", topic), _TOPICS)
    numbers = sorted(described.partition_offsets)
    if partition is not None:
        if partition not in numbers:
            raise NotFound("partition_not_found", f"{topic} has no partition {partition}")
        numbers = [partition]
    return [
        PageReader(
            transport,
            LogId(topic, number),
            offset=_first_offset(start, described.partition_offsets[number]),
            end=described.partition_offsets[number].latest + 1,
            time=_time_text(start),
            isolation=isolation,
            on_damage=on_damage,
            payloads=payloads,
        )
        for number in numbers
    ]


def _first_offset(start: str | int | dt.datetime, ends: PartitionEnds) -> int:
    if isinstance(start, int):
        return start
    return ends.latest + 1 if start == "latest" else ends.earliest


def _time_text(start: str | int | dt.datetime) -> str | None:
    if isinstance(start, dt.datetime):
        return _utc_text(start)
    return None if isinstance(start, int) or start in {"earliest", "latest"} else start


def _utc_text(time: dt.datetime) -> str:
    """A time in the words of the contract."""
    if time.tzinfo is None:
        raise ValueError("a time to read from needs a time zone")
    return time.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def _log_damage(skipped: DamageSkipped) -> None:
    _log.warning(
        "%s: offsets up to %d are damaged on the broker's disk and skipped",
        skipped.log,
        skipped.next_offset - 1,
    )
