"""What others notice: certificates replaced under many connections, and floods of handshakes."""

import asyncio
import contextlib
import multiprocessing
import os
import resource
import select
import signal
import socket
import ssl
import statistics
import time
from collections import deque
from collections.abc import Iterator

import uvloop

from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.security.keyed import keyed, keyed_node
from bench.security.pair import Side, secure_node
from bench.stalls.prober import Prober, Waits
from bench.wire import Wire, request

__all__ = ["attempts", "flood", "reload"]

_PROBE = request("GET", "/livez")
_ADDRESSES = 50
_PER_S = 5000
_ANSWER_S = 2.0
_SWAP_S = 0.1
_TURNS = 3
# A storm has come to its rate by then.
_UNDER_WAY_S = 0.5
# The node closes connections that are idle for a minute.
_IDLE_S = 50.0


def reload(folder: str, scale: float) -> Iterator[Figure]:
    """Replace the certificate while thousands of connections are open; none may notice."""
    wanted = max(20, int(10_000 * scale))
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors[1], descriptors[1]))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # What the node admits: half of its descriptors, and an eighth of the memory.
    count = min(wanted, descriptors[1] // 2 - 200, memory // 8 // (256 * 1024) - 200)
    swaps = max(3, int(20 * scale))
    with secure_node(folder) as node:
        ca_files = (node.files.ca_file, node.others.ca_file)

        async def run() -> tuple[Waits, Waits, int]:
            side = node.side
            wires = await _open(side, count)
            # The same for as long without a reload: what is not its doing.
            quiet = Prober(side.broker.port, side.broker.pid, *ca_files)
            began = time.perf_counter()
            for _ in range(swaps):
                await _shown(side)
                await asyncio.sleep(_SWAP_S)
            quiet_waits = quiet.end()
            prober = Prober(side.broker.port, side.broker.pid, *ca_files)
            seen = set()
            for number in range(1, swaps + 1):
                before = await _shown(side)
                node.swap(number)
                side.broker.signal(signal.SIGHUP)
                await asyncio.sleep(_SWAP_S)
                while (now := await _shown(side)) == before:
                    continue
                seen.add(now)
            waits = prober.end()
            assert len(seen) == 2
            assert time.perf_counter() - began < _IDLE_S, "the node has closed idle connections"
            alive = 0
            for wire in wires:
                # A connection that was lost does not answer.
                with contextlib.suppress(OSError):
                    async with asyncio.timeout(_ANSWER_S):
                        await wire.send(_PROBE)
                        alive += 1
            return quiet_waits, waits, alive

        quiet, waits, alive = uvloop.run(run())
    yield _reload_figure(quiet, waits, count, count - alive, swaps)


def _reload_figure(quiet: Waits, waits: Waits, count: int, lost: int, swaps: int) -> Figure:
    return Figure(
        figure="reload_worst_wait",
        value=waits.max_run,
        unit="ms",
        raw=quiet.max_run,
        target=Target(below=50, details_at_most={"lost": 0}),
        details={
            "connections": count,
            "lost": lost,
            "swaps": swaps,
            # With the time in which others had the processor.
            "max_ms": waits.max,
            "max_ms_without_reload": quiet.max,
            # Processor time of the event loop in one wait: what a reload could have stopped it for.
            "max_loop_ms": waits.max_loop,
            "max_loop_ms_without_reload": quiet.max_loop,
            "p99_ms": waits.p99,
        },
    )


async def _open(side: Side, count: int) -> list[Wire]:
    """Connections, as fast as the node takes them: it closes those that are idle for a minute."""
    wires: list[Wire] = []

    async def open_some() -> None:
        while len(wires) < count:
            wires.append(await side.open())

    await asyncio.gather(*(open_some() for _ in range(8)))
    return wires[:count]


async def _shown(side: Side) -> bytes:
    """The certificate that a new connection gets."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(Wire, "127.0.0.1", side.broker.port, ssl=side.tls)
    session: ssl.SSLObject = transport.get_extra_info("ssl_object")
    encoded = session.getpeercert(binary_form=True)
    transport.close()
    assert encoded is not None
    return encoded


def flood(folder: str, scale: float) -> Iterator[Figure]:
    """Handshakes from many addresses beside a client with an open connection, and a new one."""
    seconds = max(1.0, 10 * scale)
    with secure_node(folder) as node:
        side = node.side
        ca_files = (node.files.ca_file, node.others.ca_file)
        storm = _Storm(side.broker, _hello(), seconds, ca_files)
        quiet_ms = uvloop.run(_connect_ms(side, seconds))
        yield storm.figure("flood_open_connection_p99", "connects_per_s")
        with storm.blowing():
            loud_ms = uvloop.run(_connect_ms(side, seconds))
    yield Figure(
        figure="flood_new_connection_p99",
        value=round(loud_ms, 2),
        unit="ms",
        raw=round(quiet_ms, 2),
        details={"addresses": _ADDRESSES},
    )


async def _connect_ms(side: Side, seconds: float) -> float:
    """The 99th percentile of opening a connection, in ms."""
    connects: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        (await side.open()).close()
        connects.append(time.perf_counter() - began)
        await asyncio.sleep(0.02)
    return sorted(connects)[int(len(connects) * 0.99)] * 1000


class _Storm:
    """Connections at a steady rate that send one message, beside a client that is served.

    What the client waits is compared with and without them, in turns. Its process and that of the
    storm need a processor each: the time in which node and client had none is left out, because on
    a machine with two of them it says nothing about the node.
    """

    def __init__(
        self,
        broker: BrokerProcess,
        message: bytes,
        seconds: float,
        ca_files: tuple[str, ...] = (),
        prepared: bytes = _PROBE,
    ) -> None:
        self._broker = broker
        self._message = message
        self._seconds = seconds
        self._ca_files = ca_files
        self._prepared = prepared
        self._begun = 0
        self._lasted_s = 0.0

    @contextlib.contextmanager
    def blowing(self) -> Iterator[None]:
        begun = multiprocessing.Value("q", 0)
        stop = multiprocessing.Event()
        process = multiprocessing.Process(
            target=_flood, args=(self._broker.port, self._message, stop, begun)
        )
        process.start()
        began = time.perf_counter()
        time.sleep(_UNDER_WAY_S)
        try:
            yield
        finally:
            stop.set()
            process.join()
            self._begun += begun.value
            self._lasted_s += time.perf_counter() - began

    def _waits(self) -> Waits:
        broker = self._broker
        prober = Prober(
            broker.port, broker.pid, *self._ca_files, prepared=self._prepared, pause_s=0.001
        )
        time.sleep(self._seconds / _TURNS)
        return prober.end()

    def figure(self, name: str, rate_name: str) -> Figure:
        quiet, loud = [], []
        usage = self._broker.usage
        rss_before = usage.rss_mib
        shares = []
        for _ in range(_TURNS):
            quiet.append(self._waits())
            with self.blowing():
                busy, began = self._broker.usage, time.perf_counter()
                loud.append(self._waits())
                shares.append(busy.cpu_s / (time.perf_counter() - began))
        rss_after = usage.rss_mib
        p99, raw = (statistics.median(each.p99_run for each in side) for side in (loud, quiet))
        return Figure(
            figure=name,
            value=p99,
            unit="ms",
            raw=raw,
            ratio=round(raw / p99, 3),
            target=Target(ratio_at_least=0.5, details_at_most={"memory_growth_mib": 32}),
            details={
                rate_name: round(self._begun / self._lasted_s),
                "addresses": _ADDRESSES,
                "memory_growth_mib": round(rss_after - rss_before, 1),
                "share_of_a_core": round(statistics.median(shares), 2),
                "p99_ms_of_the_loop": statistics.median(each.p99_loop for each in loud),
                "p99_ms_of_the_loop_quiet": statistics.median(each.p99_loop for each in quiet),
                "p50_ms": statistics.median(each.p50_run for each in loud),
                "p50_ms_quiet": statistics.median(each.p50_run for each in quiet),
                # With the time in which others had the processor.
                "p99_ms_with_queue": statistics.median(each.p99 for each in loud),
                "p99_ms_with_queue_quiet": statistics.median(each.p99 for each in quiet),
            },
        )


def _hello() -> bytes:
    """The first message of a handshake, which costs its sender nothing."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def attempts(folder: str, scale: float) -> Iterator[Figure]:
    """Wrong keys from many addresses beside a client with a right one."""
    seconds = max(1.0, 10 * scale)
    wrong = keyed("GET", "/topics", "gq_" + "0" * 64)
    with keyed_node(folder) as node:
        uvloop.run(node.tenant("own"))
        # Waits for no disk: what the attempts cost is the time of the node.
        prepared = keyed("GET", "/topics/own.orders/partitions/0/messages?offset=0")
        storm = _Storm(node.broker, wrong, seconds, prepared=prepared)
        yield storm.figure("failed_attempts_p99", "attempts_per_s")


def _flood(
    port: int,
    message: bytes,
    stop: "multiprocessing.synchronize.Event",
    begun: "multiprocessing.sharedctypes.Synchronized[int]",
) -> None:
    """Connect at a steady rate, send one message, and leave each after half a second."""
    epoll = select.epoll()
    opened: deque[tuple[float, socket.socket]] = deque()
    pending: dict[int, socket.socket] = {}
    began = time.perf_counter()
    number = 0
    while not stop.is_set():
        now = time.perf_counter()
        for _ in range(min(200, int((now - began) * _PER_S) - number)):
            number += 1
            peer = socket.socket()
            peer.setblocking(False)
            peer.bind((f"127.0.0.{2 + number % _ADDRESSES}", 0))
            peer.connect_ex(("127.0.0.1", port))
            epoll.register(peer, select.EPOLLOUT | select.EPOLLONESHOT)
            pending[peer.fileno()] = peer
            opened.append((now + 0.5, peer))
        for descriptor, _ in epoll.poll(0.001):
            peer_ready = pending.pop(descriptor, None)
            if peer_ready is not None:
                try:
                    peer_ready.send(message)
                except OSError:
                    continue
        while opened and opened[0][0] < now:
            gone = opened.popleft()[1]
            pending.pop(gone.fileno(), None)
            gone.close()
        begun.value = number
