"""Queues without a membership: one request leases messages of a topic for a group.

For scripts and functions that are started for a few messages. The answers and the receipts are
those of a poll, as JSON or as stored records, and so are the routes that settle messages.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import Lease, Name, Wait
from goqueue.gateways.http.leases import encode_shares
from goqueue.gateways.http.message_encoder import encode_poll
from goqueue.gateways.http.messages import Delivery
from goqueue.gateways.http.read import shortened
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import GROUP
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import LEASED_RECORDS_MEDIA, SECOND, Code, check_name
from goqueue.model.requests import Leased, Receive

__all__ = ["RECEIVE_ROUTES", "ReceiveBody"]

_SECTION = "Queues"
_WAIT_NS_MAX = 60 * SECOND
_MESSAGES_MAX = 1000


class ReceiveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lease messages of a topic for a group, without joining it."""

    topic: Name
    max: Annotated[
        int, Meta(ge=1, description="how many messages at most; more than 1000 is cut to that")
    ] = 1
    wait: Annotated[
        Wait | None, Meta(description="how long to wait for a message: 0 by default, at most 60s")
    ] = None
    visibility: Annotated[
        Lease | None, Meta(description="the lease on the messages; absent, that of their topic")
    ] = None


async def _lease(call: Call) -> Leased:
    body = call.body(ReceiveBody)
    check_name(body.topic, "topic")
    wait_ns = 0 if body.wait is None else min(body.wait.ns, _WAIT_NS_MAX)
    receive = Receive(
        group=call[GROUP],
        topic=body.topic,
        wait_ns=shortened(wait_ns),
        messages_max=min(body.max, _MESSAGES_MAX),
        visibility_ns=None if body.visibility is None else body.visibility.ns,
    )
    return await call.ask(receive, Leased)


async def _receive(call: Call) -> HttpResponse:
    return await call.run(encode_poll(await _lease(call)))


async def _receive_records(call: Call) -> HttpResponse:
    return encode_shares(await _lease(call))


_ERRORS = (Code.TOPIC_NOT_FOUND, Code.GROUP_MISMATCH, Code.QUOTA_EXCEEDED)
_EXAMPLE = {"topic": "orders", "max": 10, "wait": "20s", "visibility": "30s"}

RECEIVE_ROUTES = (
    Route(
        method="POST",
        path="/queues/{group}/receive",
        section=_SECTION,
        summary="Lease messages for a group without joining it; the first receive creates it",
        run=_receive,
        parameters=(GROUP,),
        body=ReceiveBody,
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
        answer_media=LEASED_RECORDS_MEDIA,
        errors=_ERRORS,
        waits=True,
        writes=True,
        example=_EXAMPLE,
    ),
)
