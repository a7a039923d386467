"""What one message costs at the JSON edge: drafted, its result written, shown, acknowledged.

No server, no broker and no disk: only the work between the bytes of a body and a command, and
between a reply and the bytes of an answer. Prints microseconds per message, the best of several
rounds. Run it with `python -m bench.broker.json_edge`.
"""

import asyncio
import json
import time
from collections.abc import Callable

from goqueue.gateways import NodeFacts
from goqueue.gateways.http import HttpApi
from goqueue.gateways.http.server.application import HttpRequest
from goqueue.model import Caller, Header, LogId, Offset, Timestamp
from goqueue.model.requests import (
    Ack,
    Acked,
    Command,
    Leased,
    LeasedRun,
    PartitionLeases,
    Placed,
    Publish,
    Published,
    Read,
    Records,
    Reply,
    Settlement,
    TraceSeed,
    receipt_of,
)
from goqueue.records import Draft, route, stamp

MESSAGES = 1000
VALUE_BYTES = 100
ROUNDS = 40
PARTITIONS = 3
POLL = b"member_id=m&max_messages=1000"
HOST = {b"host": b"127.0.0.1:8080"}
NOW = Timestamp(1_700_000_000_123_456_789)
LOG = LogId("orders", 0)
LEASE = "orders:0:1:1.1.1.c2f1a0b9d8e7f6a5"
SEED = TraceSeed(1, 2, 1 << 64)


def stored(value: bytes, headers: tuple[Header, ...] = ()) -> tuple[memoryview, ...]:
    """As many records with this value as a request has messages."""
    draft = Draft()
    for index in range(MESSAGES):
        draft.add(b"user-%d" % index, value, headers)
    batch = draft.take()
    stamp(batch, 0, NOW)
    return (memoryview(batch),)


class Echo:
    """Answers as a broker would that has nothing else to do."""

    def __init__(self) -> None:
        self._stored = stored(b"v" * VALUE_BYTES)
        self._seed: TraceSeed | None = None

    def hold(self, data: tuple[memoryview, ...], seed: TraceSeed | None) -> None:
        """Answer with these records from now on."""
        self._stored, self._seed = data, seed

    async def ask(self, command: Command, _: Caller) -> Reply:
        if isinstance(command, Publish):
            return self._published(command)
        if isinstance(command, Ack):
            return Acked(settlements=tuple(Settlement(log=LOG, count=1) for _ in command.leases))
        if isinstance(command, Read):
            end = Offset(MESSAGES)
            return Records(
                log=LOG,
                offset=command.offset,
                high_watermark=end,
                stable=end,
                start=Offset(0),
                upto=end,
                data=self._stored,
                seed=self._seed,
            )
        share = PartitionLeases(
            log=LOG,
            leases=(LeasedRun(LEASE, 1, range(MESSAGES)),),
            deadline=NOW,
            data=self._stored,
            seed=self._seed,
        )
        return Leased(partitions=(share,))

    def _published(self, command: Publish) -> Published:
        routed = route(
            command.batch, PARTITIONS, 0, command.targets, body_bytes_max=1 << 20, needs_key=False
        )
        placed = tuple(
            Placed(partition=number, first=Offset(0), count=routed.targets.count(number))
            for number in routed.parts
        )
        return Published(targets=routed.targets, placed=placed, timestamp=NOW)


def body(**extra: object) -> bytearray:
    messages = [
        {"key": f"user-{index}", "value": "v" * VALUE_BYTES, **extra} for index in range(MESSAGES)
    ]
    return bytearray(json.dumps({"messages": messages}).encode())


def best_us(run: Callable[[], object]) -> float:
    """The fewest microseconds per message out of all rounds: noise only ever adds."""
    fastest = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - began)
    return fastest * 1e6 / MESSAGES


def main() -> None:
    echo = Echo()
    api = HttpApi(echo, NodeFacts(version="bench", started_at=NOW))
    loop = asyncio.new_event_loop()

    def ask(method: str, path: bytes, query: bytes, sent: bytearray) -> None:
        request = HttpRequest(
            method, path, query, HOST, sent, "127.0.0.1", api.resolve(method, path)
        )
        response = loop.run_until_complete(api.answer(request))
        assert response.status == 200, response.body

    def show(name: str, run: Callable[[], object]) -> None:
        print(f"{name:<40} {best_us(run):6.2f} us per message")

    publish = b"/topics/orders/messages"
    plain, rich = body(), body(headers={"trace": "a1b2c3"}, priority="high")
    read, poll = b"/topics/orders/partitions/0/messages", b"/groups/workers/poll"
    nothing = bytearray()
    show("publish, key and value", lambda: ask("POST", publish, b"", plain))
    show("publish, header and priority too", lambda: ask("POST", publish, b"", rich))
    text = (b'{"id": 17, "name": "Zo\xc3\xab"}' * VALUE_BYTES)[:VALUE_BYTES]
    kinds = {
        "plain text": (stored(b"v" * VALUE_BYTES), None),
        "plain text, traced": (stored(b"v" * VALUE_BYTES), SEED),
        "JSON in JSON, a header, traced": (stored(text, (("tenant", b"acme"),)), SEED),
        "base64": (stored(b"\xff" * VALUE_BYTES), None),
    }
    for kind, (data, seed) in kinds.items():
        echo.hold(data, seed)
        show(f"read by offset, {kind}", lambda: ask("GET", read, b"limit=1000", nothing))
        show(f"poll, {kind}", lambda: ask("GET", poll, POLL, nothing))
    receipts = {"receipt_handles": [receipt_of(LEASE, offset) for offset in range(MESSAGES)]}
    acks = bytearray(json.dumps(receipts).encode())
    show("acknowledge", lambda: ask("POST", b"/messages/ack/batch", b"", acks))
    loop.close()


if __name__ == "__main__":
    main()
