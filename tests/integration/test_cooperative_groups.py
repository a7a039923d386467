"""Cooperative groups through the API, and with members that come and are killed under load."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from goqueue.client.connection import Connection
from goqueue.client.message import Message
from tests.integration.http_api import Api, Json
from tests.integration.sdk_scenes import play
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]
SCRIPT = Path(__file__).with_name("group_worker.py")
PARTITIONS = 6


@pytest.fixture
def aside() -> Iterator[Callable[..., "Future[Any]"]]:
    """Runs something beside the test."""
    with ThreadPoolExecutor(8) as threads:
        yield threads.submit


def join(api: Api, group: str, topic: str, **fields: object) -> Json:
    body: Json = {"client_id": "c", "topics": [topic], **fields}
    return api.post(f"/groups/{group}/join/cooperative", body)


def beat(api: Api, group: str, member: Json, **fields: object) -> Json:
    body: Json = {"member_id": member["member_id"], "generation": member["generation"], **fields}
    return api.post(f"/groups/{group}/heartbeat/cooperative", body)


def revoke(api: Api, group: str, member: Json, told: Json) -> Json:
    body: Json = {
        "member_id": member["member_id"],
        "generation": told["generation"],
        "revoked_partitions": told["partitions_to_revoke"],
    }
    return api.post(f"/groups/{group}/revoke", body)


def test_a_rebalance_over_http_moves_half_and_interrupts_nothing_else(
    api: Api, other: Api, name: Name, aside: Callable[..., "Future[Any]"]
) -> None:
    topic, group = api.create(name(), partitions=2), name()
    first = join(api, group, topic)
    assert (first["protocol"], first["rebalance_required"]) == ("cooperative", True)
    assert len(beat(api, group, first)["partitions_assigned"]) == 2
    poll = f"/groups/{group}/poll"
    waiting = aside(
        other.post, poll, {"member_id": first["member_id"], "generation": 1, "timeout": "30s"}
    )
    second = join(api, group, topic)
    assert waiting.result(20) == {"messages": [], "rebalance_required": True}

    told = beat(api, group, first)
    assert told["state"] == "rebalancing"
    assert told["rebalance_state"] == "pending_revoke"
    assert told["revocation_deadline"].endswith("Z")
    (moving,) = told["partitions_to_revoke"]
    query = f"/groups/{group}/assignment?member_id={second['member_id']}"
    assert api.refusal("GET", query) == (409, "rebalance_in_progress")
    confirmed = revoke(api, group, first, told)
    assert confirmed["status"] == "acknowledged"
    assert confirmed["pending_count"] == 0

    api.publish(topic, {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    mine = api.post(poll, {"member_id": first["member_id"], "generation": 1, "timeout": "5s"})
    assert [each["partition"] for each in mine["messages"]] == [1 - moving["partition"]]
    assert api.get(query)["partitions"] == [moving]
    described = api.get(f"/groups/{group}/cooperative")
    assert described["assignment_strategy"] == "sticky"
    assert described["member_assignments"][second["member_id"]] == [moving]


def test_rebalances_are_reported_for_a_group_and_for_all(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    member = join(api, group, topic)
    beat(api, group, member)

    stats = api.get(f"/groups/{group}/rebalance/stats")
    assert (stats["total_rebalances"], stats["successful_rebalances"]) == (1, 1)
    assert stats["rebalances_by_reason"] == {"join": 1}
    assert stats["total_partitions_assigned"] == 2
    assert stats["last_rebalance_at"].endswith("Z")
    assert api.get("/rebalance/stats")["total_rebalances"] >= 1
    api.post(f"/groups/{group}/leave/cooperative", {"member_id": member["member_id"]})
    assert api.get(f"/groups/{group}")["state"] == "empty"


def test_a_static_member_is_replaced_over_http(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    first = join(api, group, topic, instance_id="one")
    again = join(api, group, topic, instance_id="one")

    assert again["generation"] == first["generation"]
    assert len(beat(api, group, again)["partitions_assigned"]) == 2
    body = {"member_id": first["member_id"], "generation": 1}
    answer = api.ask("POST", f"/groups/{group}/heartbeat/cooperative", body)
    assert (answer.status, answer.code) == (404, "member_not_found")
    assert answer.body["details"]["instance_id"] == "one"


# ---- the Python client ---------------------------------------------------------------------


def test_a_client_adapts_to_a_group_of_eager_members(node: ServerProcess, topic: str) -> None:
    async def scene(q: Connection) -> None:
        async with (
            q.consume(topic, group="mixed", protocol="eager"),
            q.consume(topic, group="mixed"),
        ):
            described = await q.groups.describe("mixed")
            assert (described.protocol, len(described.members)) == ("eager", 2)

    play(node, scene)


def test_a_static_client_keeps_its_partitions_over_a_restart(
    node: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        async with q.subscribe(topic, group="static", instance_id="a") as first:
            assert len(first.assigned) == 2
        before = await q.groups.describe("static")
        assert len(before.members) == 1
        async with q.subscribe(topic, group="static", instance_id="a") as again:
            assert len(again.assigned) == 2
            after = await q.groups.describe("static")
            assert after.generation == before.generation
            assert len(after.members) == 1

    play(node, scene)


def test_a_message_in_hand_is_settled_before_its_partition_moves(
    node: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        for partition in range(2):
            await q.publish(topic, "a", partition=partition)
        async with q.consume(topic, group="hands") as first:
            held = [await anext(first), await anext(first)]
            joining = asyncio.create_task(_first_of(q, topic))
            while (await q.groups.describe("hands")).state != "rebalancing":
                pass
            for message in held:
                await message.ack()
            await q.publish(topic, "b", partition=0)
            await q.publish(topic, "b", partition=1)
            message = await joining
            assert (message.text, message.delivery_count) == ("b", 1)

    async def _first_of(q: Connection, topic: str) -> Message:
        async with q.consume(topic, group="hands") as second:
            message = await anext(second)
            await message.ack()
            return message

    play(node, scene)


class Line(NamedTuple):
    """What a worker said about a message."""

    word: str
    at: float
    message: tuple[int, int]
    attempt: int


class Workers:
    """Members in processes of their own, and what they said."""

    def __init__(self, node: ServerProcess, topic: str) -> None:
        self._command = [sys.executable, str(SCRIPT), node.url, topic, "under-load", "0.005"]
        self.lines: list[Line] = []
        self.processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._has_more = threading.Condition()

    def start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        thread = threading.Thread(target=self._read, args=(process,))
        thread.start()
        self.processes.append(process)
        self._threads.append(thread)
        return process

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for said in process.stdout:
            parts = said.split()
            if len(parts) == 5:
                word, at, partition, offset, count = parts
                line = Line(word, float(at), (int(partition), int(offset)), int(count))
                with self._has_more:
                    self.lines.append(line)
                    self._has_more.notify_all()

    def done(self) -> int:
        return len({line.message for line in self.lines if line.word == "done"})

    def wait_for(self, count: int) -> None:
        """Wait until so many messages are done."""
        with self._has_more:
            assert self._has_more.wait_for(lambda: self.done() >= count, 90), self.done()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for thread in self._threads:
            thread.join()
        for process in self.processes:
            assert process.stdout is not None
            process.stdout.close()


def test_members_that_come_and_are_killed_under_load_get_nothing_acked_again(
    node: ServerProcess, api: Api, name: Name
) -> None:
    topic = api.create(name(), partitions=PARTITIONS)
    workers = Workers(node, topic)
    published = 0

    def publish(rounds: int) -> int:
        for _ in range(rounds):
            api.publish(topic, *[{"value": "x", "partition": each} for each in range(PARTITIONS)])
        return rounds * PARTITIONS

    try:
        first = [workers.start(), workers.start()]
        published += publish(20)
        workers.wait_for(60)
        workers.start()
        published += publish(20)
        workers.wait_for(140)
        first[0].send_signal(signal.SIGKILL)
        workers.start()
        published += publish(20)
        first[1].send_signal(signal.SIGTERM)
        published += publish(10)
        # A worker may be killed after an ack that was answered and before it says so.
        workers.wait_for(published - 1)
        while api.get("/groups/under-load/lag")["total_lag"]:
            time.sleep(0.05)
        stats = api.get("/groups/under-load/rebalance/stats")
        # Everybody gave up what moved, and nothing else.
        assert stats["total_revocation_timeouts"] == stats["failed_rebalances"] == 0
        assert stats["total_partitions_revoked"] < stats["total_rebalances"] * PARTITIONS
    finally:
        workers.end()
    done_at: dict[tuple[int, int], float] = {}
    begun: dict[tuple[int, int], list[float]] = defaultdict(list)
    for line in workers.lines:
        if line.word == "done":
            assert line.message not in done_at, "acked twice"
            done_at[line.message] = line.at
        else:
            begun[line.message].append(line.at)
    assert set(begun) >= set(done_at)
    assert len(begun) == published
    assert len(done_at) >= published - 1
    again = [
        each
        for each, times in begun.items()
        if each in done_at and any(at > done_at[each] for at in times)
    ]
    assert not again
