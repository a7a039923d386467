"""HTTP clients that mean harm: a clean refusal or a closed connection, and nobody else notices."""

import asyncio
import random
import ssl
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator

import pytest

from goqueue.gateways import ConnectionLimits
from goqueue.gateways.http import HttpLimits
from goqueue.runtime.tls import build_context
from tests.certificates import NEEDS_OPENSSL, Authority
from tests.unit.gateways.loopback import (
    LOOPS,
    TLS,
    HandMovedLoop,
    Reply,
    Served,
    TlsContexts,
    Wire,
    get,
    post,
    run,
    serving,
)

MIB = 1024 * 1024
MEMORY_MAX = 32 * MIB
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\nCache-Control: no-store\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

# Each is followed by a request that a laxer reader would see behind it.
AMBIGUOUS = {
    "length and coding": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 4\r\n\r\n",
    "one length twice": HEAD + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "a list of lengths": HEAD + b"Content-Length: 0, 0\r\n\r\n",
    "a signed length": HEAD + b"Content-Length: +0\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "an empty length": HEAD + b"Content-Length:\r\n\r\n",
    "a length in hexadecimal": HEAD + b"Content-Length: 0x0\r\n\r\n",
    "a length with a separator": HEAD + b"Content-Length: 1_0\r\n\r\n",
    "a length past 64 bits": HEAD + b"Content-Length: 18446744073709551616\r\n\r\n",
    "a space before the colon": HEAD + b"Content-Length : 0\r\n\r\n",
    "a coding with a space before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n",
    "a coding after a vertical tab": HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "chunked not last": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": CHUNKED.replace(b"1.1", b"1.0") + b"0\r\n\r\n",
    "a folded header": HEAD + b"X: a\r\n Content-Length: 0\r\n\r\n",
    "a folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a bare LF": HEAD + b"X: a\nContent-Length: 0\r\n\r\n",
    "a bare CR": HEAD + b"X: a\rContent-Length: 0\r\n\r\n",
    "lines ended by LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "a NUL in a value": HEAD + b"X: a\0b\r\n\r\n",
    "a NUL in a name": HEAD + b"X\0: a\r\n\r\n",
    "a name without a colon": HEAD + b"X\r\n\r\n",
    "an empty name": HEAD + b": x\r\n\r\n",
    "a chunk size with a prefix": CHUNKED + b"0x0\r\n\r\n",
    "a chunk size with a sign": CHUNKED + b"-1\r\n\r\n",
    "a chunk size with a space": CHUNKED + b"0 \r\n\r\n",
    "an empty chunk size": CHUNKED + b"\r\n\r\n",
    "a chunk size past 64 bits": CHUNKED + b"1" + b"0" * 16 + b"\r\n\r\n",
    "a chunk ended by LF": CHUNKED + b"1\na\n0\n\n",
    "a chunk longer than its size": CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
    "two hosts": HEAD + b"Host: b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a compressed body": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
    "an upgrade": HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a target with a fragment": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target with a user": b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target of another scheme": b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target with a NUL": b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target that is not ASCII": b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method": b"STEAL / HTTP/1.1\r\nHost: a\r\n\r\n",
    "the hello of TLS": bytes.fromhex("16030100c8010000c40303") + bytes(64),
    "a frame of another protocol": bytes.fromhex("00000017001200030000000100047465737400"),
}
UNSUPPORTED = {
    501: HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    505: b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
}


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> TlsContexts:
    """A server with a certificate, and clients that trust it."""
    authority = Authority(tmp_path_factory.mktemp("tls") / "ca")
    server, _ = build_context(authority.issue().settings(), ("http/1.1",))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cafile=str(authority.ca_file))
    return TlsContexts(server, client)


@pytest.fixture(params=["plain", pytest.param("tls", marks=NEEDS_OPENSSL)], autouse=True)
def protocol(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every attack is tried in the clear and over TLS."""
    is_tls = request.param == "tls"
    token = TLS.set(request.getfixturevalue("contexts") if is_tls else None)
    yield request.param
    TLS.reset(token)


@pytest.fixture
def memory() -> Iterator[Callable[[], int]]:
    """The most that Python has held since the fixture began."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


async def assert_healthy(served: Served) -> None:
    """Somebody else's request is answered."""
    reply = await served.ask(post(b"well"))
    assert (reply.status, reply.json["body"]) == (200, "well")


def attack(
    step: Callable[[Served], Awaitable[None]],
    limits: HttpLimits | None = None,
    loop: str = "uvloop",
    together: ConnectionLimits | None = None,
) -> None:
    """Run an attack beside a connection that was there before and one that comes after."""

    async def main() -> None:
        async with serving(limits, together) as served:
            friend = await served.open()
            await friend.ask(get())
            await step(served)
            await assert_healthy(served)
            assert (await friend.ask(get())).status == 200
            assert served.server.capacity.requests.bytes_held == 0

    run(main(), loop)


# ---- smuggling and garbage (1, 2, 3, 14, 22, 28, 76) -----------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_an_ambiguous_request_is_refused_and_nothing_behind_it_is_seen(loop: str) -> None:
    async def step(served: Served) -> None:
        for name, data in AMBIGUOUS.items():
            wire = await served.open()
            await wire.send(data + SMUGGLED)
            reply = await wire.reply()
            assert (reply.status, reply.code) == (400, "request_invalid"), name
            assert reply.headers["connection"] == "close", name
            wire.half_close()
            assert await wire.rest() == b"", name
        assert all(request.path == b"/" for request in served.echo.requests)

    attack(step, loop=loop)


@pytest.mark.parametrize("split", [1, 7])
def test_an_ambiguous_request_is_refused_in_whatever_pieces_it_comes(split: int) -> None:
    async def step(served: Served) -> None:
        for name, data in AMBIGUOUS.items():
            wire = await served.open()
            for position in range(0, len(data), split):
                await wire.send(data[position : position + split])
            wire.half_close()
            assert (await wire.reply()).status == 400, name
        assert len(served.echo.requests) == 1

    attack(step)


@pytest.mark.parametrize("status", UNSUPPORTED)
def test_what_is_valid_but_not_spoken_here_is_refused(status: int) -> None:
    async def step(served: Served) -> None:
        wire = await served.open()
        reply = await wire.ask(UNSUPPORTED[status] + SMUGGLED)
        assert (reply.status, reply.code) == (status, "request_invalid")
        wire.half_close()
        assert await wire.rest() == b""

    attack(step)


def test_a_body_of_length_zero_is_an_empty_body() -> None:
    async def step(served: Served) -> None:
        assert (await served.ask(post(b""))).json["body"] == ""

    attack(step)


@pytest.mark.parametrize("length", [1025, 2**31 - 1, 2**64 - 1])
def test_an_announced_body_over_the_limit_is_refused_before_it_comes(
    length: int, memory: Callable[[], int]
) -> None:
    async def step(served: Served) -> None:
        reply = await served.ask(HEAD + b"Content-Length: %d\r\n\r\n" % length)
        assert (reply.status, reply.json["details"]) == (413, {"limit": 1024})
        reply = await served.ask(CHUNKED + b"%x\r\n" % length + bytes(1025))
        assert reply.status == 413

    attack(step)
    assert memory() < MEMORY_MAX


def test_random_bytes_and_mutated_requests_never_harm_the_others(protocol: str) -> None:
    chance = random.Random(28)
    count = 600 if protocol == "plain" else 150
    valid = [post(b"abc", "/x?y"), CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", get("/", "A: b"), SMUGGLED]

    def mutated() -> bytes:
        data = bytearray(b"".join(chance.choices(valid, k=chance.randint(1, 3))))
        for _ in range(chance.randint(1, 6)):
            position = chance.randrange(len(data))
            data[position : position + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        return bytes(data)

    async def step(served: Served) -> None:
        for number in range(count):
            wire = await served.open()
            await wire.send(chance.randbytes(200) if number % 3 == 0 else mutated())
            wire.half_close()
            answer = await wire.rest()
            assert not answer or answer.startswith(b"HTTP/1.1 "), number
            await wire.close()

    attack(step)


# ---- too much of a head or of framing --------------------------------------------------------


async def flood(served: Served, opening: bytes, part: bytes) -> Reply:
    """Send parts without end until the server answers."""
    wire = await served.open()
    await wire.send(opening)
    answer = asyncio.ensure_future(wire.reply())
    while not answer.done():
        await wire.send(part)
        await asyncio.sleep(0)
    return await answer


@pytest.mark.parametrize(
    ("opening", "part", "status"),
    [
        (b"GET /", b"a" * 4000, 431),
        (HEAD + b"X: ", b"a" * 4000, 431),
        (HEAD, b"a" * 4000, 431),
        (HEAD, b"X: a\r\n" * 100, 431),
        (b"\r\n", b"GET / HTTP/1.1\r\n" + HEAD + b"X: a\r\n" * 600, 400),
        (CHUNKED + b"1;", b"a" * 4000, 400),
        (CHUNKED + b"0\r\nX: ", b"a" * 4000, 400),
        (CHUNKED + b"0\r\n", b"X: a\r\n", 400),
        (CHUNKED, b"1\r\na\r\n", 413),
    ],
    ids=[
        "target",
        "header value",
        "header name",
        "headers",
        "a second head inside the first",
        "chunk extension",
        "trailer value",
        "trailers",
        "tiny chunks",
    ],
)
def test_nothing_of_a_request_may_grow_without_end(
    opening: bytes, part: bytes, status: int, memory: Callable[[], int]
) -> None:
    async def step(served: Served) -> None:
        assert (await flood(served, opening, part)).status == status

    attack(step)
    assert memory() < MEMORY_MAX


def test_a_head_at_its_limit_is_read_and_one_past_it_refused() -> None:
    limits = HttpLimits(head_bytes_max=2048, headers_max=10)

    async def step(served: Served) -> None:
        assert (await served.ask(get("/", *[f"X-{n}: a" for n in range(9)]))).status == 200
        assert (await served.ask(get("/", *[f"X-{n}: a" for n in range(10)]))).status == 431
        assert (await served.ask(get("/", "X: " + "a" * 2000))).status == 200
        assert (await served.ask(get("/", "X: " + "a" * 2048))).status == 431

    attack(step, limits)


def test_bodies_of_all_connections_together_have_a_limit() -> None:
    async def step(served: Served) -> None:
        holder = await served.open()
        await holder.send(post(b"x" * 900, "/wait"))
        await served.echo.waiting.wait()
        reply = await served.ask(post(b"x" * 200))
        assert (reply.status, reply.code) == (503, "broker_unavailable")
        served.echo.go.set()
        assert (await holder.reply()).status == 200

    attack(step, together=ConnectionLimits(request_bytes_max=1000))


# ---- slow and silent clients (5, 6, 7, 8, 11) ------------------------------------------------

HASTY = HttpLimits(head_timeout_s=0.2, body_timeout_s=0.2, linger_timeout_s=0.1)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "opening", [b"G", HEAD, post(b"abcd")[:-1], CHUNKED + b"4\r\nabc", get() + b"G"]
)
def test_a_request_that_does_not_come_to_its_end_is_timed_out(opening: bytes, loop: str) -> None:
    async def step(served: Served) -> None:
        wire = await served.open()
        await wire.send(opening)
        if opening.startswith(b"GET"):
            assert (await wire.reply()).status == 200
        reply = await wire.reply()
        assert (reply.status, reply.code) == (504, "request_timeout")
        assert await wire.rest() == b""

    attack(step, HASTY, loop)


@pytest.mark.parametrize(
    "opening", [HEAD + b"X: ", post(b"x" * 1024)[:-1024], CHUNKED + b"400\r\n"]
)
def test_sending_a_byte_now_and_then_does_not_move_the_deadline(opening: bytes) -> None:
    async def step(served: Served) -> None:
        wire = await served.open()
        await wire.send(opening)
        answer = asyncio.ensure_future(wire.reply())
        while not answer.done():
            await wire.send(b"a")
            await asyncio.wait((answer,), timeout=0.01)
        assert (await answer).code == "request_timeout"

    attack(step, HASTY)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_idle_connection_is_closed_without_a_word(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(idle_timeout_s=0.1)) as served:
            fresh, used, blank = [await served.open() for _ in range(3)]
            assert (await used.ask(get())).status == 200
            await blank.send(b"\r\n")
            assert [await wire.rest() for wire in (fresh, used, blank)] == [b"", b"", b""]
            await assert_healthy(served)

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_never_reads_is_cut_and_holds_little_memory(
    loop: str, memory: Callable[[], int]
) -> None:
    async def step(served: Served) -> None:
        # Not a stream: its reader would read. The kernel's buffers take a few responses.
        peer = await asyncio.get_running_loop().run_in_executor(None, served.dial)
        with peer:
            await asyncio.get_running_loop().run_in_executor(None, peer.sendall, get("/much") * 100)
            await served.wait_for_connections(1)
        assert len(served.echo.requests) < 20

    attack(step, HttpLimits(write_timeout_s=0.3), loop)
    assert memory() < MEMORY_MAX


def test_a_slow_reader_that_keeps_reading_gets_everything(protocol: str) -> None:
    limits = HttpLimits(write_timeout_s=0.05, write_bytes_per_s_min=1)

    async def step(served: Served) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HandMovedLoop)
        # With TLS the client's half takes in what comes before it is asked for: no time passes.
        pause_s = 0.02 if protocol == "plain" else 0.0
        wire = await served.open()
        loop.move(0)
        await wire.send(get("/much") * 10)
        for _ in range(30):
            assert len(await wire.part(MIB)) == MIB
            # Slow by the clock of the server: in all ten times as long as it may pause.
            loop.move(pause_s)
        loop.let_go()

    attack(step, limits, loop="moved by hand")


async def try_to_open(served: Served) -> Wire | None:
    """A connection; None if it is closed before it could be told why."""
    try:
        return await served.open()
    except ConnectionError:
        return None


def test_silent_connections_are_bounded_in_number_and_leave_room_again(
    memory: Callable[[], int], protocol: str
) -> None:
    # The loop reserves 256 KiB for each connection with TLS.
    room = 90 if protocol == "plain" else 20

    async def main() -> None:
        together = ConnectionLimits(connections_max=room + 10, connections_per_address_max=room)
        async with serving(together=together) as served:
            crowd = [await served.open() for _ in range(room)]
            reply = await served.ask(get())
            assert (reply.status, reply.code) == (503, "broker_unavailable")
            late = [wire for _ in range(300) if (wire := await try_to_open(served)) is not None]
            await asyncio.gather(*(wire.rest() for wire in late))
            assert served.server.connections_active <= room + 10 + 64
            assert served.server.capacity.connections_refused_total == 301
            assert (await crowd[0].ask(get())).status == 200
            await asyncio.gather(*(wire.close() for wire in crowd + late))
            await served.wait_for_connections(0)
            await assert_healthy(served)

    run(main())
    assert memory() < MEMORY_MAX


def test_two_thousand_connections_without_a_byte_do_not_disturb_a_request(
    memory: Callable[[], int], protocol: str
) -> None:
    # The loop reserves 256 KiB for each end of TLS, and uses a tenth of it.
    count = 2000 if protocol == "plain" else 100

    async def step(served: Served) -> None:
        for _ in range(count // 50):
            await asyncio.gather(*(served.open() for _ in range(50)))
        await assert_healthy(served)

    attack(step)
    # The clients live in this process too.
    assert memory() < 2 * MEMORY_MAX


# ---- leaving at the wrong moment (9, 10) -----------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("opening", [b"GET /", HEAD, post(b"abcd")[:-1], CHUNKED + b"4\r\nab"])
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_request_cut_short_is_never_carried_out(
    opening: bytes, is_reset: bool, loop: str
) -> None:
    async def step(served: Served) -> None:
        wire = await served.open()
        await wire.send(get() + opening)
        assert (await wire.reply()).status == 200
        if is_reset:
            wire.reset()
        else:
            wire.half_close()
            assert (await wire.reply()).code == "request_invalid"
        assert len(served.echo.requests) == 2

    attack(step, loop=loop)


def test_a_reset_in_the_middle_of_a_large_body_gives_its_memory_back() -> None:
    async def step(served: Served) -> None:
        wire = await served.open()
        await wire.send(post(bytes(8 * MIB), "/large")[: 4 * MIB])
        await served.wait_for(lambda: served.server.capacity.requests.bytes_held > 0)
        wire.reset()
        await served.wait_for_connections(1)
        assert served.server.capacity.requests.bytes_held == 0

    attack(step)


# ---- floods of requests (18) -----------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_a_hundred_thousand_pipelined_requests_are_answered_within_bounds(
    loop: str, memory: Callable[[], int], protocol: str
) -> None:
    requests = 100_000 if (loop, protocol) == ("uvloop", "plain") else 5_000

    async def step(served: Served) -> None:
        wire = await served.open()
        sending = asyncio.ensure_future(wire.send(get("/none") * requests))
        for _ in range(10):
            answers = await wire.part(len(NO_CONTENT) * requests // 10)
            assert answers.count(NO_CONTENT) == requests // 10
            served.echo.requests.clear()
            await assert_healthy(served)
        await sending

    attack(step, loop=loop)
    assert memory() < MEMORY_MAX
