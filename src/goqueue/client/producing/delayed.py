"""A single message that is to be delivered later, published through the JSON route.

Apart from the producer: a delayed message gets another offset when it is due, so there is no
order to keep with others, and batches would gain little.
"""

import base64
import datetime as dt

import msgspec

from goqueue.client.errors import GoQueueError, refusal
from goqueue.client.producing.parcel import Sent
from goqueue.client.transport import Request, Transport, target
from goqueue.client.values import duration, nanoseconds
from goqueue.model import Message

__all__ = ["Due", "publish_delayed"]

# Seconds from now, or a time with a zone.
Due = float | dt.datetime


class _Result(msgspec.Struct, frozen=True):
    partition: int = 0
    offset: int = 0
    timestamp: str = ""
    error: str = ""
    code: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[_Result]


_RESULTS = msgspec.json.Decoder(_Results)


async def publish_delayed(
    transport: Transport, topic: str, message: Message, due: Due, partition: int | None
) -> Sent:
    """Publish; the place that is answered names the message until it is due."""
    request = Request(
        method="POST",
        target=target("topics", topic, "messages"),
        body=msgspec.json.encode({"messages": [_fields(message, due, partition)]}),
    )
    results = (await transport.read(request, _RESULTS)).results
    if len(results) != 1:
        raise GoQueueError("response_invalid", f"{len(results)} results for one message")
    result = results[0]
    if result.code:
        raise refusal(result.code, result.error)
    return Sent(topic, result.partition, result.offset, nanoseconds(result.timestamp))


def _fields(message: Message, due: Due, partition: int | None) -> dict[str, object]:
    fields: dict[str, object] = {
        "key": base64.b64encode(message.key).decode(),
        "value": None if message.value is None else base64.b64encode(message.value).decode(),
        "encoding": "base64",
        "priority": message.priority,
        "headers": {name: value.decode() for name, value in message.headers},
    }
    if partition is not None:
        fields["partition"] = partition
    if isinstance(due, dt.datetime):
        if due.tzinfo is None:
            raise ValueError("a time to deliver at needs a time zone")
        fields["deliverAt"] = due.astimezone(dt.UTC)
    else:
        fields["delay"] = duration(due)
    return fields
