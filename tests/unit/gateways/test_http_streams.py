"""Bodies that are sent as they come into being: framing, slow and lost clients, stopping."""

import asyncio
import socket

import pytest

from goqueue.gateways.http.server.application import HttpLimits
from tests.unit.gateways.loopback import LOOPS, Served, get, run, serving


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_pieces_leave_as_they_are_written_and_the_last_chunk_ends_the_connection(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/stream"))
            reply = await wire.reply(has_body=False)
            assert reply.headers["transfer-encoding"] == "chunked"
            assert reply.headers["connection"] == "close"
            assert "content-length" not in reply.headers
            assert await wire.part(8) == b"3\r\none\r\n"
            served.echo.go.set()
            assert await wire.rest() == b"3\r\ntwo\r\n0\r\n\r\n"
            await served.wait_for_connections(0)

    run(main(), loop)


def test_a_client_of_http_1_0_gets_the_bare_body() -> None:
    async def main() -> None:
        async with serving() as served:
            served.echo.go.set()
            wire = await served.open()
            await wire.send(get("/stream", version="1.0"))
            reply = await wire.reply(has_body=False)
            assert "transfer-encoding" not in reply.headers
            assert await wire.rest() == b"onetwo"

    run(main())


def test_a_head_gets_no_body_and_starts_no_stream() -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/stream").replace(b"GET", b"HEAD"))
            assert (await wire.reply(has_body=False)).status == 200
            assert await wire.rest() == b""
            assert not served.echo.waiting.is_set()

    run(main())


def test_a_stream_that_fails_ends_without_its_last_chunk() -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/break"))
            assert (await wire.reply(has_body=False)).status == 200
            assert not (await wire.rest()).endswith(b"0\r\n\r\n")
            await served.wait_for_connections(0)

    run(main())


def test_what_is_sent_behind_the_request_of_a_stream_is_not_answered() -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/stream") + get("/second") + b"x" * 100)
            await wire.reply(has_body=False)
            served.echo.go.set()
            assert (await wire.rest()).endswith(b"0\r\n\r\n")
            assert [request.path for request in served.echo.requests] == [b"/stream"]

    run(main())


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_stream_ends_when_its_client_has_gone(loop: str, how: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/stream"))
            await wire.reply(has_body=False)
            await served.echo.waiting.wait()
            if how == "reset":
                wire.reset()
            else:
                await wire.close()
            await served.echo.cancelled.wait()
            await served.wait_for_connections(0)

    run(main(), loop)


def test_a_client_that_has_only_finished_sending_still_gets_the_stream(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/stream"))
            wire.half_close()
            await wire.reply(has_body=False)
            await served.echo.waiting.wait()
            served.echo.go.set()
            assert (await wire.rest()).endswith(b"3\r\ntwo\r\n0\r\n\r\n")

    run(main(), loop)


def _fill(served: Served) -> socket.socket:
    """A client that asks for everything and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", served.port))
    client.sendall(get("/flood"))
    return client


def test_a_client_that_does_not_read_stops_the_stream_and_is_cut_off(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(write_timeout_s=0.2)) as served:
            client = _fill(served)
            await served.echo.cancelled.wait()
            # What the kernel took, and one buffer of ours.
            assert served.echo.sent < 16 * 1024 * 1024
            await served.wait_for_connections(0)
            client.close()

    run(main(), loop)


def test_a_client_that_reads_again_gets_the_rest(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(write_timeout_s=60.0)) as served:
            client = _fill(served)
            client.setblocking(False)
            sent = -1
            while sent != served.echo.sent:
                sent = served.echo.sent
                await asyncio.sleep(0.05)
            received = 0
            while received <= sent:
                received += len(await asyncio.get_running_loop().sock_recv(client, 1 << 16))
            assert served.echo.sent > sent
            client.close()

    run(main(), loop)


def test_a_stream_is_cut_when_the_listener_stops() -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/stream"))
            await wire.reply(has_body=False)
            await served.server.stop(grace_s=0)
            assert not (await wire.rest()).endswith(b"0\r\n\r\n")
            assert served.echo.cancelled.is_set()

    run(main())
