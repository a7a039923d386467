"""Messages published by one JSON request, each with a result of its own.

For tools that show what became of each message in the words of the API. A producer gathers,
numbers and repeats batches by itself, and is faster.

Invariant: results come in the order of the drafts, one for each.
"""

import base64
from collections.abc import Sequence

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.http import Request, Response, Transport, read_answer, target
from goqueue.client.http_request import refused
from goqueue.model.requests import Acks

__all__ = ["MessageDraft", "PublishResult", "encode_draft", "publish_drafts"]

# With these, too, each message has its result, if the request got as far as messages.
_NONE_STORED = frozenset({400, 403, 404, 413, 422, 500, 507})
_FAILED = 400


class MessageDraft(msgspec.Struct, frozen=True, kw_only=True):
    """One message to publish; what is None is left to the server.

    A `delay` is a duration such as "1m30s" or a number of seconds, `deliver_at` a time (RFC 3339).
    """

    value: bytes | None
    key: bytes = b""
    headers: dict[str, str] = {}
    partition: int | None = None
    priority: int | None = None
    delay: str | float | None = None
    deliver_at: str | None = None

    @property
    def is_delayed(self) -> bool:
        return self.delay is not None or self.deliver_at is not None


class PublishResult(msgspec.Struct, frozen=True, eq=False):
    """What became of one draft: a place, or a code and a sentence that say why there is none.

    `json` is the result exactly as the server sent it. With `acks="none"` the offset is -1.
    """

    partition: int
    offset: int
    code: str
    error: str
    deliver_at: str
    json: bytes


class _Result(msgspec.Struct, frozen=True):
    partition: int = 0
    offset: int = -1
    code: str = ""
    error: str = ""
    due: str = msgspec.field(default="", name="deliverAt")


class _Reply(msgspec.Struct, frozen=True):
    results: list[msgspec.Raw] | None = None
    code: str = ""
    error: str = ""


_RESULTS = msgspec.json.Decoder(_Result)
_REPLIES = msgspec.json.Decoder(_Reply)


def encode_draft(draft: MessageDraft) -> bytes:
    """The draft as the API takes it: key and value as text, or both in base64."""
    value, key, encoding = _texts(draft)
    fields: dict[str, object] = {"value": value}
    optional = {
        "key": key or None,
        "encoding": encoding,
        "headers": draft.headers or None,
        "partition": draft.partition,
        "priority": draft.priority,
        "delay": draft.delay,
        "deliverAt": draft.deliver_at,
    }
    fields |= {name: given for name, given in optional.items() if given is not None}
    return msgspec.json.encode(fields)


def _texts(draft: MessageDraft) -> tuple[str | None, str, str | None]:
    try:
        value = None if draft.value is None else draft.value.decode()
        return value, draft.key.decode(), None
    except UnicodeDecodeError:
        value = None if draft.value is None else base64.b64encode(draft.value).decode()
        return value, base64.b64encode(draft.key).decode(), "base64"


async def publish_drafts(
    transport: Transport, topic: str, drafts: Sequence[MessageDraft | bytes], acks: str = Acks.ALL
) -> list[PublishResult]:
    """Publish by one request, which is not repeated; bytes are drafts that were encoded before."""
    encoded = (each if isinstance(each, bytes) else encode_draft(each) for each in drafts)
    request = Request(
        method="POST",
        target=target("topics", topic, "messages", acks=None if acks == Acks.ALL else str(acks)),
        body=b'{"messages":[' + b",".join(encoded) + b"]}",
        answers=_NONE_STORED,
    )
    response = await transport.ask(request)
    try:
        reply = read_answer(response, _REPLIES)
    except GoQueueError:
        if response.status < _FAILED:
            raise
        raise refused(response) from None
    if reply.results is None and (reply.code or response.status >= _FAILED):
        raise refused(response)
    given = reply.results or []
    if len(given) != len(drafts):
        words = f"the answer has {len(given)} results for {len(drafts)} messages"
        raise GoQueueError("response_invalid", words, is_outcome_unknown=True)
    return [_result(response, bytes(raw)) for raw in given]


def _result(response: Response, raw: bytes) -> PublishResult:
    told = read_answer(msgspec.structs.replace(response, body=raw), _RESULTS)
    return PublishResult(told.partition, told.offset, told.code, told.error, told.due, raw)
