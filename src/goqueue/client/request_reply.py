"""Requests and their replies: a message that is published and answered by whoever handles it.

Replies are not durable, and a request is not sent twice: one whose answer was lost may have been
handled, and a second one would be handled again.
"""

import base64
from collections.abc import Mapping
from typing import TypeVar, overload

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.http import Request, Transport, post, read_answer, target
from goqueue.client.message_drafts import MessageDraft, encode_draft
from goqueue.client.values import (
    Delay,
    Headers,
    Value,
    duration,
    encode_key,
    encode_value,
    priority_number,
    span_of,
)
from goqueue.client.values import headers as header_pairs

__all__ = ["Reply", "ask_for_reply", "request_draft", "request_seconds", "send_reply"]

T = TypeVar("T")

_ANYTHING = msgspec.json.Decoder(object)


class Reply(msgspec.Struct, frozen=True):
    """A reply, and where the message that it answers was stored."""

    value: bytes | None
    headers: Mapping[str, str]
    partition: int
    offset: int

    @property
    def text(self) -> str:
        """The value as text; none is empty."""
        return (self.value or b"").decode()

    @overload
    def json(self) -> object: ...

    @overload
    def json(self, type: type[T]) -> T: ...

    def json(self, type: type[T] | None = None) -> T | object:  # noqa: A002 - named as in msgspec
        """The value as JSON, checked against `type` if one is given."""
        if self.value is None:
            return None
        try:
            if type is None:
                return _ANYTHING.decode(self.value)
            return msgspec.json.decode(self.value, type=type)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            words = f"the reply is not the JSON that is expected: {error}"
            raise GoQueueError("response_invalid", words) from error


class _Replied(msgspec.Struct, frozen=True):
    value: str | None
    partition: int
    offset: int
    headers: dict[str, str] = {}
    encoding: str = ""


class _Sent(msgspec.Struct, frozen=True):
    delivered: bool


_REPLIED = msgspec.json.Decoder(_Replied)
_SENT = msgspec.json.Decoder(_Sent)


# The broker waits no longer for a reply.
_REQUEST_S_MAX = 60.0


def request_seconds(timeout: Delay) -> float:
    """How long to wait for a reply."""
    return span_of("timeout", timeout, most_s=_REQUEST_S_MAX)


def request_draft(
    value: Value,
    key: str | bytes | None,
    headers: Headers | None,
    partition: int | None,
    priority: int | str,
) -> MessageDraft:
    """The message of a request."""
    return MessageDraft(
        value=encode_value(value),
        key=encode_key(key),
        headers=text_headers(headers),
        partition=partition,
        priority=priority_number(priority),
    )


async def ask_for_reply(
    transport: Transport, topic: str, draft: MessageDraft, timeout_s: float
) -> Reply:
    """Publish a message and wait for its reply."""
    fields = encode_draft(draft).removesuffix(b"}")
    request = Request(
        method="POST",
        target=target("topics", topic, "request"),
        body=b'%b,"timeout":"%b"}' % (fields, duration(timeout_s).encode()),
        wait_s=timeout_s,
        awaits_client=True,
    )
    replied = read_answer(await transport.ask(request), _REPLIED)
    value = None if replied.value is None else replied.value.encode()
    if value is not None and replied.encoding:
        value = base64.b64decode(value)
    return Reply(value, replied.headers, replied.partition, replied.offset)


async def send_reply(
    transport: Transport, reply_to: str, value: Value, headers: Headers | None
) -> bool:
    """Send a reply; whether somebody waited for it."""
    encoded = encode_value(value)
    fields: dict[str, object] = {"headers": text_headers(headers) or None}
    try:
        fields["value"] = None if encoded is None else encoded.decode()
    except UnicodeDecodeError:
        fields |= {"value": base64.b64encode(encoded or b"").decode(), "encoding": "base64"}
    request = post("replies", reply_to, fields=fields, is_repeatable=False)
    if encoded is None:
        # What is None is left out of a request, and a reply must have a value.
        request = msgspec.structs.replace(request, body=msgspec.json.encode(fields))
    return (await transport.read(request, _SENT)).delivered


def text_headers(headers: Headers | None) -> dict[str, str]:
    """Headers as JSON has them; a value that is not text is refused."""
    try:
        return {name: value.decode() for name, value in header_pairs(headers)}
    except UnicodeDecodeError as error:
        raise GoQueueError("message_invalid", "the headers of a request are text") from error
