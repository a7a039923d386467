"""What tasks stage and drivers decide, asked without Spark, against a real node."""

import asyncio
import contextlib
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.cutting_proxy import Proxy, cutting
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

import pyarrow as pa

from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.model.requests import Owner
from goqueue.spark.broker import broker
from goqueue.spark.options import Link
from goqueue.spark.write_options import WriteOptions
from goqueue.spark.writer import Beats, Decision, Staged, publish

DEADLINE_S = 60


def to(node: ServerProcess, topic: str, timeout_s: float = 30.0) -> WriteOptions:
    return WriteOptions(link=Link(servers=(node.url,), timeout_s=timeout_s), topic=topic)


def rows(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string())})


def values(api: Api, topic: str) -> list[str]:
    return [message["value"] for message in api.read(topic)]


def eventually(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.02)
    return True


@pytest.fixture
def reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that outlives its task, as Spark has it unless told otherwise."""
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")


@pytest.fixture
def query(name: Callable[[], str]) -> str:
    return f"spark.{name()[:90]}"


def test_of_two_attempts_the_one_that_the_commit_names_is_seen(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))
    publish(options, f"{query}.0.0", [rows("slow")])
    speculative = publish(options, f"{query}.0.1", [rows("fast")])

    Decision(options, query, 0).commit([speculative])

    assert values(api, str(options.topic)) == ["fast"]
    # The other one holds up nobody.
    assert api.get("/transactions")["count"] == 0


def test_a_batch_is_there_once_however_often_it_is_written(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))
    for _ in range(3):
        staged = publish(options, f"{query}.0.0", [rows("a", "b")])
        Decision(options, query, 7).commit([staged])

    assert values(api, str(options.topic)) == ["a", "b"]


def test_an_abort_after_the_commit_takes_nothing_back(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))
    staged = publish(options, f"{query}.0.0", [rows("a")])
    Decision(options, query, 0).commit([staged])

    Decision(options, query, 0).abort([staged])

    assert values(api, str(options.topic)) == ["a"]


def test_of_two_drivers_on_one_checkpoint_the_first_to_be_overtaken_is_told(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))
    overtaken = publish(options, f"{query}.0.0", [rows("a")])
    staged = publish(options, f"{query}.0.0", [rows("a")])

    with pytest.raises(GoQueueError, match="another driver runs the same query"):
        Decision(options, query, 0).commit([overtaken])
    Decision(options, query, 0).commit([staged])

    assert values(api, str(options.topic)) == ["a"]


def test_of_two_drivers_that_both_commit_one_is_seen(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))
    one = publish(options, f"{query}.0.0", [rows("of one")])
    other = publish(options, f"{query}.0.1", [rows("of the other")])

    Decision(options, query, 0).commit([other])
    with pytest.raises(GoQueueError, match="another driver"):
        # What it staged was swept with the left-overs of the other.
        Decision(options, query, 1).commit([one])

    assert values(api, str(options.topic)) == ["of the other"]


def test_a_query_with_a_new_checkpoint_is_not_taken_for_the_old_one(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))
    for checkpoint in ("old", "new"):
        family = f"{query}.{checkpoint}"
        staged = publish(options, f"{family}.0.0", [rows(checkpoint)])
        Decision(options, family, 0).commit([staged])

    assert values(api, str(options.topic)) == ["old", "new"]


def test_a_checkpoint_that_is_an_old_copy_is_refused(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))
    for batch in range(3):
        staged = publish(options, f"{query}.0.0", [rows(f"batch {batch}")])
        Decision(options, query, batch).commit([staged])

    restored = publish(options, f"{query}.0.0", [rows("all that came since")])
    with pytest.raises(GoQueueError, match="the checkpoint is an old copy"):
        Decision(options, query, 1).commit([restored])

    assert values(api, str(options.topic)) == ["batch 0", "batch 1", "batch 2"]


def test_more_tasks_than_one_commit_takes_are_refused_in_words() -> None:
    options = WriteOptions(link=Link(servers=("http://127.0.0.1:1",)), topic="none")
    staged = [
        Staged(1, Owner(producer_id=number, epoch=0, transactional_id=f"spark.q.{number}.0"))
        for number in range(1, 1002)
    ]

    with pytest.raises(GoQueueError, match=r"1001 tasks wrote rows.*coalesce"):
        Decision(options, "spark.q", 0).commit(staged)


def test_tasks_without_rows_leave_nothing_to_decide(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))
    staged = [publish(options, f"{query}.{number}.0", []) for number in range(3)]
    some = publish(options, f"{query}.3.0", [rows("a")])

    Decision(options, query, 0).commit(staged)
    Decision(options, query, 1).commit([*staged, some])

    assert staged == [Staged(0)] * 3
    assert values(api, str(options.topic)) == ["a"]


@pytest.mark.usefixtures("reused")
def test_a_brief_task_leaves_its_transaction_to_the_driver(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))

    staged = publish(options, f"{query}.0.0", [rows("a")], open_s=10.0)

    # If the driver dies now it is silence that ends it, not the hour of a prepared one.
    (listed,) = api.get("/transactions")["transactions"]
    assert not listed.get("prepared")
    Decision(options, query, 0).commit([staged])
    assert values(api, str(options.topic)) == ["a"]


@pytest.mark.usefixtures("reused")
def test_a_worker_prepares_what_its_driver_does_not_decide_in_time(
    api: Api,
    node: ServerProcess,
    name: Callable[[], str],
    query: str,
) -> None:
    options = to(node, api.create(name()))

    staged = publish(options, f"{query}.0.0", [rows("a")], open_s=0.01)

    assert eventually(lambda: api.get("/transactions")["transactions"][0].get("prepared") is True)
    Decision(options, query, 0).commit([staged])
    assert values(api, str(options.topic)) == ["a"]


def test_a_worker_that_ends_with_its_task_prepares_at_once(
    api: Api,
    node: ServerProcess,
    name: Callable[[], str],
    query: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    options = to(node, api.create(name()))

    staged = publish(options, f"{query}.0.0", [rows("a")], open_s=10.0)

    assert staged.transaction_id is not None
    Decision(options, query, 0).abort([staged])


def test_a_task_that_fails_aborts_what_it_began(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str
) -> None:
    options = to(node, api.create(name()))

    def broken() -> Iterator[pa.RecordBatch]:
        yield rows("a")
        raise ValueError("the rows are broken")

    with pytest.raises(ValueError, match="broken"):
        publish(options, f"{query}.0.0", broken())

    assert api.get("/transactions")["count"] == 0


@contextlib.contextmanager
def losing(node: ServerProcess, word: str) -> Iterator[Proxy]:
    """A road on which the first answer to such a request is lost."""
    opened: list[tuple[Proxy, asyncio.AbstractEventLoop, asyncio.Event]] = []
    is_open = threading.Event()

    async def carry() -> None:
        async with cutting(node.url) as proxy:
            proxy.cuts_answer = lambda line: word in line and proxy.cut == 0
            over = asyncio.Event()
            opened.append((proxy, asyncio.get_running_loop(), over))
            is_open.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(carry(),))
    thread.start()
    assert is_open.wait(DEADLINE_S)
    ((proxy, loop, over),) = opened
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


@pytest.mark.parametrize("word", ["/producers/init", "/begin", "/records?", "/prepare", "-group"])
def test_an_answer_that_is_lost_changes_nothing(
    api: Api, node: ServerProcess, name: Callable[[], str], query: str, word: str
) -> None:
    topic = api.create(name())
    for batch in range(2):
        with losing(node, word) as proxy:
            options = WriteOptions(link=Link(servers=(proxy.url,)), topic=topic)
            staged = publish(options, f"{query}.0.0", [rows(f"{batch}")])
            Decision(options, query, batch).commit([staged])
            assert proxy.cut == 1

    assert values(api, topic) == ["0", "1"]
    assert api.get("/transactions")["count"] == 0


def test_a_batch_whose_answer_was_lost_is_not_taken_for_another_driver_s(
    api: Api,
    node: ServerProcess,
    name: Callable[[], str],
    query: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = api.create(name())
    with losing(node, "-group") as proxy:
        options = WriteOptions(link=Link(servers=(proxy.url,)), topic=topic)
        staged = publish(options, f"{query}.0.0", [rows("a")])
        Decision(options, query, 0).commit([staged])

    assert caplog.text == ""
    Decision(options, query, 0)
    repeated = publish(to(node, topic), f"{query}.0.0", [rows("a")])
    Decision(to(node, topic), query, 0).commit([repeated])
    assert "was committed before" in caplog.text


def test_a_broker_that_is_not_there_is_told_in_one_sentence(name: Callable[[], str]) -> None:
    options = WriteOptions(link=Link(servers=("http://127.0.0.1:1",), timeout_s=0.1), topic=name())

    with pytest.raises(ServerUnreachable, match=re.escape("127.0.0.1:1")):
        publish(options, "spark.q.0.0", [rows("a")])


def test_an_abort_that_reaches_nobody_does_not_hide_why_the_write_failed(
    mortal: ServerProcess,
    connect: Callable[[ServerProcess], Api],
    query: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = to(mortal, connect(mortal).create("t"), timeout_s=0.2)
    staged = publish(options, f"{query}.0.0", [rows("a")])
    mortal.kill()

    Decision(options, query, 0).abort([staged])

    assert "waits for its timeout" in caplog.text


def test_a_broker_that_goes_away_for_good_ends_the_task(
    mortal: ServerProcess, connect: Callable[[ServerProcess], Api], query: str
) -> None:
    options = to(mortal, connect(mortal).create("t"), timeout_s=0.2)

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield rows("a")
        mortal.kill()
        yield rows("b")

    with pytest.raises(ServerUnreachable):
        publish(options, f"{query}.0.0", interrupted())


def test_a_broker_that_comes_back_finds_the_task_where_it_was(
    mortal: ServerProcess, connect: Callable[[ServerProcess], Api], query: str
) -> None:
    options = to(mortal, connect(mortal).create("t"))

    def interrupted() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            yield rows(f"{number}")
            mortal.restart()

    staged = publish(options, f"{query}.0.0", interrupted())
    mortal.kill()
    starting = threading.Timer(0.5, mortal.start)
    starting.start()
    Decision(options, query, 0).commit([staged])

    starting.join()
    assert values(connect(mortal), "t") == ["0", "1", "2"]


def test_a_broker_that_answers_too_late_takes_each_row_once(
    mortal: ServerProcess, connect: Callable[[ServerProcess], Api], query: str
) -> None:
    options = to(mortal, connect(mortal).create("t"), timeout_s=0.5)

    def interrupted() -> Iterator[pa.RecordBatch]:
        for number in range(2):
            yield rows(f"{number}")
        # What is sent now is answered when nobody waits for the answer any more.
        mortal.signal(signal.SIGSTOP)
        waking.start()

    waking = threading.Timer(0.6, mortal.signal, [signal.SIGCONT])
    staged = publish(options, f"{query}.0.0", interrupted())
    Decision(options, query, 0).commit([staged])

    assert values(connect(mortal), "t") == ["0", "1"]


def test_a_heart_goes_on_beating_while_the_broker_is_away(
    mortal: ServerProcess, query: str
) -> None:
    link = broker(Link(servers=(mortal.url,), timeout_s=0.1))
    owner = link.begin(f"{query}.0.0", 60.0)
    beats = Beats(link, every_s=0.01)
    beats.start(owner)
    mortal.kill()
    for _ in range(3):
        with pytest.raises(ServerUnreachable):
            link.beat(owner)

    is_beating = any(thread.name == "beats" for thread in threading.enumerate())
    beats.stop()
    assert is_beating


def test_a_key_that_was_exchanged_is_used_from_the_next_task_on(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    link = Link(servers=("http://127.0.0.1:1",), token_file=str(file))
    before = broker(link)
    assert broker(link) is before

    file.write_text("second\n")

    assert broker(link) is not before
