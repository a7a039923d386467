"""Schedules by the SDK, with await and without, and by `goqueue schedule`, against a real node."""

import asyncio
import datetime as dt
from collections.abc import Iterator

import msgspec
import pytest

import goqueue
from goqueue.client import GoQueueError, NotFound
from goqueue.client.connection import Connection
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess, serving

SECONDS_MAX = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("node")) as process:
        yield process


async def _live(q: Connection) -> None:
    await q.topics.create("reports", partitions=1)
    start = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    created = await q.schedules.create(
        "daily",
        "reports",
        {"kind": "daily"},
        cron="0 9 * * *",
        time_zone="Europe/Vienna",
        start=start,
        missed="skip",
        grace=dt.timedelta(minutes=5),
        key="k",
        headers={"h": "v"},
        priority="high",
    )
    assert created.state == "active"
    assert created.message.value == '{"kind":"daily"}'
    assert created.message.headers == {"h": "v"}
    assert created.grace == "5m0s"
    assert created.start == start
    assert created.next_tick_at is not None
    assert await q.schedules.describe("daily") == created
    assert [each.name for each in await q.schedules.list()] == ["daily"]

    ran = await q.schedules.run("daily")
    assert (ran.topic, ran.partition, ran.offset) == ("reports", 0, 0)
    assert (await q.schedules.pause("daily")).state == "paused"
    assert (await q.schedules.resume("daily")).state == "active"
    altered = await q.schedules.alter("daily", every=90, value=b"\xff")
    assert (altered.every, altered.cron) == ("1m30s", None)
    assert altered.message.encoding == "base64"
    with pytest.raises(GoQueueError) as refused:
        await q.schedules.create("daily", "reports", "x", every="1h")
    assert refused.value.code == "schedule_exists"
    replaced = await q.schedules.create("daily", "reports", "x", every="1h", replace=True)
    assert replaced.every == "1h0m0s"
    await q.schedules.delete("daily")
    with pytest.raises(NotFound):
        await q.schedules.describe("daily")


def test_a_schedule_goes_through_its_life_by_the_sdk(server: ServerProcess) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS_MAX), goqueue.connect(server.url) as q:
            await _live(q)

    asyncio.run(bounded())


def test_a_message_comes_with_every_tick_without_await(server: ServerProcess) -> None:
    with goqueue.connect_sync(server.url) as q:
        q.topics.create("ticks", partitions=1)
        q.schedules.create("fast", "ticks", "tick", every=0.1)
        with q.stream("ticks") as messages:
            found = [message for _, message in zip(range(3), messages, strict=False)]
        q.schedules.delete("fast")

    assert [message.value for message in found] == [b"tick"] * 3
    times = [dt.datetime.fromisoformat(message.headers["gq.tick"].decode()) for message in found]
    assert times[1] - times[0] == times[2] - times[1] == dt.timedelta(milliseconds=100)


def test_what_is_misspelt_is_told_before_a_request(server: ServerProcess) -> None:
    with goqueue.connect_sync(server.url) as q:
        with pytest.raises(TypeError, match="did you mean 'time_zone'"):
            q.schedules.create("x", "y", "z", timezone="UTC")  # type: ignore[call-arg]  # wrong on purpose
        with pytest.raises(ValueError, match="needs a time zone"):
            q.schedules.create("x", "y", "z", start=dt.datetime(2030, 1, 1))
        with pytest.raises(TypeError, match="needs the value"):
            q.schedules.alter("x", key="k")


def test_the_command_line_creates_lists_changes_and_deletes(program: Program, topic: str) -> None:
    name = "nightly"
    created = program.do(
        *("schedule", "create", name, topic, "--cron", "0 3 * * *", "--tz", "Europe/Vienna"),
        *("-m", "clean up", "-k", "night", "-H", "a=b", "--missed", "skip", "--priority", "low"),
    ).text
    assert "0 3 * * * Europe/Vienna" in created
    assert "header a" in created
    listed = program.do("schedule", "list").text
    assert name in listed
    assert "active" in listed
    body = program.do("schedule", "describe", name, "-o", "json").json()
    assert '"priority": "low"' in program.do("schedule", "describe", name, "-o", "json").text
    assert msgspec.yaml.decode(program.do("schedule", "describe", name, "-o", "yaml").out) == body

    assert program.do("schedule", "pause", name).text == f"paused {name}\n"
    assert program.do("schedule", "resume", name).text == f"resumed {name}\n"
    assert program.do("schedule", "run", name).text.startswith(f"published {topic} ")
    assert "every 15m " in program.do("schedule", "alter", name, "--every", "15m").text
    again = program.do("schedule", "create", name, topic, "--every", "1h", "-m", "x", "--replace")
    assert "every 1h " in again.text
    assert program.do("schedule", "delete", name, "-f").text == f"deleted {name}\n"
    refused = program.run("schedule", "describe", name)
    assert refused.code == 1
    assert "no such schedule" in refused.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("create", "n", "t", "-m", "x"), "either --every or --cron"),
        (("create", "n", "t", "-m", "x", "--every", "1h", "--cron", "@daily"), "either --every"),
        (("create", "n", "t", "-m", "x", "--every", "1h", "-H", "a"), "is not NAME=VALUE"),
        (("create", "n", "t", "--every", "1h"), "--message"),
        (("alter", "n", "-k", "x"), "need --message"),
    ],
)
def test_a_contradiction_is_wrong_usage(
    program: Program, words: tuple[str, ...], reason: str
) -> None:
    refused = program.run("schedule", *words)

    assert refused.code == 2
    assert reason in refused.err
