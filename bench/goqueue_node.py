"""A GoQueue node as a contender: prepared requests, and both ways to lease and settle over HTTP.

`JsonRoad` is what people use: a receipt handle for each message. `RawRoad` takes stored records and
settles ranges of offsets (docs/reference/lease-records.md).
"""

import http.client
import json
import re
import struct
from collections.abc import Callable
from itertools import chain, islice
from typing import Any, Protocol

from bench.broker_process import BrokerProcess
from bench.dialogue import AnswerEnd, Countdown, Laps, Script
from bench.wire import request
from goqueue.model import Folded
from goqueue.records import last_offset, walk

__all__ = ["PARTITIONS", "GoQueueNode", "JsonRoad", "RawRoad", "Road", "body", "http_end"]

PARTITIONS = 3
_LENGTHS = struct.Struct(">II")
_CONTENT_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


def http_end(received: bytearray) -> int:
    head = received.find(b"\r\n\r\n")
    if head < 0:
        return 0
    found = _CONTENT_LENGTH.search(received, 0, head)
    assert found is not None, bytes(received[:head])
    end = head + 4 + int(found[1])
    return end if len(received) >= end else 0


def body(answer: bytes) -> bytes:
    """The body of an answer, which must be a success."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 2"), answer[:600]
    return rest


class Road(Protocol):
    """One way to lease messages as a member of a group, and to acknowledge them."""

    poll: bytes

    def settle(self, answer: bytes) -> tuple[int, bytes]:
        """How many messages an answer to a poll has, and the request that acknowledges them."""


class JsonRoad:
    """Messages as JSON, each with its receipt handle."""

    def __init__(self, group: str, member: str, wait: str) -> None:
        fields = {"member_id": member, "max_messages": 1000, "timeout": wait}
        self.poll = request("POST", f"/groups/{group}/poll", json.dumps(fields).encode())

    @staticmethod
    def settle(answer: bytes) -> tuple[int, bytes]:
        # As a client would, but without building what it does not look at.
        pieces = body(answer).split(b'"receipt_handle":"')[1:]
        receipts = b'","'.join([piece[: piece.index(b'"')] for piece in pieces])
        fields = b'{"receipt_handles":["' + receipts + b'"]}'
        return len(pieces), request("POST", "/messages/ack/batch", fields)


class RawRoad:
    """Messages as stored records, and one handle for each run of them."""

    def __init__(self, group: str, member: str, wait: str) -> None:
        fields = {"member_id": member, "max_messages": 1000, "timeout": wait}
        self.poll = request("POST", f"/groups/{group}/poll/records", json.dumps(fields).encode())
        self._ack = f"/groups/{group}/leases/ack"

    def settle(self, answer: bytes) -> tuple[int, bytes]:
        shares = body(answer)
        at = count = 0
        leases: list[dict[str, Any]] = []
        while at < len(shares):
            head_size, records_size = _LENGTHS.unpack_from(shares, at)
            at += _LENGTHS.size
            head = json.loads(shares[at : at + head_size])
            at += head_size
            # A consumer looks at its messages: here, at their columns.
            stored = iter(walk(shares[at : at + records_size]).offsets)
            at += records_size
            for lease in head["leases"]:
                if "count" in lease:
                    offsets = sorted(islice(stored, lease["count"]))
                else:
                    offsets = sorted(chain(*(range(*each) for each in lease["offsets"])))
                count += len(offsets)
                folded = Folded.of(offsets)
                form = {"steps": folded.steps} if folded.steps else {"offsets": folded.ranges}
                leases.append({"handle": lease["handle"], **form})
        return count, request("POST", self._ack, json.dumps({"leases": leases}).encode())


class GoQueueNode(BrokerProcess):
    """A node with prepared requests."""

    name = "goqueue"

    def ask(self, method: str, target: str, fields: object = None) -> Any:  # noqa: ANN401 - whatever the JSON says
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        encoded = None if fields is None else json.dumps(fields).encode()
        connection.request(method, target, encoded)
        reply = connection.getresponse()
        answer = json.loads(reply.read())
        connection.close()
        assert reply.status < 300, f"{method} {target}: {reply.status} {answer}"
        return answer

    def create(self, topic: str, partitions: int = PARTITIONS) -> None:
        self.ask("POST", "/topics", {"name": topic, "num_partitions": partitions})

    def join(self, topic: str) -> str:
        """The member id of the only member of a group with the topic's name."""
        fields = {"client_id": "c", "topics": [topic], "session_timeout": "10m"}
        return str(self.ask("POST", f"/groups/{topic}/join", fields)["member_id"])

    def has_raw_leases(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/groups/nobody/poll/records", b'{"member_id":"nobody"}')
        answer = connection.getresponse().read()
        connection.close()
        return b'"route_not_found"' not in answer and b'"method_not_allowed"' not in answer

    def roads(self) -> dict[str, Callable[[str, str, str], Road]]:
        """The ways to lease that this node has."""
        ways: dict[str, Callable[[str, str, str], Road]] = {"json": JsonRoad}
        return {"raw": RawRoad, **ways} if self.has_raw_leases() else ways

    @staticmethod
    def publish(topic: str, batch: bytes, count: int, left: Countdown) -> Script:
        """Batch after batch of raw records, each answered before the next is sent."""
        prepared = request("POST", f"/topics/{topic}/records", batch)
        while left.take(count):
            body((yield prepared, http_end))

    @staticmethod
    def publish_one(topic: str, value: bytes) -> tuple[bytes, AnswerEnd]:
        """A request with one message, as JSON."""
        fields = b'{"messages":[{"value":"%b"}]}' % value
        return request("POST", f"/topics/{topic}/messages", fields), http_end

    def publish_singly(self, topic: str, value: bytes, laps: Laps) -> Script:
        """One message a request, each answered before the next is sent."""
        return laps.repeat(*self.publish_one(topic, value), b"HTTP/1.1 200")

    @staticmethod
    def consume(road: Road, left: Countdown) -> Script:
        """Lease up to 1,000 messages, acknowledge all of them, and so on."""
        while left.left > 0:
            count, ack = road.settle((yield road.poll, http_end))
            if count:
                body((yield ack, http_end))
                left.finish(count)

    @staticmethod
    def read(topic: str, partition: int, counted: list[int]) -> Script:
        """Read a whole partition as stored records, into columns."""
        offset = 0
        while True:
            target = f"/topics/{topic}/partitions/{partition}/records?offset={offset}"
            records = body((yield request("GET", target), http_end))
            if not records:
                return
            counted.append(len(walk(records)))
            offset = last_offset(records) + 1
