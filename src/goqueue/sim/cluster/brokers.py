"""A machine that runs the real node over the real storage, on a disk of its own.

Carries out effects as the pump and the disk thread do, after delays that are drawn. What a broker
must not say before it is durable is checked where it leaves: see `QuorumChecks`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Protocol

import msgspec

from goqueue.broker import ClusterConfig, Node, NodeEvent, Opened, fill
from goqueue.cluster import BrokerAddresses
from goqueue.model import (
    LOCAL,
    MILLISECOND,
    Answer,
    Asked,
    Caller,
    CallStore,
    CheckSchema,
    Code,
    CompileSchema,
    ConnectPeers,
    Effect,
    Fetch,
    Fetched,
    Find,
    FindBackups,
    Found,
    Halt,
    HoldSegments,
    Instant,
    Load,
    Loaded,
    NodeEffect,
    Now,
    Open,
    PeerEvent,
    Refused,
    Report,
    RequestId,
    RunBackupJob,
    Save,
    Send,
    Serve,
    Slice,
    StoreEvent,
    Sweep,
    Woke,
)
from goqueue.model.requests import Command, Reply
from goqueue.schemas import SchemaChecker
from goqueue.sim.cluster.processes import ClusterProcess
from goqueue.sim.disk import SimulatedFileSystem
from goqueue.sim.faults import Faults
from goqueue.storage import BackupJobs, DamageFound, Storage

__all__ = ["BrokerDisk", "BrokerMachine", "BrokerObserver", "DiskWeather"]

_Work = Effect | Save | Sweep | HoldSegments


class DiskWeather(msgspec.Struct, frozen=True, kw_only=True):
    """How long the disk takes, and how small logs are kept."""

    delay_ns_max: int = 3 * MILLISECOND
    slow_ns_max: int = 200 * MILLISECOND
    slow_share: float = 0.0
    restate_bytes: int = 1 << 22


class BrokerDisk:
    """The disk of one machine: what is left of a broker between its lives."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.faults = Faults()
        self.files = SimulatedFileSystem(random, self.faults)

    def wipe(self) -> None:
        self.faults = Faults()
        self.files = SimulatedFileSystem(self.random, self.faults)


class BrokerObserver(Protocol):
    """Judges what a broker does."""

    def sending(self, machine: "BrokerMachine", effect: Send) -> None:
        """A message is about to leave."""
        ...

    def turned(self, machine: "BrokerMachine") -> None:
        """A turn is over."""
        ...

    def halting(self, machine: "BrokerMachine", reason: str) -> None:
        """The node ends its process."""
        ...


class BrokerMachine:
    """One life of a node."""

    def __init__(
        self,
        process: ClusterProcess,
        disk: BrokerDisk,
        weather: DiskWeather,
        observer: BrokerObserver,
        *,
        quorum: int | None = None,
        create: Callable[[str, ClusterConfig], Node] | None = None,
        store: "Callable[[BrokerMachine, CallStore], None] | None" = None,
    ) -> None:
        """With `store` the metadata lie in an external one, which it calls."""
        self.process = process
        self.disk = disk
        self.weather = weather
        self._observer = observer
        self._random = disk.random
        self._events: deque[NodeEvent] = deque()
        self._work: list[_Work] = []
        self._is_working = False
        self._next_request = 1
        self._checker = SchemaChecker()
        self.replies: dict[RequestId, Reply | Refused] = {}
        self.halted: str | None = None
        self._store = store
        config = ClusterConfig(
            directory=process.directory,
            addresses=BrokerAddresses(peers=process.address, http=f"{process.name}:8080"),
            peers=tuple(each for each in process.peers if each != process.address),
            quorum=quorum,
            seed=self._random.getrandbits(32),
            restate_bytes=weather.restate_bytes,
            store_prefix=None if store is None else "/goqueue",
        )
        self.storage = Storage(disk.files, reserve_bytes=0, ticks=lambda: process.now().instant)
        self.node = (create or _create)(process.name, config)

    # The machine

    def begin(self) -> None:
        self._carry_out(self.node.start())
        self._drain()

    def take(self, event: PeerEvent | StoreEvent) -> None:
        self._handle(event)

    def wake(self) -> None:
        self._handle(Woke())

    def next_deadline(self) -> Instant | None:
        return self.node.next_deadline()

    def ask(self, command: Command, caller: Caller = LOCAL) -> RequestId:
        """Send a command; its reply is in `replies` when it comes."""
        request = RequestId(self._next_request)
        self._next_request += 1
        self._handle(Asked(request=request, command=command, caller=caller))
        return request

    def leave(self) -> None:
        """Let others lead what this broker leads; `may_stop` of the node says when to stop."""
        self._carry_out(self.node.leave(self._now()))
        self._drain()
        self._observer.turned(self)

    def stop(self) -> None:
        """Stop cleanly; the process ends a little later."""
        self._carry_out(self.node.stop(self._now()))
        self._drain()
        self._observer.turned(self)

    @property
    def is_over(self) -> bool:
        """Whether this life has ended."""
        return self.process.machine is not self

    def _now(self) -> Now:
        return self.process.now()

    def _handle(self, event: NodeEvent) -> None:
        self._events.append(event)
        self._drain()
        if not self.is_over:
            self._observer.turned(self)

    def _drain(self) -> None:
        while self._events and not self.is_over:
            self._carry_out(self.node.handle_some(self._events, self._now()))

    # Effects

    def _carry_out(self, effects: list[NodeEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._observer.sending(self, effect)
                    self.process.send(effect)
                case ConnectPeers() | CallStore():
                    self._reach_out(effect)
                case Answer():
                    self.replies[effect.request] = effect.reply
                case Serve():
                    self.replies[effect.request] = self._filled(effect)
                case Fetch() | Find():
                    self._look_up(effect)
                case Open():
                    self._later(lambda wanted=effect: self._open(wanted))  # type: ignore[misc]  # bound now
                case Load():
                    data = self.storage.load(effect.name)
                    self._events.append(Loaded(name=effect.name, data=data))
                case RunBackupJob() | CheckSchema() | CompileSchema():
                    self._run_beside(effect)
                case Halt():
                    self._halt(effect.reason)
                    return
                case _ if not isinstance(effect, Report):
                    assert isinstance(effect, _Work)
                    self._work.append(effect)
        self._begin_work()

    def _reach_out(self, effect: ConnectPeers | CallStore) -> None:
        if isinstance(effect, ConnectPeers):
            self.process.send(effect)
        else:
            assert self._store is not None, "this cluster keeps its metadata itself"
            self._store(self, effect)

    def _halt(self, reason: str) -> None:
        self.halted = reason
        self._observer.halting(self, reason)
        self.process.die()

    def _later(self, action: Callable[[], None]) -> None:
        weather = self.weather
        bound = weather.delay_ns_max
        if weather.slow_share and self._random.random() < weather.slow_share:
            bound = weather.slow_ns_max
        self.process.later(self._random.randrange(bound + 1), lambda: self._if_alive(action))

    def _if_alive(self, action: Callable[[], None]) -> None:
        if not self.is_over:
            action()

    def _begin_work(self) -> None:
        if self._work and not self._is_working:
            self._is_working = True
            self._later(self._do_work)

    def _do_work(self) -> None:
        """One turn of the disk: everything that waits, with one sync."""
        work, self._work = self._work, []
        effects = [each for each in work if not isinstance(each, Save | Sweep | HoldSegments)]
        events = self.storage.carry_out(effects) if effects else []
        # Nothing depends on these: a full disk is no reason to end.
        with suppress(OSError):
            self.storage.save_points()
        for each in work:
            with suppress(OSError):
                if isinstance(each, Sweep):
                    self.storage.sweep(each.topics)
                elif isinstance(each, Save):
                    self.storage.save(each.name, each.data)
        self._later(lambda: self._report(events))

    def _report(self, events: Sequence[NodeEvent]) -> None:
        self._is_working = False
        self._begin_work()
        for event in events:
            if not self.is_over:
                self._handle(event)

    def _open(self, wanted: Open) -> None:
        try:
            state = self.storage.open(wanted.log, wanted.settings).state
        except OSError as error:
            self._halt(f"a log cannot be opened: {error}")
            return
        self._handle(Opened(log=wanted.log, state=state))

    def _run_beside(self, effect: RunBackupJob | CheckSchema | CompileSchema) -> None:
        if isinstance(effect, RunBackupJob):
            self._find_backups(effect)
        else:
            self._later(partial(self._check, effect))

    def _check(self, effect: CheckSchema | CompileSchema) -> None:
        if isinstance(effect, CheckSchema):
            self._handle(self._checker.check(effect.token, effect.job))
        else:
            self._handle(self._checker.compile(effect))

    def _fetch(self, effect: Fetch) -> None:
        try:
            data: memoryview | None = self.storage.read(effect.wanted)
        except DamageFound as found:
            self._events.append(found.event)
            data = None
        self._events.append(Fetched(token=effect.token, data=data))

    def _look_up(self, effect: Fetch | Find) -> None:
        if isinstance(effect, Find):
            self._find(effect)
        elif effect.in_background:
            self._later(lambda: self._read_late(effect))
        else:
            self._fetch(effect)

    def _filled(self, effect: Serve) -> Reply | Refused:
        try:
            reply: Reply | Refused = fill(effect, self._read)
        except Refused as refused:
            reply = refused
        self.node.served(effect.request, reply, self._now())
        return reply

    def _read(self, wanted: Slice) -> memoryview:
        try:
            return self.storage.read(wanted)
        except DamageFound as found:
            self._events.append(found.event)
            raise Refused(Code.RECORDS_DAMAGED) from found

    def _find(self, effect: Find) -> None:
        offset = None
        try:
            offset = self.storage.time_search.find(effect.seeks)
        except DamageFound as found:
            self._events.append(found.event)
        except Refused:
            # The log is gone, or being changed: as if there were none.
            offset = None
        self._events.append(Found(token=effect.token, offset=offset))

    def _read_late(self, effect: Fetch) -> None:
        """A read beside the loop: the log may have changed since it was asked for."""
        try:
            data: memoryview | None = self.storage.background.read(effect.wanted)
        except DamageFound as found:
            self._handle(found.event)
            data = None
        except (Refused, OSError):
            data = None
        if not self.is_over:
            self._handle(Fetched(token=effect.token, data=data))

    def _find_backups(self, effect: RunBackupJob) -> None:
        assert isinstance(effect.job, FindBackups)
        jobs = BackupJobs(self.disk.files, reserve_bytes=0, ticks=lambda: self._now().instant)
        steps = jobs.steps(effect.job)
        self._events.extend(step for step in steps if not isinstance(step, int))


def _create(name: str, config: ClusterConfig) -> Node:
    return Node(name, b"secret", cluster=config, sampling=0.0)
