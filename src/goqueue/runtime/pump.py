"""The event pump: the only caller of the node; executes its effects.

Runs on the event loop. Commands are not handled where they are asked but together, once the loop
has read all sockets that were ready: their writes go to the disk thread at once and share a sync,
and what a turn costs besides its events (the timer, the checks at its end) is paid once. Events are
handled for a slice of time, then the loop serves sockets again. Log bytes are read here: they are
almost always in the page cache. What is not, as the records that a follower lacks, is read by a
thread beside the loop.

Invariant: the node is never entered twice, and every command is answered exactly once, unless its
caller cancels it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from goqueue.broker import Node, NodeEvent, Opened, fill
from goqueue.model import (
    ROOT_KEY,
    Answer,
    Asked,
    BackupEvent,
    BackupJob,
    Caller,
    CallStore,
    CheckSchema,
    Code,
    CompileSchema,
    ConnectPeers,
    DiskEvent,
    Fetch,
    Fetched,
    Find,
    Found,
    Halt,
    Left,
    Load,
    Loaded,
    LogId,
    NodeEffect,
    Observed,
    Offset,
    Open,
    ProvenKey,
    Refused,
    Report,
    RequestId,
    RunBackupJob,
    SchemaChecked,
    SchemaCompiled,
    Send,
    Serve,
    Slice,
    StoreEvent,
    Sync,
    Woke,
    Write,
)
from goqueue.model.requests import Command, DescribeCaller, Reply
from goqueue.runtime.clock import read_clock
from goqueue.runtime.disk import Disk, Work
from goqueue.runtime.node_log import NodeLog
from goqueue.runtime.schema_thread import SchemaThread
from goqueue.storage import DamageFound, RebuildNeeded, ScanNeeded
from goqueue.tracing import TraceEntry

__all__ = ["Pump"]

_logger = logging.getLogger(__name__)

_OPENED_TOGETHER = 64
# How long events are handled before the event loop serves sockets again.
_SLICE_NS = 2_000_000
# As many events as the node handles in one turn at most.
_EVENTS_MAX = 16

# The segments that were scanned for one read.
Rebuilt = tuple[tuple[LogId, Offset], ...]


def _run_nothing(_: BackupJob) -> None:
    """For a shell without backups."""


def _send_nowhere(_: ConnectPeers | Send) -> None:
    """For a shell without peers."""


def _call_nothing(_: CallStore) -> None:
    """For a shell without an external store."""


class _Inbox(Protocol):
    """What peers have sent; see `PeerInbox`."""

    wake: Callable[[], None]

    def __bool__(self) -> bool: ...

    def take(self, at_most: int) -> Sequence[NodeEvent]: ...


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
        # Whether the node halts because its settings are wrong.
        self.is_misconfigured = False
        self._export = export
        if export is not None:
            node.export_trace_entries()
        self._disk: Disk | None = None
        self._run_job: Callable[[BackupJob], None] = _run_nothing
        self._send: Callable[[ConnectPeers | Send], None] = _send_nowhere
        self._call_store: Callable[[CallStore], None] = _call_nothing
        self._schemas = SchemaThread(self.take_checked, crashed=self._take_schema_crash)
        self._inbox: _Inbox | None = None
        self._loop = asyncio.get_running_loop()
        self._events: deque[NodeEvent] = deque()
        # What was taken from peers and from this node, and the last turns left for the next.
        self._turn: deque[NodeEvent] = deque()
        # Log reads that the node requested; they count towards the slice too.
        self._reads: deque[Fetch | Find] = deque()
        # Searches by time that have to scan segments, reads of many old records, each one at a time
        # in a thread, and how many are not answered.
        self._scanner = ThreadPoolExecutor(1, thread_name_prefix="goqueue-search")
        self._background = ThreadPoolExecutor(1, thread_name_prefix="goqueue-read")
        self._beside = 0
        self._work: list[Work] = []
        self._opens: list[Open] = []
        self._is_running = False
        self._is_scheduled = False
        self._waiting: dict[RequestId, asyncio.Future[Reply]] = {}
        self._next_request = 1
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._left: asyncio.Event | None = None
        self._quiet: asyncio.Event | None = None
        self._serving = asyncio.Event()
        self._has_served = False
        self._openings: list[asyncio.Future[None]] = []
        self._log = log
        self._is_stopping = False

    @property
    def waiting_count(self) -> int:
        """The number of unanswered commands."""
        return len(self._waiting)

    def take_from_disk(self, events: Sequence[DiskEvent | BackupEvent]) -> None:
        """Receive events of the disk, or of backups; called in their threads."""
        self._loop.call_soon_threadsafe(self._take, events)

    def take_checked(self, checked: SchemaChecked | SchemaCompiled) -> None:
        """Receive what was found of a schema; called in the thread that checks."""
        self._loop.call_soon_threadsafe(self._take, (checked,))

    def take_crash(self, crash: BaseException) -> None:
        """A bug has ended a thread of the disk, or of a store: its work is never done."""
        self._loop.call_soon_threadsafe(self._halt, f"a bug in a disk thread: {crash!r}")

    def _take_schema_crash(self, crash: BaseException) -> None:
        self._loop.call_soon_threadsafe(self._halt, f"a bug in the schema thread: {crash!r}")

    def start(self, disk: Disk, run_job: Callable[[BackupJob], None] = _run_nothing) -> None:
        """Start the node; commands are refused until it serves. `run_job` must never wait."""
        self._disk = disk
        self._run_job = run_job
        self._carry_out(self._node.start())
        self._take(())

    def connect(self, inbox: _Inbox, send: Callable[[ConnectPeers | Send], None]) -> None:
        """Handle what peers send, and send them what the node says; before `start`."""
        self._inbox = inbox
        self._send = send
        inbox.wake = self._resume_soon

    def connect_store(self, call: Callable[[CallStore], None]) -> None:
        """Ask an external store what the node asks; before `start`. `call` must never wait."""
        self._call_store = call

    def take_from_store(self, event: StoreEvent) -> None:
        """Receive what the store replied."""
        self._schedule(event)

    def disconnect(self) -> None:
        """Hear and send nothing more: links end, and the node is about to."""
        if self._inbox is not None:
            self._inbox.wake = lambda: None
        self._inbox = None
        self._send = _send_nowhere

    async def wait_until_serving(self) -> None:
        """Wait until recovery is done and commands are accepted."""
        await self._serving.wait()

    async def leave(self) -> None:
        """Let others lead what this node leads, if there are any; it serves meanwhile."""
        self._left = asyncio.Event()
        self._carry_out(self._node.leave(read_clock()))
        self._take(())
        self._note_state()
        await self._left.wait()

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
        self._schemas.close()
        self._scanner.shutdown(wait=False)
        self._background.shutdown(wait=False)

    async def wait_until_opened(self) -> None:
        """Wait until no log is being opened; after `stop` only the current one."""
        if self._openings:
            await asyncio.wait(self._openings)

    def _note_state(self) -> None:
        if not self._has_served and self._node.is_serving:
            self._has_served = True
            self._serving.set()
        if self._left is not None and self._node.may_stop:
            self._left.set()
        if self._quiet is None:
            return
        is_idle = not (self._waiting or self._events or self._turn or self._reads)
        if is_idle and not self._beside and self._node.is_quiet:
            self._quiet.set()

    async def ask(self, command: Command, caller: Caller) -> Reply:
        """The reply to a command; raises Refused. To interrupt it withdraws the command."""
        request = RequestId(self._next_request)
        self._next_request += 1
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[request] = answer
        self._schedule(Asked(request=request, command=command, caller=caller))
        try:
            return await answer
        finally:
            # Still there: the caller was interrupted.
            if self._waiting.pop(request, None) is not None:
                self._schedule(Left(request=request))

    def identify(self, digest: bytes | None, certificates: tuple[str, ...]) -> ProvenKey | None:
        """The key that a secret with this digest proves over a connection with these certificates,
        or that the certificates prove alone; raises Refused unless the node serves.
        """
        if not self._node.is_serving:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="the node does not serve")
        keys, wall = self._node.keys, read_clock().wall
        if digest is None:
            key = keys.identify_certificate(certificates, wall)
            proven = None if key is None else ProvenKey(key)
        else:
            proven = keys.identify(digest, wall, certificates)
        if not keys.is_current and (proven is None or proven.id != ROOT_KEY):
            raise Refused(Code.BROKER_UNAVAILABLE, reason="the node is joining its cluster")
        return proven

    def observe(self, action: str, resource: str, facts: dict[str, str]) -> None:
        """Record in the audit log what the shell did."""
        self._schedule(Observed(action=action, resource=resource, facts=facts))

    def record_failure(self, caller: Caller) -> None:
        """Somebody failed to prove a key: the node refuses and records it, and nobody waits."""
        request = RequestId(self._next_request)
        self._next_request += 1
        self._schedule(Asked(request=request, command=DescribeCaller(), caller=caller))

    def _schedule(self, event: NodeEvent) -> None:
        """Handle an event soon, together with all others that come until then."""
        self._events.append(event)
        self._resume_soon()

    def _resume_soon(self) -> None:
        if not self._is_running and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._resume)

    # The node

    def _take(self, events: "Sequence[NodeEvent]") -> None:
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
        turn = self._turn
        now = read_clock()
        end = now.instant + _SLICE_NS
        while events or reads or turn or self._inbox:
            if now.instant >= end:
                self._is_scheduled = True
                self._loop.call_soon(self._resume)
                return
            if reads:
                self._read_for_node(reads.popleft())
            elif turn or self._inbox:
                if not turn:
                    self._gather_turn()
                self._carry_out(handle_some(turn, now))
            else:
                self._carry_out(handle_some(events, now))
            now = read_clock()

    def _gather_turn(self) -> None:
        """Let events of peers and of this node share a turn, which costs the same for all of them.

        Neither waits for the other to be empty.
        """
        turn, events = self._turn, self._events
        if self._inbox is not None:
            turn.extend(self._inbox.take(_EVENTS_MAX // 2 if events else _EVENTS_MAX))
        while events and len(turn) < _EVENTS_MAX:
            turn.append(events.popleft())

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
                case Fetch() if effect.in_background:
                    self._beside += 1
                    self._background.submit(self._read_beside, effect)
                case Fetch() | Find():
                    self._reads.append(effect)
                case Send() | ConnectPeers():
                    self._send(effect)
                case CallStore():
                    self._call_store(effect)
                case Report():
                    if self._log is not None:
                        self._log.report(effect.report)
                case Open() | Load() | RunBackupJob() | CheckSchema() | CompileSchema() | Halt():
                    self._carry_out_rare(effect)
                case _:
                    self._work.append(effect)

    def _carry_out_rare(
        self, effect: Open | Load | RunBackupJob | CheckSchema | CompileSchema | Halt
    ) -> None:
        match effect:
            case Open():
                self._opens.append(effect)
            case Load():
                data = self._reader.load(effect.name)
                self._events.append(Loaded(name=effect.name, data=data))
            case RunBackupJob():
                self._run_job(effect.job)
            case CheckSchema() | CompileSchema():
                self._schemas.submit(effect)
            case Halt():
                self.is_misconfigured |= effect.is_misconfigured
                self._halt(effect.reason)

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

    def _serve(self, effect: Serve, rebuilt: Rebuilt = ()) -> None:
        reply: Reply | Refused
        try:
            reply = fill(effect, self._read)
        except RebuildNeeded as needed:
            if self._rebuild(needed, rebuilt, partial(self._serve, effect)):
                return
            reply = Refused(Code.BROKER_UNAVAILABLE, reason="the log cannot be read now")
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
            return self._reader.read(wanted, may_scan=False)
        except DamageFound as found:
            self._events.append(found.event)
            raise Refused(
                Code.RECORDS_DAMAGED,
                offset=wanted.offset,
                next_offset=found.event.below,
                reason=found.event.reason,
            ) from found

    def _fetch(self, effect: Fetch, rebuilt: Rebuilt = ()) -> None:
        try:
            data: memoryview | None = self._read(effect.wanted)
        except RebuildNeeded as needed:
            if self._rebuild(needed, rebuilt, partial(self._fetch, effect)):
                return
            data = None
        except (Refused, OSError):
            # Damaged, or a temporary lack of descriptors or memory: the component tries again.
            data = None
        self._events.append(Fetched(token=effect.token, data=data))

    def _rebuild(
        self, needed: RebuildNeeded, rebuilt: Rebuilt, retry: Callable[[Rebuilt], None]
    ) -> bool:
        """Scan a segment in a separate thread before a read is tried again.

        False if it was scanned for this read already: the disk is unreliable.
        """
        segment = (needed.log, needed.base)
        if segment in rebuilt:
            return False
        self._beside += 1
        self._scanner.submit(self._scan_segment, needed, partial(retry, (*rebuilt, segment)))
        return True

    def _scan_segment(self, needed: RebuildNeeded, retry: Callable[[], None]) -> None:
        try:
            self._reader.rebuild_index(needed)
        except (Refused, OSError):
            # The read is refused when it is tried again.
            pass
        except Exception as bug:
            _logger.exception("scanning a segment failed")
            self._loop.call_soon_threadsafe(self._halt, f"a bug while scanning a segment: {bug!r}")
            return
        self._loop.call_soon_threadsafe(self._read_again, retry)

    def _read_again(self, retry: Callable[[], None]) -> None:
        self._beside -= 1
        if not self._is_running:
            retry()
            self._take(())

    def _read_beside(self, effect: Fetch) -> None:
        """Read old records in a separate thread; one read at a time, in order."""
        damage: tuple[NodeEvent, ...] = ()
        data: memoryview | None = None
        try:
            data = self._reader.read_in_background(effect.wanted)
        except DamageFound as found:
            damage = (found.event,)
        except (Refused, OSError):
            # Removed meanwhile, or a temporary lack of descriptors or memory.
            pass
        except Exception as bug:
            _logger.exception("reading a log failed")
            self._loop.call_soon_threadsafe(self._halt, f"a bug while reading a log: {bug!r}")
            return
        events = (*damage, Fetched(token=effect.token, data=data))
        self._loop.call_soon_threadsafe(self._take_from_beside, events)

    def _find(self, effect: Find) -> None:
        try:
            offset = self._reader.find(effect.seeks, may_scan=False)
        except ScanNeeded:
            self._beside += 1
            self._scanner.submit(self._scan, effect)
            return
        except (Refused, OSError):
            offset = None
        self._events.append(Found(token=effect.token, offset=offset))

    def _scan(self, effect: Find) -> None:
        """Search whole segments in a separate thread; one search at a time."""
        offset = None
        try:
            offset = self._reader.find(effect.seeks)
        except (Refused, OSError):
            pass
        except Exception as bug:
            _logger.exception("searching a log failed")
            self._loop.call_soon_threadsafe(self._halt, f"a bug while searching a log: {bug!r}")
            return
        found = Found(token=effect.token, offset=offset)
        self._loop.call_soon_threadsafe(self._take_from_beside, (found,))

    def _take_from_beside(self, events: tuple[NodeEvent, ...]) -> None:
        self._beside -= 1
        self._take(events)

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
