"""The way to etcd: endpoints in turn, limits of time and size, and sentences without bodies."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from goqueue.model import CallStore, StoreEvent
from goqueue.runtime.etcd_client import EtcdClient, is_sound
from goqueue.runtime.event_log import silent_log
from goqueue.runtime.settings import EtcdSettings

CALL = CallStore(number=7, path="/v3/kv/range", body=b'{"key":"c2VjcmV0"}')


def answer(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def told(responses: dict[str, bytes], *, endpoints: int = 1, calls: int = 1) -> list[StoreEvent]:
    """What a client tells of calls to a server that answers so; other endpoints are closed."""
    return asyncio.run(_told(responses, endpoints, calls))


async def _told(responses: dict[str, bytes], endpoints: int, calls: int) -> list[StoreEvent]:
    served: set[asyncio.Task[object] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        while head := (await _head(reader)):
            path = head.split()[1]
            writer.write(responses.get(path, b""))
            with suppress(ConnectionError):
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        # Nothing listens on the first port.
        addresses = [f"127.0.0.1:{each}" for each in (*range(1, endpoints), port)]
        settings = EtcdSettings(endpoints=tuple(addresses), prefix="/goqueue")
        events: list[StoreEvent] = []
        heard = asyncio.Event()

        def emit(event: StoreEvent) -> None:
            events.append(event)
            heard.set()

        client = EtcdClient(settings, emit, _First(), silent_log(), fail)
        try:
            for _ in range(calls):
                heard.clear()
                client.call(CALL)
                async with asyncio.timeout(10):
                    await heard.wait()
        finally:
            await client.stop()
            # Connections end with the client; a task of the server is over when it has seen that.
            await asyncio.gather(*filter(None, served))
        return events


def fail(bug: BaseException) -> None:
    raise AssertionError(repr(bug))


class _First(Random):
    """Begins with the first endpoint."""

    def randrange(self, *_: object, **__: object) -> int:
        return 0


async def _head(reader: asyncio.StreamReader) -> str:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return ""
    length = next(line for line in head.splitlines() if line.startswith("Content-Length"))
    await reader.readexactly(int(length.split()[1]))
    return head


def test_a_reply_is_passed_on_with_the_number_of_its_call() -> None:
    replied = told({"/v3/kv/range": answer("200 OK", b"{}")}, calls=2)
    assert replied == [StoreEvent(number=7, body=b"{}")] * 2


def test_the_next_endpoint_is_used_after_the_first_failure() -> None:
    first, second = told({"/v3/kv/range": answer("200 OK", b"{}")}, endpoints=2, calls=2)
    assert first == StoreEvent(number=7, reason="127.0.0.1:1: nothing listens there")
    assert second == StoreEvent(number=7, body=b"{}")


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (answer("503 Unavailable", b'{"error":"no leader","code":14}'), "503 no leader"),
        (answer("404 Not Found", b"<html>"), "404 without a reason"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + bytes(8_400_000), "larger than"),
        (b"", "takes too long"),
    ],
    ids=["error", "other server", "not HTTP", "too large", "silent"],
)
def test_what_is_no_reply_is_a_failure_with_a_reason(response: bytes, words: str) -> None:
    (failed,) = told({"/v3/kv/range": response})
    assert words in failed.reason
    assert "c2VjcmV0" not in failed.reason


def test_a_watch_says_that_something_changed_and_begins_anew_when_it_ends() -> None:
    async def watch() -> None:
        seen = asyncio.Semaphore(0)
        asked = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            while head := (await _head(reader)):
                if head.split()[1] == "/version":
                    writer.write(answer("200 OK", b'{"etcdserver":"3.5.9","etcdcluster":"3.5.0"}'))
                else:
                    asked += 1
                    line = b'{"result":{"canceled":true,"compact_revision":"9"}}\n'
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line))
            writer.close()

        def emit(event: StoreEvent) -> None:
            assert event == StoreEvent()
            seen.release()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            settings = EtcdSettings(endpoints=(f"127.0.0.1:{port}",), prefix="/goqueue")
            client = EtcdClient(settings, emit, _First(), silent_log(), fail)
            client.start()
            try:
                async with asyncio.timeout(20):
                    await seen.acquire()
                    await seen.acquire()
            finally:
                await client.stop()
        assert asked >= 2

    asyncio.run(watch())


@pytest.mark.parametrize(
    ("version", "sound"),
    [
        *[("3.4.21", False), ("3.4.22", True), ("3.4.23", True), ("3.5.0", False)],
        *[("3.5.5", False), ("3.5.6", True), ("3.6.1", True), ("4.0.0", True), ("?", False)],
    ],
)
def test_versions_that_lose_what_they_confirmed_are_known(version: str, sound: bool) -> None:
    assert is_sound(version) is sound
