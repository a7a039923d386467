"""The event pump: the only caller of the node; executes its effects.

Runs on the event loop. Commands are not handled where they are asked but together, once the loop
has read all sockets that were ready: their writes go to the disk thread at once and share a sync,
and what a turn costs besides its events (the timer, the checks at its end) is paid once. Events are
handled for a slice of time, then the loop serves sockets again. Log bytes are read here: they are
almost always in the page cache.

Invariant: the node is never entered twice, and every command is answered exactly once, unless its
caller cancels it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from goqueue.broker import Node, NodeEvent, Opened, fill
from goqueue.model import (
    Answer,
    Asked,
    Code,
    DiskEvent,
    Fetch,
    Fetched,
    Find,
    Found,
    Halt,
    Left,
    Load,
    Loaded,
    NodeEffect,
    Open,
    Refused,
    Report,
    RequestId,
    Serve,
    Slice,
    Sync,
    Woke,
    Write,
)
from goqueue.model.requests import Command, Reply
from goqueue.runtime.clock import read_clock
from goqueue.runtime.disk import Disk, Work
from goqueue.runtime.node_log import NodeLog
from goqueue.storage import DamageFound
from goqueue.tracing import TraceEntry

__all__ = ["Pump"]

_logger = logging.getLogger(__name__)

_OPENED_TOGETHER = 64
# How long events are handled before the event loop serves sockets again.
_SLICE_NS = 2_000_000


class Pump:
    """Passes events to the node and executes its effects."""

    def __init__(
        self,
        node: Node,
        halt: Callable[[str], None],
        export: "Callable[[list[TraceEntry]], None] | None" = None,
        log: NodeLog | None = None,
    ) -> None:
        """`export` receives the trace entries of the node, and must never wait."""
        self._node = node
        self._halt = halt
        self._export = export
        if export is not None:
            node.export_trace_entries()
        self._disk: Disk | None = None
        self._loop = asyncio.get_running_loop()
        self._events: deque[NodeEvent] = deque()
        # Log reads that the node requested; they count towards the slice too.
        self._reads: deque[Fetch | Find] = deque()
        self._work: list[Work] = []
        self._opens: list[Open] = []
        self._is_running = False
        self._is_scheduled = False
        self._waiting: dict[RequestId, asyncio.Future[Reply]] = {}
        self._next_request = 1
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._quiet: asyncio.Event | None = None
        self._serving = asyncio.Event()
        self._openings: list[asyncio.Future[None]] = []
        self._log = log
        self._is_stopping = False

    @property
    def waiting_count(self) -> int:
        """The number of unanswered commands."""
        return len(self._waiting)

    def take_from_disk(self, events: list[DiskEvent]) -> None:
        """Receive events of the disk; called in its thread."""
        self._loop.call_soon_threadsafe(self._take, events)

    def take_crash(self, crash: BaseException) -> None:
        """A bug has ended the disk thread, so no write will be answered; called in its thread."""
        self._loop.call_soon_threadsafe(self._halt, f"a bug in the disk thread: {crash!r}")

    def start(self, disk: Disk) -> None:
        """Start the node; commands are refused until it serves."""
        self._disk = disk
        self._carry_out(self._node.start())
        self._take(())

    async def wait_until_serving(self) -> None:
        """Wait until recovery is done and commands are accepted."""
        await self._serving.wait()

    async def stop(self) -> None:
        """End waiting commands and finish the running ones; then the caller closes the disk."""
        self._is_stopping = True
        # What was asked before counts as running, though it may still be in the queue.
        self._resume()
        self._carry_out(self._node.stop(read_clock()))
        self._take(())
        self._quiet = asyncio.Event()
        self._note_state()
        await self._quiet.wait()

    async def wait_until_opened(self) -> None:
        """Wait until no log is being opened; after `stop` only the current one."""
        if self._openings:
            await asyncio.wait(self._openings)

    def _note_state(self) -> None:
        if self._node.is_serving:
            self._serving.set()
        is_idle = not self._waiting and not self._events and not self._reads
        if self._quiet is not None and is_idle and self._node.is_quiet:
            self._quiet.set()

    async def ask(self, command: Command) -> Reply:
        """The reply to a command; raises Refused. To interrupt it withdraws the command."""
        request = RequestId(self._next_request)
        self._next_request += 1
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[request] = answer
        self._schedule(Asked(request=request, command=command))
        try:
            return await answer
        finally:
            # Still there: the caller was interrupted.
            if self._waiting.pop(request, None) is not None:
                self._schedule(Left(request=request))

    def _schedule(self, event: NodeEvent) -> None:
        """Handle an event soon, together with all others that come until then."""
        self._events.append(event)
        if not self._is_running and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._resume)

    # The node

    def _take(self, events: "list[DiskEvent] | tuple[NodeEvent, ...]") -> None:
        self._events.extend(events)
        if self._is_running or self._is_scheduled:
            return
        self._is_running = True
        try:
            self._handle_events()
            self._finish_turn()
        except BaseException as bug:
            # The state of the node can no longer be trusted, only a restart from its logs. So it
            # stays marked as running, and is not entered again before the process ends.
            self._halt(f"a bug: {bug!r}")
            raise
        self._is_running = False

    def _handle_events(self) -> None:
        """Handle queued events for a slice of time; the rest follows after other callbacks."""
        events, reads, handle_some = self._events, self._reads, self._node.handle_some
        now = read_clock()
        end = now.instant + _SLICE_NS
        while events or reads:
            if now.instant >= end:
                self._is_scheduled = True
                self._loop.call_soon(self._resume)
                return
            if reads:
                self._read_for_node(reads.popleft())
            else:
                self._carry_out(handle_some(events, now))
            now = read_clock()

    def _read_for_node(self, effect: Fetch | Find) -> None:
        if isinstance(effect, Fetch):
            self._fetch(effect)
        else:
            self._find(effect)

    def _resume(self) -> None:
        self._is_scheduled = False
        self._take(())

    def _finish_turn(self) -> None:
        if self._work and self._disk is not None:
            self._disk.submit(self._work)
            self._work = []
        if self._opens:
            opens, self._opens = self._opens, []
            self._openings.append(self._loop.run_in_executor(None, self._open_all, opens))
        deadline = self._node.next_deadline()
        if deadline != self._timer_at:
            self._set_timer(deadline)
        if self._log is not None:
            self._log.check(self._node.storage)
        if self._export is not None and (entries := self._node.take_trace_entries()):
            self._export(entries)
        self._note_state()

    def _set_timer(self, deadline: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = None
        if deadline is not None:
            delay_s = max(0, deadline - read_clock().instant) / 1e9
            self._timer = self._loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = self._timer_at = None
        self._take((Woke(),))

    # Effects

    def _carry_out(self, effects: list[NodeEffect]) -> None:
        for effect in effects:
            # The most frequent first: each case is tried in turn.
            match effect:
                case Write() | Sync():
                    self._work.append(effect)
                case Answer():
                    self._answer(effect.request, effect.reply)
                case Serve():
                    self._serve(effect)
                case Fetch() | Find():
                    self._reads.append(effect)
                case Open():
                    self._opens.append(effect)
                case Load():
                    data = self._reader.load(effect.name)
                    self._events.append(Loaded(name=effect.name, data=data))
                case Report():
                    if self._log is not None:
                        self._log.report(effect.report)
                case Halt():
                    self._halt(effect.reason)
                case _:
                    self._work.append(effect)

    @property
    def _reader(self) -> Disk:
        assert self._disk is not None, "the pump was not started"
        return self._disk

    def _answer(self, request: RequestId, reply: Reply | Refused) -> None:
        answer = self._waiting.pop(request, None)
        if answer is None or answer.done():
            return
        if isinstance(reply, Refused):
            answer.set_exception(reply)
        else:
            answer.set_result(reply)

    def _serve(self, effect: Serve) -> None:
        reply: Reply | Refused
        try:
            reply = fill(effect, self._read)
        except Refused as refused:
            reply = refused
        except OSError as error:
            # A temporary lack of descriptors or memory: only this answer fails.
            reason = f"the log cannot be read now: {error.strerror or error}"
            reply = Refused(Code.BROKER_UNAVAILABLE, reason=reason)
        self._node.served(effect.request, reply, read_clock())
        self._answer(effect.request, reply)

    def _read(self, wanted: Slice) -> memoryview:
        try:
            return self._reader.read(wanted)
        except DamageFound as found:
            self._events.append(found.event)
            raise Refused(
                Code.RECORDS_DAMAGED,
                offset=wanted.offset,
                next_offset=found.event.below,
                reason=found.event.reason,
            ) from found

    def _fetch(self, effect: Fetch) -> None:
        try:
            data: memoryview | None = self._read(effect.wanted)
        except (Refused, OSError):
            # Damaged, or a temporary lack of descriptors or memory: the component tries again.
            data = None
        self._events.append(Fetched(token=effect.token, data=data))

    def _find(self, effect: Find) -> None:
        try:
            offset = self._reader.find(effect.seeks)
        except (Refused, OSError):
            offset = None
        self._events.append(Found(token=effect.token, offset=offset))

    def _open_all(self, opens: list[Open]) -> None:
        """Open logs in a separate thread: with many logs this takes long."""
        opened: list[Opened] = []
        try:
            for each in opens:
                if self._is_stopping:
                    return
                state = self._reader.open(each.log, each.settings).state
                opened.append(Opened(log=each.log, state=state))
                if len(opened) >= _OPENED_TOGETHER or each is opens[-1]:
                    self._loop.call_soon_threadsafe(self._take, tuple(opened))
                    opened = []
        except OSError as error:
            self._loop.call_soon_threadsafe(self._halt, f"a log cannot be opened: {error}")
        except Exception as bug:
            # No one else sees this error, and a start that never ends reports nothing.
            _logger.exception("opening logs failed")
            self._loop.call_soon_threadsafe(self._halt, f"a bug while opening logs: {bug!r}")
