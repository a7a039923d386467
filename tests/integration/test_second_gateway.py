"""A second gateway serves beside HTTP on one node, built as docs/development/add-a-gateway.md says.

The gateway is tests/integration/line_gateway.py. It uses the gateways' port and nothing else of the
package, so what these tests show holds for any protocol.
"""

import ast
import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import msgspec
import pytest

from goqueue.gateways import (
    Address,
    Broker,
    Capacity,
    ConnectionLimits,
    Endpoint,
    Gateway,
    GatewayPort,
    Listener,
)
from goqueue.model import Caller
from goqueue.model.requests import Command, Read, Reply
from goqueue.runtime import DataDirectory, Server, configured_gateways
from goqueue.runtime.settings import load_settings
from tests.integration import line_gateway as lines
from tests.unit.gateways.loopback import LOOPS, run

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "development" / "add-a-gateway.md"
ANYWHERE = Endpoint("127.0.0.1", 0)

on_each_loop = pytest.mark.parametrize("loop", LOOPS)


class LineClient:
    """Sends lines and reads replies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *commands: str) -> None:
        self._writer.write("".join(f"{command}\n" for command in commands).encode())
        await self._writer.drain()

    async def reply(self) -> list[str]:
        """The lines of one reply; none if the connection has ended."""
        reply: list[str] = []
        while line := (await self._reader.readline()).decode():
            reply.append(line.rstrip("\n"))
            if not line.startswith("MESSAGE"):
                break
        return reply

    async def ask(self, command: str) -> list[str]:
        await self.send(command)
        return await self.reply()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Served:
    """A node with both gateways, and clients of both."""

    def __init__(self, server: Server, addresses: dict[str, Address]) -> None:
        self._server: Server | None = server
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{addresses['http'].port}")
        self._line = addresses["line"]
        self._clients: list[LineClient] = []

    async def dial(self) -> LineClient:
        client = LineClient(*await asyncio.open_connection(*self._line))
        self._clients.append(client)
        return client

    async def create_topic(self) -> None:
        created = await self.http.post("/topics", json={"name": "orders", "num_partitions": 1})
        assert created.status_code == 201

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        await self.http.aclose()
        await self.stop()


class Observed:
    """The broker of a port; keeps the reads that may wait, as soon as the node has them."""

    def __init__(self, broker: Broker, waits: list[Command]) -> None:
        self._broker = broker
        self._waits = waits

    async def ask(self, command: Command, caller: Caller) -> Reply:
        asked = asyncio.ensure_future(self._broker.ask(command, caller))
        # One turn of the loop later the node has the command.
        await asyncio.sleep(0)
        if isinstance(command, Read) and command.wait_ns:
            self._waits.append(command)
        return await asked


def server_of(
    directory: Path,
    line: Gateway,
    capacity: Capacity | None = None,
    observe: list[Command] | None = None,
) -> Server:
    flags = {"broker.datadir": str(directory), "listeners.http": "127.0.0.1:0"}
    settings = load_settings(flags, {})
    gateways = (*configured_gateways(settings), line)
    return Server(settings, [changed(each, capacity, observe) for each in gateways])


def changed(gateway: Gateway, capacity: Capacity | None, observe: list[Command] | None) -> Gateway:
    """The same gateway on a port with less capacity, or with a broker that is observed."""

    def create(port: GatewayPort) -> Listener:
        if capacity is not None:
            port = msgspec.structs.replace(port, capacity=capacity)
        if observe is not None:
            port = msgspec.structs.replace(port, broker=Observed(port.broker, observe))
        return gateway(port)

    return create


@asynccontextmanager
async def serving(
    directory: Path, capacity: Capacity | None = None, observe: list[Command] | None = None
) -> AsyncIterator[Served]:
    server = server_of(directory, lines.line_gateway(ANYWHERE), capacity, observe)
    served = Served(server, await server.start())
    await server.wait_until_serving()
    try:
        yield served
    finally:
        await served.close()


@on_each_loop
def test_each_gateway_reads_what_the_other_published(tmp_path: Path, loop: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served:
            await served.create_topic()
            client = await served.dial()
            assert await client.ask("PUBLISH orders from a line") == ["OK 0 0"]
            body = {"messages": [{"value": "two\nlines"}]}
            await served.http.post("/topics/orders/messages", json=body)

            read = await served.http.get("/topics/orders/partitions/0/messages")
            assert [each["value"] for each in read.json()["messages"]] == [
                "from a line",
                "two\nlines",
            ]
            assert await client.ask("READ orders 0 0") == [
                'MESSAGE 0 "from a line"',
                'MESSAGE 1 "two\\nlines"',
                "END 2",
            ]

    run(main(), loop)


@on_each_loop
def test_what_http_hides_is_hidden_in_lines_too(tmp_path: Path, loop: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served:
            await served.create_topic()
            messages = "/topics/orders/messages"
            await served.http.post(
                messages, json={"messages": [{"value": "later", "delay": "1h"}, {"value": "kept"}]}
            )
            made = await served.http.post("/producers/init", json={"transactional_id": "t"})
            producer = made.json()
            owner = {**producer, "transactional_id": "t"}
            assert (await served.http.post("/transactions/begin", json=owner)).is_success
            aborted = {**producer, "topic": "orders", "value": "aborted", "partition": 0}
            assert (await served.http.post("/transactions/publish", json=aborted)).is_success
            assert (await served.http.post("/transactions/abort", json=owner)).is_success
            await served.http.post(messages, json={"messages": [{"value": "last"}]})

            client = await served.dial()
            # Offset 0 is delayed, 2 was aborted, 3 is the marker that says so.
            assert await client.ask("READ orders 0 0") == [
                'MESSAGE 1 "kept"',
                'MESSAGE 4 "last"',
                "END 5",
            ]

    run(main(), loop)


@on_each_loop
def test_refusals_carry_the_codes_of_every_gateway(tmp_path: Path, loop: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served:
            client = await served.dial()
            assert await client.ask("READ nothing 0 0") == ["ERROR topic_not_found"]
            assert await client.ask("READ orders x 0") == ["ERROR request_invalid"]
            assert await client.ask("DANCE") == ["ERROR request_invalid"]
            await client.send("x" * (lines.LINE_BYTES_MAX + 1))
            assert await client.reply() == ["ERROR body_too_large"]
            assert await client.reply() == []

    run(main(), loop)


@on_each_loop
def test_pipelined_commands_are_answered_in_order_and_their_bytes_given_back(
    tmp_path: Path, loop: str
) -> None:
    async def main() -> None:
        capacity = Capacity()
        async with serving(tmp_path, capacity) as served:
            await served.create_topic()
            client = await served.dial()
            count = 20 * lines.LINES_MAX
            await client.send(*(f"PUBLISH orders {number}" for number in range(count)))
            replies = [await client.reply() for _ in range(count)]
            assert replies == [[f"OK 0 {number}"] for number in range(count)]
            assert await client.ask("DANCE") == ["ERROR request_invalid"]
            assert capacity.requests.bytes_held == 0

    run(main(), loop)


@on_each_loop
def test_connections_of_both_gateways_share_one_limit(tmp_path: Path, loop: str) -> None:
    async def main() -> None:
        capacity = Capacity(ConnectionLimits(connections_max=2))
        async with serving(tmp_path, capacity) as served:
            assert (await served.http.get("/healthz")).is_success
            client = await served.dial()
            assert await client.ask("DANCE") == ["ERROR request_invalid"]
            assert capacity.connections_active == 2

            over = await served.dial()
            assert await over.reply() == ["ERROR broker_unavailable"]
            assert await over.reply() == []
            assert capacity.connections_refused_total == 1

            # Room that one gateway leaves can be taken through the other.
            await served.http.aclose()
            while capacity.connections_active > 1:  # noqa: ASYNC110 - a count has no event
                await asyncio.sleep(0)
            assert await (await served.dial()).ask("DANCE") == ["ERROR request_invalid"]

    run(main(), loop)


@on_each_loop
def test_request_bytes_of_both_gateways_share_one_limit(tmp_path: Path, loop: str) -> None:
    async def main() -> None:
        capacity = Capacity(ConnectionLimits(request_bytes_max=1000))
        async with serving(tmp_path, capacity) as served:
            await served.create_topic()
            holder = await served.dial()
            await holder.send("PUBLISH orders x", "WAIT orders 0 1", "x" * 900)
            assert await holder.reply() == ["OK 0 0"]
            body = {"messages": [{"value": "x" * 200}]}
            refused = await served.http.post("/topics/orders/messages", json=body)
            assert (refused.status_code, refused.json()["code"]) == (503, "broker_unavailable")

    run(main(), loop)


@on_each_loop
def test_a_stop_answers_what_was_asked_on_every_gateway_and_then_closes(
    tmp_path: Path, loop: str
) -> None:
    waits: list[Command] = []

    async def main() -> None:
        async with serving(tmp_path, observe=waits) as served:
            await served.create_topic()
            waiting, idle = await served.dial(), await served.dial()
            assert await idle.ask("PUBLISH orders x") == ["OK 0 0"]
            await waiting.send("READ orders 0 0", "WAIT orders 0 1")
            assert await waiting.reply() == ['MESSAGE 0 "x"', "END 1"]
            request = served.http.build_request(
                "GET", "/topics/orders/partitions/0/messages?offset=1&wait=30s"
            )
            polling = asyncio.ensure_future(served.http.send(request))
            while len(waits) < 2:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0)

            await served.stop()
            # Its wait has ended without a message, and it was told so before the end.
            assert await waiting.reply() == ["END 1"]
            assert await waiting.reply() == []
            assert await idle.reply() == []
            assert (await polling).json() == {"messages": [], "next_offset": 1}

    run(main(), loop)


@on_each_loop
def test_a_listener_that_waits_for_the_node_refuses_connections_until_recovery_is_done(
    tmp_path: Path, loop: str
) -> None:
    async def main() -> None:
        server = server_of(tmp_path, lines.line_gateway(ANYWHERE))
        served = Served(server, await server.start())
        try:
            with pytest.raises(ConnectionRefusedError):
                await served.dial()
            assert (await served.http.get("/livez")).is_success
            await server.wait_until_serving()
            assert await (await served.dial()).ask("DANCE") == ["ERROR request_invalid"]
        finally:
            await served.close()

    run(main(), loop)


@on_each_loop
def test_a_node_with_one_unusable_address_holds_neither_the_others_nor_its_directory(
    tmp_path: Path, loop: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path / "first") as served:
            taken = Endpoint("127.0.0.1", served.http.base_url.port or 0)
            server = server_of(tmp_path / "second", lines.line_gateway(taken))
            with pytest.raises(OSError, match=r"(?i)address already in use"):
                await server.start()
            DataDirectory(str(tmp_path / "second")).close()

    run(main(), loop)


@on_each_loop
def test_each_gateway_counts_its_own_traffic(tmp_path: Path, loop: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served:
            client = await served.dial()
            await client.ask("DANCE")
            metrics = (await served.http.get("/metrics")).text
            assert "goqueue_line_requests_total 1\n" in metrics
            assert "goqueue_line_received_bytes_total 6\n" in metrics
            assert f"goqueue_line_sent_bytes_total {len('ERROR request_invalid?')}\n" in metrics
            assert "goqueue_http_requests_total 1\n" in metrics
            assert "goqueue_broker_active_connections 2\n" in metrics

    run(main(), loop)


# ---- the page ------------------------------------------------------------------------------


def test_every_piece_of_code_on_the_page_is_the_gateway_that_was_tested() -> None:
    source = Path(lines.__file__).read_text()
    pieces = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(pieces) >= 3
    for piece in pieces:
        assert piece in source, piece


def test_the_gateway_uses_the_port_and_the_page_names_all_it_uses() -> None:
    page = PAGE.read_text()
    tree = ast.parse(Path(lines.__file__).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("goqueue"):
            allowed = ("goqueue.gateways", "goqueue.model", "goqueue.model.requests")
            assert node.module in (*allowed, "goqueue.records")
            missing = [alias.name for alias in node.names if alias.name not in page]
            assert not missing
