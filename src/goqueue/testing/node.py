"""A node for tests: in this process, over memory, with a clock that tests move.

Clients reach it by its `url` without a port. Requests and answers are the bytes of the HTTP API,
handled by the real gateway, the real node and the real storage; only the disk, the network and
the clock are in memory. The gateway runs on an event loop in a thread of its own, so that tests
with and without an event loop can use it, and the loop of a test may end before the node does.

Invariant: after `stop` no thread, no task and no registered name of the node is left.
"""

import asyncio
import contextlib
import itertools
import platform
import re
import threading
import warnings
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import goqueue
from goqueue.client.errors import Closed, ServerUnreachable
from goqueue.client.in_process import SCHEME, register, unregister
from goqueue.gateways import Endpoint, NodeFacts, TcpListener
from goqueue.gateways.http import CorsPolicy, HttpApi, http_listener
from goqueue.testing.clock import ManualClock
from goqueue.testing.idle import NotIdle
from goqueue.testing.memory_transport import MemoryTransport, connect_ends
from goqueue.testing.process_broker import ProcessBroker

if TYPE_CHECKING:
    from goqueue.client.connection import Connection
    from goqueue.client.retries import Retries
    from goqueue.client.sync import SyncConnection

__all__ = ["MemoryNode"]

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_numbers = itertools.count(1)
# How long clients that were closed may take to be gone, before the node says that they are not.
_FAREWELL_S = 1.0


class MemoryNode:
    """`with MemoryNode() as node`, or `async with`: a node until the block is left.

    `node.connect()` and `node.connect_sync()` are `goqueue.connect` and `goqueue.connect_sync` to
    this node. Each node has topics, groups and a `clock` of its own, unless it is given one.
    """

    def __init__(self, *, name: str | None = None, clock: ManualClock | None = None) -> None:
        """`name` is part of the URL: lower-case letters, digits, dots and hyphens."""
        name = f"node-{next(_numbers)}" if name is None else name
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a node: use letters, digits and hyphens")
        self._name = name
        self.clock = ManualClock() if clock is None else clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._broker: ProcessBroker | None = None
        self._listener: TcpListener | None = None
        self._is_restarting = False

    @property
    def url(self) -> str:
        """What `goqueue.connect` and `GOQUEUE_SERVER` take."""
        return f"{SCHEME}://{self._name}"

    def __repr__(self) -> str:
        state = "stopped" if self._loop is None else "running"
        return f"MemoryNode({self.url}, {state}, {self.clock.now().isoformat()})"

    def connect(
        self, *, retries: "Retries | None" = None, client_id: str = "python"
    ) -> "Connection":
        """`async with node.connect() as q`: a connection to this node."""
        return goqueue.connect(self.url, retries=retries, client_id=client_id)

    def connect_sync(
        self, *, retries: "Retries | None" = None, client_id: str = "python"
    ) -> "SyncConnection":
        """`with node.connect_sync() as q`: the same without await."""
        return goqueue.connect_sync(self.url, retries=retries, client_id=client_id)

    # Start and stop

    def __enter__(self) -> "MemoryNode":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left = self.stop()
        if left and error is None:
            words = f"{self.url} was stopped while its clients still waited for it ({left})"
            warnings.warn(
                f"{words}: close consumers and connections before the node, or cancel the tasks "
                "that use them",
                ResourceWarning,
                stacklevel=2,
            )

    async def __aenter__(self) -> "MemoryNode":
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Clients on this very loop have the time to notice that their connections are gone.
        with contextlib.suppress(NotIdle):
            await self.clock.idle.wait_until_idle(_FAREWELL_S)
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def start(self) -> None:
        """Start the node; `with` does it."""
        if self._thread is not None:
            raise RuntimeError(f"{self.url} runs already")
        is_up = threading.Event()
        failures: list[BaseException] = []
        loop = asyncio.new_event_loop()

        async def begin() -> None:
            try:
                self._begin()
            except BaseException as error:  # noqa: BLE001 - raised by whoever starts the node
                failures.append(error)
            is_up.set()

        def run() -> None:
            asyncio.set_event_loop(loop)
            beginning = loop.create_task(begin())
            try:
                loop.run_forever()
                assert beginning.done()
            finally:
                loop.close()

        self._thread = threading.Thread(target=run, name=f"goqueue {self.url}", daemon=True)
        self._thread.start()
        is_up.wait()
        self._loop = loop
        try:
            if not failures:
                register(self._name, self)
        except BaseException as error:  # noqa: BLE001 - raised below, when the thread has ended
            failures.append(error)
        if failures:
            self._end_thread()
            raise failures[0]

    def stop(self) -> str:
        """Cut all connections and end the thread; what clients still waited for, if anything.

        `with` does it. Again is fine.
        """
        unregister(self._name)
        if self._loop is None:
            return ""
        try:
            return self._call(self._end)
        finally:
            self._end_thread()

    async def restart(self) -> None:
        """End the process as a kill -9 does, and start it again over what it had written.

        Clients reconnect by themselves, after a short wait of real time.
        """
        await asyncio.to_thread(self.restart_sync)

    def restart_sync(self) -> None:
        """`restart` for a test without an event loop."""
        self._call(self._restart)

    # What clients call

    def attach(self, protocol: asyncio.BufferedProtocol) -> None:
        """Connect the client's end, on the loop that runs."""
        node_loop = self._loop
        if node_loop is None:
            raise Closed(f"{self.url} was stopped")
        if self._is_restarting:
            raise ServerUnreachable(f"{self.url} is being restarted")
        loop = asyncio.get_running_loop()
        self.clock.idle.watch(loop)
        client_end, node_end = connect_ends(loop, node_loop, self.clock.idle.note)
        try:
            node_loop.call_soon_threadsafe(self._accept, node_end)
        except RuntimeError:
            raise Closed(f"{self.url} was stopped") from None
        protocol.connection_made(client_end)
        client_end.serve(protocol)

    # On the loop of the node

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock.idle.watch(loop)
        self._broker = broker = ProcessBroker(self.clock)
        broker.start()
        facts = NodeFacts(
            version=goqueue.__version__,
            started_at=self.clock.read().wall,
            python_version=platform.python_version(),
        )
        # No browser gets here, so the name of the node need not be that of a machine.
        cors = CorsPolicy(is_local=False)
        api = HttpApi(broker, facts, cors=cors, clock=lambda: self.clock.read().wall)
        self._listener = http_listener(api, Endpoint(self._name, 0))

    def _accept(self, end: MemoryTransport) -> None:
        assert self._listener is not None
        end.serve(self._listener.attach(end))

    async def _end(self) -> str:
        broker, listener = self._broker, self._listener
        assert broker is not None
        assert listener is not None
        with contextlib.suppress(NotIdle):
            await self.clock.idle.wait_until_idle(_FAREWELL_S)
        left = ", ".join(f"{count} {name}" for name, count in broker.waiting.items())
        await listener.stop(0)
        broker.check()
        broker.stop()
        return left

    async def _restart(self) -> None:
        broker, listener = self._broker, self._listener
        assert broker is not None
        assert listener is not None
        self._is_restarting = True
        try:
            broker.check()
            listener.cut_all()
            broker.start()
        finally:
            self._is_restarting = False

    def _call(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run on the loop of the node, from any other thread, and wait."""
        loop = self._loop
        if loop is None:
            raise Closed(f"{self.url} was stopped")
        return asyncio.run_coroutine_threadsafe(work(), loop).result()

    def _end_thread(self) -> None:
        loop, self._loop = self._loop, None
        thread, self._thread = self._thread, None
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
