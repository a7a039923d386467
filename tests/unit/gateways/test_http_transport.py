"""The HTTP transport with clients that behave: every form of request the contract allows."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from goqueue.gateways import ConnectionLimits, Endpoint
from goqueue.gateways.http import HttpLimits, http_listener
from tests.unit.gateways.loopback import LOOPS, Echo, Reply, get, post, run, serving

CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def ask(data: bytes, loop: str, limits: HttpLimits | None = None) -> Reply:
    async def main() -> Reply:
        async with serving(limits) as served:
            return await served.ask(data)

    return run(main(), loop)


def test_a_request_comes_whole_to_the_application(loop: str) -> None:
    reply = ask(post(b"hello", "/a%20b/c?x=1&y=%2F", "X-Two: 1", "x-two: 2"), loop)

    assert reply.status == 200
    seen = reply.json
    assert (seen["method"], seen["path"], seen["query"]) == ("POST", "/a%20b/c", "x=1&y=%2F")
    assert (seen["body"], seen["client"]) == ("hello", "127.0.0.1")
    assert seen["headers"]["x-two"] == "1, 2"


def test_a_response_says_its_length_its_type_and_that_it_must_not_be_stored(loop: str) -> None:
    reply = ask(get("/", "X-Request-ID: abc"), loop)

    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-request-id"] == "abc"
    assert int(reply.headers["content-length"]) == len(reply.body)
    assert "connection" not in reply.headers


def test_a_connection_is_kept_and_its_requests_and_bytes_are_counted(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            replies = [await wire.ask(post(b"%d" % number)) for number in range(5)]
            assert [reply.json["body"] for reply in replies] == list("01234")
            assert (served.server.connections_active, served.server.traffic.requests_total) == (
                1,
                5,
            )
            assert served.server.traffic.bytes_in == 5 * len(post(b"0"))
            assert served.server.traffic.bytes_out > sum(len(reply.body) for reply in replies)
            assert served.server.capacity.requests.bytes_held == 0
            await wire.close()

    run(main(), loop)


@pytest.mark.parametrize(
    ("request_bytes", "is_kept"),
    [
        (get("/", "Connection: close"), False),
        (get("/", version="1.0"), False),
        (get("/", "Connection: keep-alive", version="1.0"), True),
    ],
)
def test_the_client_decides_whether_the_connection_stays(
    request_bytes: bytes, is_kept: bool, loop: str
) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            reply = await wire.ask(request_bytes)
            assert reply.headers["connection"] == ("keep-alive" if is_kept else "close")
            if is_kept:
                assert (await wire.ask(get())).status == 200
            else:
                assert await wire.rest() == b""

    run(main(), loop)


def test_pipelined_requests_are_answered_in_order_whatever_arrives_meanwhile(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(pipelined_max=4)) as served:
            wire = await served.open()
            await wire.send(get("/wait"))
            await served.echo.waiting.wait()
            await wire.send(b"".join(post(b"%d" % number) for number in range(500)))
            assert len(served.echo.requests) == 1
            served.echo.go.set()
            assert (await wire.reply()).json["path"] == "/wait"
            bodies = [(await wire.reply()).json["body"] for _ in range(500)]
            assert bodies == [str(number) for number in range(500)]

    run(main(), loop)


@pytest.mark.parametrize(
    "refused",
    [
        b"POST / HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\nContent-Length: 2000\r\n\r\n",
        CHUNKED.replace(b"Host: a", b"Host: a\r\nX-Request-ID: mine") + b"no size",
    ],
    ids=["too large", "no chunks"],
)
def test_a_refusal_carries_the_id_of_its_request_and_of_no_other(loop: str, refused: bytes) -> None:
    async def main() -> list[str]:
        async with serving() as served:
            first, then = await served.open(), await served.open()
            await first.send(refused)
            await then.send(get("/", "X-Request-ID: earlier"))
            await then.reply()
            await then.send(b"no HTTP at all\r\n\r\n")
            return [(await wire.reply()).headers["x-request-id"] for wire in (first, then)]

    assert run(main(), loop) == ["mine", "none"]


def test_while_readers_do_not_read_nothing_large_is_begun_for_others(loop: str) -> None:
    limits = HttpLimits(write_buffer_bytes_max=1024)
    together = ConnectionLimits(unsent_bytes_max=1_000_000)

    async def main() -> None:
        async with serving(limits, together) as served:
            # It takes several: the kernel holds a few megabytes for each connection.
            idle = [served.dial() for _ in range(8)]
            for deaf in idle:
                deaf.sendall(get("/much") * 4)
            while served.server.capacity.unsent.bytes_held < together.unsent_bytes_max:
                assert (await served.ask(get())).status == 200
            refused = await served.ask(get("/much"))
            assert (refused.status, refused.code) == (503, "broker_unavailable")
            assert (await served.ask(get())).status == 200

            for deaf in idle:
                deaf.close()
            await served.wait_for_connections(0)
            assert served.server.capacity.unsent.bytes_held == 0
            assert (await served.ask(get("/much"))).status == 200

    run(main(), loop)


def test_one_connection_cannot_take_the_room_for_the_bodies_of_all(loop: str) -> None:
    large = post(b"x" * 100_000, "/large")
    limits = HttpLimits(pipelined_bytes_max=50_000)
    together = ConnectionLimits(request_bytes_max=1_000_000)

    async def main() -> None:
        async with serving(limits, together) as served:
            wire, other = await served.open(), await served.open()
            await wire.send(get("/wait"))
            await served.echo.waiting.wait()
            sending = asyncio.ensure_future(wire.send(large * 15))
            # Many turns of the loop, in which the server could have read all of it.
            for _ in range(20):
                await other.send(large)
                assert (await other.reply()).status == 200
            assert served.server.capacity.requests.bytes_held < 500_000
            served.echo.go.set()
            assert (await wire.reply()).json["path"] == "/wait"
            for _ in range(15):
                assert (await wire.reply()).body == b"100000"
            await sending

    run(main(), loop)


def test_a_request_may_come_one_byte_at_a_time(loop: str) -> None:
    async def main() -> Reply:
        async with serving() as served:
            wire = await served.open()
            for byte in post(b"slow but sure", "/x"):
                await wire.send(bytes((byte,)))
            return await wire.reply()

    assert run(main(), loop).json["body"] == "slow but sure"


def test_a_chunked_body_is_gathered_and_its_trailers_change_nothing(loop: str) -> None:
    reply = ask(CHUNKED + b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nHost: evil\r\nX-T: 1\r\n\r\n", loop)

    assert reply.json["body"] == "abcde"
    assert reply.json["headers"] == {"host": "a", "transfer-encoding": "chunked"}


def test_a_body_of_16_mib_comes_whole_and_one_more_byte_is_refused(loop: str) -> None:
    limit = 16 * 1024 * 1024

    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            body = bytes(range(256)) * (limit // 256)
            assert (await wire.ask(post(body, "/large"))).body == b"%d" % limit
            assert served.echo.requests[0].body == body
            assert served.server.capacity.requests.bytes_held == 0
            reply = await wire.ask(post(b"", "/large").replace(b": 0", b": %d" % (limit + 1)))
            assert (reply.status, reply.code) == (413, "body_too_large")
            assert reply.json["details"] == {"limit": limit}
            assert await wire.rest() == b""

    run(main(), loop)


@pytest.mark.parametrize("size", [1024, 1025])
def test_the_limit_of_a_body_holds_for_chunks_too(size: int, loop: str) -> None:
    reply = ask(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size), loop)

    assert reply.status == (200 if size == 1024 else 413)


@pytest.mark.parametrize("piece", [1 << 20, 4096, 1000])
def test_bodies_of_every_size_are_followed_by_the_next_request(piece: int, loop: str) -> None:
    sizes = [0, 1, 3900, 4095, 4096, 4097, 8192, 70_000, 2, 0, 300_000, 5]
    data = b"".join(post(b"x" * size, "/large") for size in sizes)

    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            for position in range(0, len(data), piece):
                await wire.send(data[position : position + piece])
            assert [int((await wire.reply()).body) for _ in sizes] == sizes
            assert [len(request.body) for request in served.echo.requests] == sizes

    run(main(), loop)


def test_a_client_that_expects_it_is_told_to_continue(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            request = post(b"abc", "/", "Expect: 100-continue")
            await wire.send(request[:-3])
            assert (await wire.reply()).status == 100
            assert (await wire.ask(b"abc")).json["body"] == "abc"
            # A client that does not wait for it is not told.
            assert (await wire.ask(request)).json["body"] == "abc"

    run(main(), loop)


def test_a_client_with_too_large_a_body_is_refused_instead_of_told_to_continue(loop: str) -> None:
    request = post(b"", "/", "Expect: 100-continue").replace(b": 0", b": 1025")

    assert ask(request, loop).status == 413


def test_the_word_to_continue_waits_for_the_answers_before_it(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/wait") + post(b"abc", "/", "Expect: 100-continue")[:-3])
            await served.echo.waiting.wait()
            served.echo.go.set()
            statuses = [(await wire.reply()).status for _ in range(2)]
            assert statuses == [200, 100]
            assert (await wire.ask(b"abc")).json["body"] == "abc"

    run(main(), loop)


def test_a_head_request_gets_the_length_without_the_body(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/much").replace(b"GET", b"HEAD"))
            reply = await wire.reply(has_body=False)
            assert reply.headers["content-length"] == str(3 * 1024 * 1024)
            assert (await wire.ask(get())).json["method"] == "GET"

    run(main(), loop)


def test_a_large_response_of_several_buffers_arrives_whole(loop: str) -> None:
    reply = ask(get("/much"), loop)

    assert reply.headers["content-type"] == "text/plain"
    assert reply.body == bytes(3 * 1024 * 1024)


def test_no_content_has_neither_length_nor_type(loop: str) -> None:
    reply = ask(get("/none"), loop)

    assert reply.status == 204
    assert not {"content-length", "content-type"} & reply.headers.keys()


def test_a_target_in_absolute_form_overrules_the_host_header(loop: str) -> None:
    seen = ask(get("http://elsewhere:80/a?b=c"), loop).json

    assert (seen["path"], seen["query"], seen["headers"]["host"]) == ("/a", "b=c", "elsewhere:80")


@pytest.mark.parametrize("path", ["/fail", "/forge"])
def test_a_failing_application_is_an_internal_error_and_the_connection_goes_on(
    path: str, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            reply = await wire.ask(get(path))
            assert (reply.status, reply.code) == (500, "internal_error")
            assert "set-cookie" not in reply.headers
            assert (await wire.ask(get())).status == 200

    run(main(), loop)
    assert "failed" in caplog.text


# ---- clients that leave ----------------------------------------------------------------------


def test_a_half_closed_client_still_gets_every_answer(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/wait") + get("/after"))
            await served.echo.waiting.wait()
            wire.half_close()
            # No answer comes at once: the server finds out that somebody still listens.
            assert (await wire.reply()).status == 100
            served.echo.go.set()
            assert (await wire.reply()).json["path"] == "/wait"
            last = await wire.reply()
            assert (last.json["path"], last.headers["connection"]) == ("/after", "close")
            assert await wire.rest() == b""

    run(main(), loop)


def test_a_half_closed_client_with_a_quick_answer_gets_nothing_but_the_answer(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get())
            wire.half_close()
            assert (await wire.reply()).status == 200
            assert await wire.rest() == b""

    run(main(), loop)


def test_a_half_closed_client_of_http_1_0_is_not_probed(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/wait", version="1.0"))
            await served.echo.waiting.wait()
            wire.half_close()
            # Another connection's probe comes later than this one's would have come.
            other = await served.open()
            await other.send(get("/wait"))
            other.half_close()
            assert (await other.reply()).status == 100
            served.echo.go.set()
            assert (await wire.reply()).status == 200

    run(main(), loop)


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_client_that_leaves_cancels_the_answer_it_waited_for(is_reset: bool, loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/wait"))
            await served.echo.waiting.wait()
            if is_reset:
                wire.reset()
            else:
                await wire.close()
            await served.echo.cancelled.wait()
            assert (await served.ask(get())).status == 200
            assert served.server.traffic.requests_total == 2

    run(main(), loop)


def test_a_client_that_leaves_is_noticed_even_while_reading_is_paused(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(pipelined_max=2)) as served:
            wire = await served.open()
            await wire.send(get("/wait") + get() * 10)
            await served.echo.waiting.wait()
            await wire.close()
            await served.echo.cancelled.wait()
            await served.wait_for_connections(0)
            assert len(served.echo.requests) == 1

    run(main(), loop)


def test_an_answer_that_takes_too_long_is_replaced_and_the_next_request_is_answered(
    loop: str,
) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/slow") + get())
            assert [(await wire.reply()).status for _ in range(2)] == [504, 200]
            assert served.server.connections_active == 1

    run(main(), loop)


def test_an_answer_that_cancels_itself_ends_its_connection_only(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/cancel"))
            assert await wire.rest() == b""
            assert (await served.ask(get())).status == 200

    run(main(), loop)


def test_nothing_is_looked_at_after_the_request_that_closes(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            for last in (
                get("/", "Connection: close"),
                post(b"x" * 9000, "/large", "Connection: close"),
            ):
                wire = await served.open()
                await wire.send(last + get("/more"))
                assert (await wire.reply()).headers["connection"] == "close"
                assert await wire.rest() == b""
            assert [request.path for request in served.echo.requests] == [b"/", b"/large"]

    run(main(), loop)


# ---- start and stop --------------------------------------------------------------------------


def test_an_address_in_use_is_an_error_of_the_start(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            with pytest.raises(OSError, match="in use"):
                await http_listener(Echo(), Endpoint("127.0.0.1", served.port)).open()

    run(main(), loop)


def test_stopping_closes_idle_connections_and_lets_running_requests_finish(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(linger_timeout_s=0.05)) as served:
            idle, busy, early = [await served.open() for _ in range(3)]
            await idle.ask(get())
            await early.send(get()[:10])
            await busy.send(get("/wait"))
            await served.echo.waiting.wait()
            stop = asyncio.ensure_future(served.server.stop(grace_s=30))
            assert await idle.rest() == b""
            assert b"broker_unavailable" in await early.rest()
            served.echo.go.set()
            reply = await busy.reply()
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            await stop
            assert served.server.connections_active == 0
            with pytest.raises(OSError, match=r"refused|Connect call failed"):
                await served.open()

    run(main(), loop)


def test_a_body_on_its_way_is_still_answered_while_stopping(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            request = post(b"abc", "/", "Expect: 100-continue")
            await wire.send(request[:-3])
            assert (await wire.reply()).status == 100
            stop = asyncio.ensure_future(served.server.stop(grace_s=30))
            await asyncio.sleep(0)
            reply = await wire.ask(b"abc")
            assert (reply.json["body"], reply.headers["connection"]) == ("abc", "close")
            await stop

    run(main(), loop)


def test_what_outlasts_the_grace_is_cut_and_its_answer_cancelled(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            wire = await served.open()
            await wire.send(get("/wait"))
            await served.echo.waiting.wait()
            await served.server.stop(grace_s=0.01)
            assert served.echo.cancelled.is_set()
            assert await wire.rest() == b""

    run(main(), loop)


# ---- somebody else's client ------------------------------------------------------------------


def test_httpx_keeps_its_connections_sends_chunks_and_reads_refusals(loop: str) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"one ", b"two"):
            yield part

    async def main() -> None:
        async with serving() as served:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}") as client:
                answers = await asyncio.gather(*(client.get(f"/{n}") for n in range(20)))
                assert [answer.json()["path"] for answer in answers] == [
                    f"/{number}" for number in range(20)
                ]
                assert (await client.post("/", content=parts())).json()["body"] == "one two"
                assert (await client.head("/much")).headers["content-length"] == str(3 << 20)
                refused = await client.post("/", content=bytes(8 << 20))
                assert refused.status_code == 413
                assert json.loads(refused.content)["code"] == "body_too_large"
            assert served.server.traffic.requests_total == 22

    run(main(), loop)
