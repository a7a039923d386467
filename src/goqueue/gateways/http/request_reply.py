"""Requests that are answered: a message is published, and the reply of whoever handles it returned.

The message is an ordinary one, durable and delivered to every group. Its headers say where a reply
is expected, and until when. Replies are not durable: one goes to the request that waits for it, or
nowhere. An id is drawn at random for each request, so only those who got the message can reply.
"""

import asyncio
import base64
import binascii
import re
import secrets
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import OffsetNumber, PartitionNumber, Wait
from goqueue.gateways.http.delay_limits import DelayLimits
from goqueue.gateways.http.messages import (
    EncodingIn,
    HeadersIn,
    MessageFields,
    PriorityIn,
    Text,
)
from goqueue.gateways.http.publish_decoder import draft_one
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import TOPIC, Parameter, ParameterLocation
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.message_rules import count_refused
from goqueue.gateways.trace_headers import request_trace
from goqueue.model import (
    REPLY_BY_HEADER,
    REPLY_TO_HEADER,
    SECOND,
    Code,
    Header,
    Refused,
    Timestamp,
    format_time,
)
from goqueue.model.requests import (
    AwaitReply,
    Placed,
    Publish,
    Published,
    ReplyReceived,
    ReplySent,
    SendReply,
)

__all__ = ["REQUEST_ROUTES", "ReplyBody", "ReplyOut", "ReplySentOut", "RequestBody"]

_SECTION = "Request and reply"
_TIMEOUT_NS = 30 * SECOND
_TIMEOUT_NS_MAX = 60 * SECOND
_ID_BYTES = 16
_ID_TEXT = "^[0-9a-f]{32}$"
_ID = re.compile(_ID_TEXT)
_HEADERS_MAX = 64


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to publish, and how long to wait for its reply."""

    value: Text | None
    key: Text | None = None
    partition: PartitionNumber | None = None
    headers: HeadersIn | None = None
    priority: PriorityIn | None = None
    encoding: EncodingIn | None = None
    timeout: Annotated[
        Wait | None, Meta(description="how long to wait for the reply: 30s by default, at most 60s")
    ] = None


class ReplyOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply, and where the message that it answers was stored."""

    value: Text | None
    partition: PartitionNumber
    offset: OffsetNumber
    headers: dict[str, str] | None = None
    encoding: Literal["base64"] | None = None


class ReplyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reply to a message."""

    value: Text | None
    headers: HeadersIn | None = None
    encoding: EncodingIn | None = None


class ReplySentOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whether somebody waited for the reply; one that is late is dropped."""

    delivered: bool


def _read_id(given: str) -> str:
    if not _ID.fullmatch(given):
        reason = f"must be the `{REPLY_TO_HEADER}` header of a message"
        raise Refused(Code.REQUEST_INVALID, field="reply_to", reason=reason)
    return given


_REPLY_TO = Parameter(
    name="reply_to",
    summary=f"the `{REPLY_TO_HEADER}` header of the message that is answered",
    schema={"type": "string", "pattern": _ID_TEXT, "minLength": 32, "maxLength": 32},
    read=_read_id,
    location=ParameterLocation.PATH,
    is_required=True,
)


async def _request(call: Call) -> ReplyOut:
    body = call.body(RequestBody)
    wait_ns = _TIMEOUT_NS if body.timeout is None else min(body.timeout.ns, _TIMEOUT_NS_MAX)
    reply_to = secrets.token_hex(_ID_BYTES)
    until = Timestamp(call.context.clock() + wait_ns)
    try:
        publish = _publication(call, body, reply_to, until)
    except Refused as refused:
        await count_refused(call.ask, call[TOPIC], {refused.code: 1})
        raise
    call.context.requests.check()
    with call.context.requests:
        return await _exchange(call, publish, AwaitReply(reply_to=reply_to, wait_ns=wait_ns))


async def _exchange(call: Call, publish: Publish, awaited: AwaitReply) -> ReplyOut:
    # Waits from before the message is there: a reply cannot come too early.
    waiting = asyncio.ensure_future(call.ask(awaited, ReplyReceived))
    publishing = asyncio.ensure_future(call.ask(publish, Published))
    try:
        await asyncio.wait((waiting, publishing), return_when=asyncio.FIRST_COMPLETED)
        if not publishing.done():
            # The disk took longer than the requester waits.
            raise Refused(Code.REQUEST_TIMEOUT)
        [placed] = publishing.result().placed
        if placed.refused is not None:
            raise Refused(placed.refused)
        return _reply_out(await _reply(waiting, placed), placed)
    finally:
        for each in (waiting, publishing):
            each.cancel()
            each.add_done_callback(_ignore)


def _publication(call: Call, body: RequestBody, reply_to: str, until: Timestamp) -> Publish:
    given = body.headers or {}
    for name in (REPLY_TO_HEADER, REPLY_BY_HEADER):
        if name in given:
            raise Refused(Code.MESSAGE_INVALID, reason=f"the broker sets the header {name}")
    fields = MessageFields(
        value=body.value,
        key=body.key,
        partition=body.partition,
        headers={**given, REPLY_TO_HEADER: reply_to, REPLY_BY_HEADER: format_time(until)},
        priority=body.priority,
        encoding=body.encoding,
    )
    delays = DelayLimits(call.context.clock(), call.context.limits.delay_ns_max)
    intake = draft_one(fields, delays)
    return Publish(
        topic=call[TOPIC],
        batch=intake.batch,
        targets=intake.targets,
        is_whole=True,
        trace=request_trace(call.request.headers),
    )


async def _reply(waiting: "asyncio.Future[ReplyReceived]", placed: Placed) -> ReplyReceived:
    try:
        return await waiting
    except Refused as refused:
        if refused.code is not Code.NO_REPLY:
            raise
        raise Refused(Code.NO_REPLY, partition=placed.partition, offset=int(placed.first)) from None


def _ignore(asked: "asyncio.Future[ReplyReceived] | asyncio.Future[Published]") -> None:
    """Nobody waits for it any more; a failure that nobody asks for would be logged."""
    if not asked.cancelled():
        asked.exception()


def _reply_out(reply: ReplyReceived, placed: Placed) -> ReplyOut:
    value, encoding = reply.value, None
    try:
        text = None if value is None else value.decode()
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(value or b"").decode(), "base64"
    return ReplyOut(
        value=text,
        partition=placed.partition,
        offset=int(placed.first),
        headers={name: each.decode() for name, each in reply.headers} or None,
        encoding="base64" if encoding else None,
    )


async def _send(call: Call) -> ReplySentOut:
    body = call.body(ReplyBody)
    value = None if body.value is None else _bytes(body.value, body.encoding)
    headers: tuple[Header, ...] = tuple(
        (name, text.encode()) for name, text in (body.headers or {}).items()
    )
    if len(headers) > _HEADERS_MAX:
        raise Refused(Code.MESSAGE_INVALID, reason=f"a reply has at most {_HEADERS_MAX} headers")
    sent = await call.ask(
        SendReply(reply_to=call[_REPLY_TO], value=value, headers=headers), ReplySent
    )
    return ReplySentOut(delivered=sent.is_delivered)


def _bytes(value: str, encoding: str | None) -> bytes:
    if encoding is None:
        return value.encode()
    if encoding != "base64":
        raise Refused(Code.MESSAGE_INVALID, reason="`encoding` must be `base64`")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(Code.MESSAGE_INVALID, reason="the value is not base64") from None


REQUEST_ROUTES = (
    Route(
        method="POST",
        path="/topics/{topic}/request",
        section=_SECTION,
        summary="Publish a message and wait for the reply of its handler",
        run=_request,
        parameters=(TOPIC,),
        body=RequestBody,
        answer=ReplyOut,
        errors=(
            Code.NO_REPLY,
            Code.TOPIC_INTERNAL,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.MESSAGE_TOO_LARGE,
            Code.MESSAGE_INVALID,
            Code.QUOTA_EXCEEDED,
        ),
        waits=True,
        writes=True,
        is_publish=True,
        example={"value": "apples", "timeout": "2s"},
    ),
    Route(
        method="POST",
        path="/replies/{reply_to}",
        section=_SECTION,
        summary="Reply to a message; the reply goes to the request that waits for it",
        run=_send,
        parameters=(_REPLY_TO,),
        body=ReplyBody,
        answer=ReplySentOut,
        errors=(Code.MESSAGE_INVALID,),
        example={"value": "3.20 EUR"},
    ),
)
