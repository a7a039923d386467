"""Queues without a membership: one request leases messages of topics for a group.

For scripts and functions that are started for a few messages. The answers and the receipts are
those of a poll, as JSON or as stored records, and so are the routes that settle messages. Each
field has the name that a poll gives it and a shorter one, for commands that people type.
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import Lease, Name, Wait
from goqueue.gateways.http.leases import encode_shares
from goqueue.gateways.http.message_encoder import encode_poll
from goqueue.gateways.http.messages import Delivery
from goqueue.gateways.http.read import shortened
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import GROUP
from goqueue.gateways.http.routing.router import SCHEMA_REF, Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import LEASED_RECORDS_MEDIA, SECOND, Code, Refused, check_name
from goqueue.model.requests import Leased, Receive

__all__ = ["RECEIVE_ROUTES", "ReceiveBody"]

_SECTION = "Queues"
_WAIT_NS_MAX = 60 * SECOND
_MESSAGES_MAX = 1000
_TOPICS_MAX = 20
_MAX = "how many messages at most, 1 by default; more than 1000 is cut to that"
_VISIBILITY = "the lease on the messages; absent, that of their topic"

Value = TypeVar("Value")


class ReceiveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lease messages of topics for a group, without joining it."""

    topics: (
        Annotated[
            list[Name],
            Meta(min_length=1, max_length=_TOPICS_MAX, description="what to lease from"),
        ]
        | None
    ) = None
    max_messages: Annotated[int, Meta(ge=1, description=_MAX)] | None = None
    wait: Annotated[
        Wait | None, Meta(description="how long to wait for a message: 0 by default, at most 60s")
    ] = None
    visibility_timeout: Annotated[Lease | None, Meta(description=_VISIBILITY)] = None
    topic: Annotated[Name | None, Meta(description="short for `topics` with one element")] = None
    max: Annotated[int, Meta(ge=1, description="short for `max_messages`")] | None = None
    visibility: Annotated[Lease | None, Meta(description="short for `visibility_timeout`")] = None


def _topics(body: ReceiveBody) -> tuple[str, ...]:
    if body.topic is not None:
        check_name(body.topic, "topic")
    one = None if body.topic is None else [body.topic]
    topics = _given(body.topics, one, "topics", "topic")
    if topics is None:
        raise Refused(Code.REQUEST_INVALID, field="topics", reason="is missing")
    for topic in topics:
        check_name(topic, "topics")
    return tuple(topics)


def _given(value: Value | None, short: Value | None, name: str, short_name: str) -> Value | None:
    """What a caller gave by one of two names."""
    if value is not None and short is not None:
        reason = f"is the same as `{name}`; give one of them"
        raise Refused(Code.REQUEST_INVALID, field=short_name, reason=reason)
    return short if value is None else value


async def _lease(call: Call) -> Leased:
    body = call.body(ReceiveBody)
    topics = _topics(body)
    count = _given(body.max_messages, body.max, "max_messages", "max") or 1
    lease = _given(body.visibility_timeout, body.visibility, "visibility_timeout", "visibility")
    wait_ns = 0 if body.wait is None else min(body.wait.ns, _WAIT_NS_MAX)
    receive = Receive(
        group=call[GROUP],
        topics=topics,
        wait_ns=shortened(wait_ns),
        messages_max=min(count, _MESSAGES_MAX),
        visibility_ns=None if lease is None else lease.ns,
    )
    return await call.ask(receive, Leased)


async def _receive(call: Call) -> HttpResponse:
    return await call.run(encode_poll(await _lease(call)))


async def _receive_records(call: Call) -> HttpResponse:
    return encode_shares(await _lease(call))


_NOTHING = {"type": "null"}
_SCHEMA = {
    "allOf": [
        {"$ref": SCHEMA_REF.format(name=ReceiveBody.__name__)},
        {"anyOf": [{"properties": {"max": _NOTHING}}, {"properties": {"max_messages": _NOTHING}}]},
        {
            "anyOf": [
                {"properties": {"visibility": _NOTHING}},
                {"properties": {"visibility_timeout": _NOTHING}},
            ]
        },
    ],
    "anyOf": [
        {"properties": {"topics": {"type": "array"}, "topic": _NOTHING}, "required": ["topics"]},
        {"properties": {"topic": {"type": "string"}, "topics": _NOTHING}, "required": ["topic"]},
    ],
}
_ERRORS = (Code.TOPIC_NOT_FOUND, Code.GROUP_MISMATCH, Code.QUOTA_EXCEEDED)
_EXAMPLE = {
    "topics": ["orders"],
    "max_messages": 10,
    "wait": "20s",
    "visibility_timeout": "30s",
}

RECEIVE_ROUTES = (
    Route(
        method="POST",
        path="/queues/{group}/receive",
        section=_SECTION,
        summary="Lease messages for a group without joining it; the first receive creates it",
        run=_receive,
        parameters=(GROUP,),
        body=ReceiveBody,
        body_schema=_SCHEMA,
        answer=Delivery,
        errors=_ERRORS,
        waits=True,
        writes=True,
        example=_EXAMPLE,
    ),
    Route(
        method="POST",
        path="/queues/{group}/receive/records",
        section=_SECTION,
        summary="Lease messages without joining, and get them as stored records",
        run=_receive_records,
        parameters=(GROUP,),
        body=ReceiveBody,
        body_schema=_SCHEMA,
        answer_media=LEASED_RECORDS_MEDIA,
        errors=_ERRORS,
        waits=True,
        writes=True,
        example=_EXAMPLE,
    ),
)
