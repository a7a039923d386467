"""The pump when something under it ends by a bug, and when it stops before it serves."""

import asyncio
import errno
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from goqueue.broker import Node, NodeEvent
from goqueue.model import (
    LOCAL,
    Asked,
    Code,
    DiskEvent,
    Effect,
    Left,
    LogId,
    LogSettings,
    Message,
    NodeEffect,
    Now,
    Offset,
    Refused,
    RequestId,
    Seek,
    Slice,
    Timestamp,
    Write,
)
from goqueue.model.requests import (
    CreateTopic,
    ListTopics,
    Publish,
    Read,
    Records,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build
from goqueue.runtime import Disk, OsFileSystem, Pump
from goqueue.runtime.disk import Work
from goqueue.storage import Opened, RebuildNeeded, Storage

ENTROPY = bytes(32)
PATIENCE_S = 10.0


class Bug(Exception):
    """Something that nobody foresaw."""


class Shell:
    """A pump over a real disk, and why it halted."""

    def __init__(self, root: Path) -> None:
        self.halted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.pump = Pump(Node("node", ENTROPY), self._halt)
        self.disk = Disk(
            OsFileSystem(str(root)), self.pump.take_from_disk, crashed=self.pump.take_crash
        )

    def _halt(self, reason: str) -> None:
        if not self.halted.done():
            self.halted.set_result(reason)

    def start(self) -> None:
        self.disk.start()
        self.pump.start(self.disk)

    async def close(self) -> None:
        await self.pump.stop()
        await self.pump.wait_until_opened()
        await asyncio.to_thread(self.disk.close)


@pytest.fixture
def _quiet_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread ends by an exception that is meant, and need not be told on stderr."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)


@pytest.mark.usefixtures("_quiet_threads")
def test_a_bug_that_ends_the_disk_thread_halts_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Storage, __: Sequence[Effect]) -> list[DiskEvent]:
        raise Bug("of the disk")

    async def run() -> str:
        shell = Shell(tmp_path)
        monkeypatch.setattr(Storage, "carry_out", fail)
        shell.start()
        async with asyncio.timeout(PATIENCE_S):
            return await shell.halted

    assert asyncio.run(run()) == "a bug in a disk thread: Bug('of the disk')"


def test_a_turn_whose_writes_cannot_be_handed_over_halts_the_node_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Disk, __: Sequence[Work]) -> None:
        raise Bug("of the queue")

    async def run() -> tuple[str, bool]:
        shell = Shell(tmp_path)
        shell.start()
        # The bug is also reported to the loop, which logs it.
        asyncio.get_running_loop().set_exception_handler(lambda _, __: None)
        async with asyncio.timeout(PATIENCE_S):
            await shell.pump.wait_until_serving()
            with monkeypatch.context() as broken:
                broken.setattr(Disk, "submit", refuse)
                create = CreateTopic(name="a", partitions=1, config=TopicConfig())
                lost = asyncio.ensure_future(shell.pump.ask(create, LOCAL))
                reason = await shell.halted
        later = asyncio.ensure_future(shell.pump.ask(ListTopics(), LOCAL))
        for _ in range(3):
            await asyncio.sleep(0)
        is_answered = lost.done() or later.done()
        lost.cancel()
        later.cancel()
        await asyncio.to_thread(shell.disk.close)
        return reason, is_answered

    reason, is_answered = asyncio.run(run())
    assert reason == "a bug: Bug('of the queue')"
    assert not is_answered


def test_commands_that_are_asked_together_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over: list[Sequence[Work]] = []
    submit_really = Disk.submit

    def submit(disk: Disk, work: Sequence[Work]) -> None:
        handed_over.append(work)
        submit_really(disk, work)

    async def run() -> None:
        shell = Shell(tmp_path)
        shell.start()
        async with asyncio.timeout(PATIENCE_S):
            await shell.pump.wait_until_serving()
            await shell.pump.ask(CreateTopic(name="a", partitions=1, config=TopicConfig()), LOCAL)
            monkeypatch.setattr(Disk, "submit", submit)
            # However long the five take on a busy machine.
            monkeypatch.setattr("goqueue.runtime.pump._SLICE_NS", 10**12)
            batches = [build([Message(value=b"x")]) for _ in range(5)]
            await asyncio.gather(
                *(shell.pump.ask(Publish(topic="a", batch=batch), LOCAL) for batch in batches)
            )
            await shell.close()

    asyncio.run(run())
    writes = [each for each in handed_over[0] if isinstance(each, Write)]
    assert len(writes) == 5


class Post:
    """Events as peers bring them."""

    def __init__(self) -> None:
        self.events: list[NodeEvent] = []
        self.wake: Callable[[], None] = lambda: None

    def __bool__(self) -> bool:
        return bool(self.events)

    def take(self, at_most: int) -> list[NodeEvent]:
        taken, self.events = self.events[:at_most], self.events[at_most:]
        return taken


def test_events_of_peers_and_of_the_node_share_turns_and_keep_their_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[list[NodeEvent]] = []
    handle_really = Node.handle_some

    def handle_some(node: Node, events: deque[NodeEvent], now: Now) -> list[NodeEffect]:
        before = list(events)
        effects = handle_really(node, events, now)
        turns.append(before[: len(before) - len(events)])
        return effects

    async def run() -> None:
        shell, post = Shell(tmp_path), Post()
        shell.pump.connect(post, lambda _: None)
        shell.start()
        async with asyncio.timeout(PATIENCE_S):
            await shell.pump.wait_until_serving()
            monkeypatch.setattr(Node, "handle_some", handle_some)
            asked = [asyncio.ensure_future(shell.pump.ask(ListTopics(), LOCAL)) for _ in range(12)]
            post.events += [Left(request=RequestId(1_000 + number)) for number in range(20)]
            await asyncio.gather(*asked)
            # It handles what came before it.
            await shell.pump.ask(ListTopics(), LOCAL)
            await shell.close()

    asyncio.run(run())
    first = [type(each) for each in turns[0]]
    assert (first.count(Left), first.count(Asked)) == (8, 8)
    handled = [each for turn in turns for each in turn]
    for kind, count in ((Left, 20), (Asked, 13)):
        requests = [each.request for each in handled if isinstance(each, kind)]
        assert len(requests) == count
        assert requests == sorted(requests)


def test_a_command_that_was_asked_just_before_a_stop_is_carried_out(tmp_path: Path) -> None:
    async def run() -> None:
        shell = Shell(tmp_path)
        shell.start()
        async with asyncio.timeout(PATIENCE_S):
            await shell.pump.wait_until_serving()
            create = CreateTopic(name="a", partitions=1, config=TopicConfig())
            asked = asyncio.ensure_future(shell.pump.ask(create, LOCAL))
            await asyncio.sleep(0)
            await shell.close()
            assert isinstance(await asked, TopicDescription)

    asyncio.run(run())


def test_a_search_that_scans_a_segment_runs_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    find_really = Disk.find

    def find(disk: Disk, seeks: Sequence[Seek], *, may_scan: bool = True) -> Offset | None:
        found = find_really(disk, seeks, may_scan=may_scan)
        threads.append(threading.current_thread().name)
        return found

    async def run() -> None:
        create = CreateTopic(name="a", partitions=1, config=TopicConfig())
        message = Message(value=b"x", timestamp=Timestamp(7))
        by_time = Read(topic="a", partition=0, timestamp=Timestamp(7))
        for _ in range(2):
            shell = Shell(tmp_path)
            shell.start()
            async with asyncio.timeout(PATIENCE_S):
                await shell.pump.wait_until_serving()
                if not threads:
                    await shell.pump.ask(create, LOCAL)
                    await shell.pump.ask(Publish(topic="a", batch=build([message])), LOCAL)
                for _ in range(2):
                    records = await shell.pump.ask(by_time, LOCAL)
                    assert isinstance(records, Records)
                    assert records.offset == 0
                await shell.close()

    monkeypatch.setattr(Disk, "find", find)
    asyncio.run(run())
    # Only the first after the restart: the segment was written by another process.
    main = threading.main_thread().name
    assert threads == [main, main, "goqueue-search_0", main]


def test_an_index_that_a_read_lacks_is_rebuilt_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    read_really = Disk.read

    def read(disk: Disk, wanted: Slice, *, may_scan: bool = True) -> memoryview:
        if not threads:
            raise RebuildNeeded(wanted.log, Offset(0), "planted")
        return read_really(disk, wanted, may_scan=may_scan)

    def rebuild(_: Disk, __: RebuildNeeded) -> None:
        threads.append(threading.current_thread().name)

    def rebuild_in_vain(_: Disk, needed: RebuildNeeded) -> None:
        raise OSError(errno.EIO, str(needed))

    async def run() -> None:
        shell = Shell(tmp_path)
        shell.start()
        async with asyncio.timeout(PATIENCE_S):
            await shell.pump.wait_until_serving()
            await shell.pump.ask(CreateTopic(name="a", partitions=1, config=TopicConfig()), LOCAL)
            await shell.pump.ask(Publish(topic="a", batch=build([Message(value=b"x")])), LOCAL)
            wanted = Read(topic="a", partition=0, offset=Offset(0))
            monkeypatch.setattr(Disk, "read", read)
            monkeypatch.setattr(Disk, "rebuild_index", rebuild_in_vain)
            with pytest.raises(Refused) as refused:
                await shell.pump.ask(wanted, LOCAL)
            assert refused.value.code is Code.BROKER_UNAVAILABLE
            monkeypatch.setattr(Disk, "rebuild_index", rebuild)
            records = await shell.pump.ask(wanted, LOCAL)
            assert isinstance(records, Records)
            assert records.data
            assert not shell.halted.done()
            await shell.close()

    asyncio.run(run())
    assert threads == ["goqueue-search_0"]


def test_a_bug_while_logs_are_opened_halts_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Disk, __: LogId, ___: LogSettings) -> Opened:
        raise Bug("of recovery")

    async def run() -> str:
        shell = Shell(tmp_path)
        monkeypatch.setattr(Disk, "open", fail)
        shell.start()
        async with asyncio.timeout(PATIENCE_S):
            reason = await shell.halted
        await shell.close()
        return reason

    assert asyncio.run(run()) == "a bug while opening logs: Bug('of recovery')"


def test_stopping_during_recovery_waits_for_one_log_and_opens_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    opened: list[LogId] = []
    open_really = Disk.open

    def open_slowly(disk: Disk, log: LogId, settings: LogSettings) -> Opened:
        if log.topic == "many":
            opened.append(log)
            begun.set()
            assert go_on.wait(PATIENCE_S)
        return open_really(disk, log, settings)

    async def run() -> None:
        shell = Shell(tmp_path)
        shell.start()
        async with asyncio.timeout(PATIENCE_S):
            await shell.pump.wait_until_serving()
            await shell.pump.ask(
                CreateTopic(name="many", partitions=5, config=TopicConfig()), LOCAL
            )
            await shell.close()
            monkeypatch.setattr(Disk, "open", open_slowly)
            again = Shell(tmp_path)
            again.start()
            assert await asyncio.to_thread(begun.wait, PATIENCE_S)
            closing = asyncio.ensure_future(again.close())
            await asyncio.sleep(0)
            assert not closing.done()
            go_on.set()
            await closing

    asyncio.run(run())
    assert len(opened) == 1


def test_a_read_that_the_system_has_no_descriptor_for_is_refused_and_works_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(_: Disk, __: Slice, **___: bool) -> memoryview:
        raise OSError(errno.EMFILE, "Too many open files")

    async def run() -> Refused:
        shell = Shell(tmp_path)
        shell.start()
        async with asyncio.timeout(PATIENCE_S):
            await shell.pump.wait_until_serving()
            await shell.pump.ask(CreateTopic(name="a", partitions=1, config=TopicConfig()), LOCAL)
            await shell.pump.ask(Publish(topic="a", batch=build([Message(value=b"x")])), LOCAL)
            read = Read(topic="a", partition=0, offset=Offset(0))
            with monkeypatch.context() as short:
                short.setattr(Disk, "read", lack)
                with pytest.raises(Refused) as refused:
                    await shell.pump.ask(read, LOCAL)
            records = await shell.pump.ask(read, LOCAL)
            assert isinstance(records, Records)
            assert records.data
            assert not shell.halted.done()
            await shell.close()
        return refused.value

    assert asyncio.run(run()).code is Code.BROKER_UNAVAILABLE
