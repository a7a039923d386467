"""Requests without a valid key, on the wire: nothing of them is kept, and the answer is late."""

import asyncio
import gc
import tracemalloc
import weakref
from collections.abc import Mapping

import pytest

from goqueue.gateways.credentials import FailedAttempts, Hold
from goqueue.gateways.http.server.application import HttpLimits, Target
from goqueue.gateways.http.server.connection import HttpConnection
from goqueue.gateways.http.server.responses import UNAUTHENTICATED, Refusal
from goqueue.gateways.peer import Peer
from goqueue.model import KeyId, ProvenKey
from tests.unit.gateways.loopback import LOOPS, Served, get, post, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)

KEY = ProvenKey(KeyId("key_0000000000000001"), b"proof")


class Doorman:
    """Lets in who says the word; `/open` is open."""

    def __init__(self, held_max: int = 512) -> None:
        self.attempts = FailedAttempts(lambda: 0.0, held_max=held_max)
        # How many answers were held back, also such as are out by now.
        self.holds = 0

    def authenticate(
        self, _method: str, _target: Target, headers: dict[bytes, bytes], _peer: Peer
    ) -> ProvenKey | Refusal | None:
        word = headers.pop(b"x-api-key", None)
        if word == b"right":
            return KEY
        return None if word == b"probe" else UNAUTHENTICATED

    def hold(self, address: str, _headers: Mapping[bytes, bytes]) -> Hold | None:
        self.holds += 1
        return self.attempts.hold(address)

    def fail_until(self, delay_s: float) -> None:
        """Let so many attempts fail that every further answer is held back for so long at least."""
        while (held := self.attempts.hold("127.0.0.1")) is not None:
            held.release()
            if held.delay_s >= delay_s:
                break


def guard(served: Served, held_max: int = 512) -> Doorman:
    doorman = Doorman(held_max)
    served.echo.guard = doorman
    return doorman


def test_who_has_a_key_is_served_at_once_and_the_application_knows_which(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            doorman = guard(served)
            reply = await served.ask(post(b"hello", "/", "X-API-Key: right"))
            assert (reply.status, reply.json["body"]) == (200, "hello")
            assert "x-api-key" not in reply.json["headers"]
            assert served.echo.requests[0].key == KEY
            assert doorman.attempts.held_count == 0

    run(main(), loop)


def test_nothing_of_a_body_without_a_key_is_kept(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(linger_timeout_s=0.05)) as served:
            doorman = guard(served)
            wire = await served.open()
            head = post(b"x" * 1000).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            await wire.send(head + b"x" * 500)
            await served.wait_for(lambda: doorman.holds == 1)
            await wire.send(b"x" * 500)
            reply = await wire.reply()
            assert reply.status == 401
            assert reply.headers["connection"] == "close"
            assert served.server.capacity.requests.bytes_held == 0
            assert served.echo.requests == []
            # What follows on the connection is not looked at.
            assert await wire.rest() == b""
            assert doorman.attempts.held_count == 0

    run(main(), loop)


def test_who_waits_to_be_told_to_send_a_body_is_not_told(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(linger_timeout_s=0.05)) as served:
            guard(served)
            wire = await served.open()
            head = post(b"x", "/", "Expect: 100-continue").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            await wire.send(head)
            assert (await wire.reply()).status == 401

    run(main(), loop)


def test_a_probe_has_no_body(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            guard(served)
            assert (await served.ask(get("/", "X-API-Key: probe"))).status == 200
            assert served.echo.requests[0].key is None
            assert (await served.ask(post(b"x", "/", "X-API-Key: probe"))).status == 413

    run(main(), loop)


def test_requests_before_a_failure_are_answered_and_those_behind_it_are_not(loop: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(linger_timeout_s=0.05)) as served:
            guard(served)
            wire = await served.open()
            right = post(b"first", "/", "X-API-Key: right")
            await wire.send(right + post(b"second", "/", "X-API-Key: wrong") + right)
            assert (await wire.reply()).json["body"] == "first"
            assert (await wire.reply()).status == 401
            assert await wire.rest() == b""
            assert [bytes(each.body) for each in served.echo.requests] == [b"first"]

    run(main(), loop)


def test_too_many_failures_at_once_are_cut_off_without_an_answer(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            doorman = guard(served, held_max=1)
            doorman.fail_until(1)
            held, cut = await served.open(), await served.open()
            await held.send(get("/", "X-API-Key: wrong"))
            await served.wait_for(lambda: doorman.holds == 1)
            await cut.send(get("/", "X-API-Key: wrong"))
            assert await cut.rest() == b""
            assert (await held.reply()).status == 401

    run(main(), loop)


def test_a_client_that_leaves_while_its_refusal_is_held_back_frees_its_place(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            doorman = guard(served)
            wire = await served.open()
            await wire.send(get("/", "X-API-Key: wrong"))
            await served.wait_for(lambda: doorman.holds == 1)
            wire.reset()
            await served.wait_for(lambda: doorman.attempts.held_count == 0)
            await served.wait_for_connections(0)

    run(main(), loop)


def test_a_server_stops_while_refusals_are_held_back(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            doorman = guard(served)
            wire = await served.open()
            await wire.send(get("/", "X-API-Key: wrong"))
            await served.wait_for(lambda: doorman.holds == 1)
            await served.server.stop(grace_s=0)
            await served.wait_for(lambda: doorman.attempts.held_count == 0)
        await asyncio.sleep(0)

    run(main(), loop)


def test_of_hundreds_of_large_bodies_without_a_key_nothing_is_kept(loop: str) -> None:
    """Threat 16, with fewer: what sockets and clients hold is all that there is of them."""

    async def main() -> None:
        async with serving(HttpLimits(linger_timeout_s=5)) as served:
            doorman = guard(served)
            doorman.fail_until(5)
            size = 16 * 1024 * 1024
            head = b"POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
            piece, wires = bytes(128 * 1024), [await served.open() for _ in range(200)]
            received = served.server.traffic.bytes_in
            for wire in wires:
                await wire.send(head)
            await served.wait_for(lambda: doorman.holds == len(wires))
            tracemalloc.start()
            try:
                for wire in wires:
                    await wire.send(piece)
                await served.wait_for(
                    lambda: served.server.traffic.bytes_in - received > len(wires) * len(piece)
                )
                kept = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            assert served.server.capacity.requests.bytes_held == 0
            assert kept < len(wires) * len(piece) // 4
            assert served.echo.requests == []
            for wire in wires:
                wire.reset()

    run(main(), loop)


@pytest.mark.parametrize("word", ["right", "wrong"])
def test_a_connection_that_is_gone_is_freed_without_the_collector(loop: str, word: str) -> None:
    async def main() -> None:
        async with serving(HttpLimits(linger_timeout_s=0.05)) as served:
            guard(served)
            wire = await served.open()
            await wire.send(get("/", f"X-API-Key: {word}"))
            assert (await wire.reply()).status == (200 if word == "right" else 401)
            (connection,) = (each for each in gc.get_objects() if isinstance(each, HttpConnection))
            gone = weakref.ref(connection)
            del connection
            await wire.close()
            await served.wait_for(lambda: gone() is None)

    gc.collect()
    gc.disable()
    try:
        run(main(), loop)
    finally:
        gc.enable()
