"""The programs of examples/patterns do what they say, on a node in memory, and are as short."""

import ast
import asyncio
import re
import runpy
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import goqueue
from goqueue.testing import MemoryNode

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "patterns"
TABLE = re.compile(r"\| \[[^]]+\]\((\w+)\.py\) \| (\d+) \|")


def functions(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def body_lines(name: str) -> int:
    """Lines inside of functions; imports, signatures and blank lines are not the program."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    kinds = (ast.AsyncFunctionDef, ast.FunctionDef)
    found = [each for each in tree.body if isinstance(each, kinds)]
    # Nothing may hide outside of functions.
    others = [each for each in tree.body if each not in found]
    assert all(isinstance(each, ast.Expr | ast.Import | ast.ImportFrom) for each in others)
    return sum((each.end_lineno or 0) - each.body[0].lineno + 1 for each in found)


@asynccontextmanager
async def running(program: Coroutine[object, object, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(program)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def play(
    node: MemoryNode, scene: Callable[[goqueue.Connection], Awaitable[None]], *topics: str
) -> None:
    async def run() -> None:
        async with node.connect() as q:
            for topic in topics:
                await q.topics.create(topic, partitions=1)
            await scene(q)

    asyncio.run(run())


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryNode]:
    with MemoryNode() as node:
        monkeypatch.setenv("GOQUEUE_SERVER", node.url)
        yield node


def test_a_work_queue_retries_and_keeps_what_failed(node: MemoryNode) -> None:
    tried: list[object] = []

    async def handle(job: object) -> None:
        tried.append(job)
        if job == "bad" or tried == ["late"]:
            raise ConnectionError("not now")

    async def scene(q: goqueue.Connection) -> None:
        async with running(functions("work_queue")["work"](handle)):
            await node.clock.settle()
            await q.publish("jobs", '"late"')
            await node.clock.advance("5m")
            await q.publish("jobs", '"bad"')
            await q.publish("jobs", "not json")
            await node.clock.advance("30m")
        assert tried == ["late", "late", "bad", "bad", "bad"]
        letters = sorted(await q.dead_letters.list("jobs"), key=lambda each: each.text)
        assert [(each.text, each.deliveries, each.cause) for each in letters] == [
            ('"bad"', 3, "max_deliveries"),
            ("not json", 3, "max_deliveries"),
        ]

    play(node, scene)


def test_every_group_gets_every_message(node: MemoryNode) -> None:
    mailed: list[str] = []
    counted: list[str] = []

    async def scene(q: goqueue.Connection) -> None:
        async with running(functions("fan_out")["fan_out"](mailed.append, counted.append)):
            for number in range(5):
                await q.publish("orders", f"order {number}")
            await node.clock.settle()
        assert mailed == counted == [f"order {number}" for number in range(5)]

    play(node, scene, "orders")


def test_a_cancelled_reminder_never_comes(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        found = functions("delay_and_cancel")
        await found["remind"](q, "pay", delay="2h")
        await found["cancel"](q, await found["remind"](q, "call", delay="1h"))
        await node.clock.advance("3h")
        async with q.stream("reminders") as messages:
            assert (await anext(messages)).text == "pay"
        assert (await q.topics.describe("reminders")).total_messages == 1

    play(node, scene, "reminders")


def test_urgent_messages_overtake(node: MemoryNode) -> None:
    sent: list[str] = []

    async def send(text: str) -> None:
        sent.append(text)

    async def scene(q: goqueue.Connection) -> None:
        found = functions("priorities")
        await found["publish"](q)
        async with running(found["send_mails"](q, send)):
            await node.clock.settle()
        assert sent == ["password reset", "newsletter"]

    play(node, scene, "mails")


def test_whoever_asks_gets_the_reply(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        found = functions("request_and_reply")
        async with running(found["quote"](lambda item: f"{item}: 12.50")):
            await node.clock.settle()
            assert await found["ask_price"](q, "tea") == "tea: 12.50"

    play(node, scene, "prices")


def test_a_report_is_asked_for_every_morning(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        report_daily = functions("recurring")["report_daily"]
        await report_daily(q)
        await report_daily(q)
        await node.clock.advance("24h")
        assert (await q.topics.describe("reports")).total_messages == 1

    play(node, scene, "reports")


def test_each_order_has_one_invoice_over_restarts(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        program = functions("exactly_once")["invoice_orders"]
        for life in range(3):
            for number in range(10):
                await q.publish("orders", f"order {life}-{number}")
            async with running(program(str.upper)):
                if life == 1:
                    await node.restart()
                await node.clock.settle()
            await node.clock.advance("2m")
        async with running(program(str.upper)):
            await node.clock.advance("2m")
        assert (await q.groups.lag("invoicing")).total_lag == 0
        async with q.stream("invoices") as messages:
            invoices = [(await anext(messages)).text for _ in range(30)]
        expected = [f"ORDER {life}-{number}" for life in range(3) for number in range(10)]
        assert sorted(invoices) == sorted(expected)
        await q.publish("invoices", "end")
        async with q.stream("invoices") as messages:
            assert [(await anext(messages)).text for _ in range(31)][-1] == "end"

    play(node, scene, "orders", "invoices")


def test_the_table_counts_the_lines_of_each_program() -> None:
    table = dict(TABLE.findall((FOLDER / "README.md").read_text()))
    programs = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert {name: int(count) for name, count in table.items()} == {
        name: body_lines(name) for name in programs
    }
