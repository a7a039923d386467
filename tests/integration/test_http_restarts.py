"""What a node still knows after a crash, a stop, and the loss of its snapshots."""

import contextlib
import http.client
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.http_api import Api, Json, Member, values_of
from tests.integration.server_process import ServerProcess

Connect = Callable[[ServerProcess], Api]
BROKEN = (OSError, http.client.HTTPException)
LIVES = 6


def test_a_stop_ends_waiting_requests_with_an_empty_list(
    mortal: ServerProcess, connect: Connect
) -> None:
    api, waiter, reader = connect(mortal), connect(mortal), connect(mortal)
    topic = api.create("t")
    member = waiter.join("g", topic)
    reader.begin("GET", f"/topics/{topic}/partitions/0/messages?wait=60s")
    waiter.begin("GET", f"/groups/g/poll?member_id={member.id}&timeout=60s")
    # The poll was sent last and counts as a heartbeat: once that is seen, both are under way.
    wait_for_heartbeat(api, member)
    assert mortal.stop() == 0
    polled, read = waiter.finish(), reader.finish()
    assert (polled.status, polled.body) == (200, {"messages": []})
    assert (read.status, read.body) == (200, {"messages": [], "next_offset": 0})


def wait_for_heartbeat(api: Api, member: Member) -> None:
    """Wait until a member has been heard of since it joined."""
    for _ in range(10_000):
        (listed,) = api.get(f"/groups/{member.group}")["members"]
        if listed["last_heartbeat"] != listed["joined_at"]:
            return
    raise AssertionError("the member was never heard of")


def test_a_stop_during_traffic_keeps_what_was_answered(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    topic = api.create("t")
    begun = threading.Event()
    answered: list[int] = []

    def produce() -> None:
        client = connect(mortal)
        with contextlib.suppress(*BROKEN, AssertionError):
            while True:
                (result,) = client.publish(topic, "v")
                answered.append(result["offset"])
                begun.set()

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(produce)
        assert begun.wait(60)
        assert mortal.stop() == 0
    mortal.start()
    api.close()
    assert set(answered) <= {message["offset"] for message in api.read(topic)}


def test_everything_is_there_after_a_clean_stop(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    topic = api.create("t", partitions=2, max_deliveries=7)
    api.publish(topic, *({"value": str(number), "partition": 0} for number in range(5)))
    member = api.join("g", topic)
    first, second, third, *_ = member.take(5)
    api.ack(first)
    api.nack(second, delay="0s")
    api.ack(third)
    api.post("/groups/other/offsets", {"offsets": {topic: {"0": 4}}})
    before = api.get(f"/topics/{topic}")
    assert mortal.stop() == 0
    mortal.start()
    api.close()

    assert api.get(f"/topics/{topic}") == before
    assert api.get("/groups")["groups"] == ["g", "other"]
    assert (api.committed("g", topic), api.committed("other", topic)) == (1, 4)
    left = {message["value"]: message["delivery_count"] for message in member.take(3)}
    assert sorted(left) == ["1", "3", "4"]
    assert left["1"] == 2


def test_snapshots_can_be_lost_without_loss(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    topic = api.create("t")
    for turn in range(20):
        api.publish(topic, *(f"{turn}-{number}" for number in range(50)))
    member = api.join("g", topic)
    messages = member.take(600)
    api.ack_all(messages[:500:2])
    for message in messages[1:40:2]:
        api.nack(message, delay="0s")
    assert mortal.stop() == 0
    for directory in mortal.directory.rglob("snapshots"):
        shutil.rmtree(directory)
    mortal.start()
    api.close()

    acked = {message["offset"] for message in messages[:500:2]}
    assert len(api.read(topic)) == 1000
    assert api.get("/groups/g/lag")["total_lag"] == 1000 - len(acked)
    again = member.take(1000 - len(acked), visibility_timeout="5m")
    assert not {message["offset"] for message in again} & acked
    counts = {message["offset"]: message["delivery_count"] for message in again}
    assert all(counts[message["offset"]] >= 2 for message in messages[1:40:2])


def test_readiness_comes_after_recovery(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    topic = api.create("t")
    api.publish(topic, "v")
    mortal.restart()
    api.close()
    ready = api.get("/readyz")
    assert (ready["status"], ready["broker"]["topic_count"]) == ("pass", 1)
    assert values_of(api.read(topic)) == ["v"]


class Witness:
    """What one consumer and one producer were told, over all lives of a node."""

    def __init__(self) -> None:
        self.published: dict[str, int] = {}
        self.acked: dict[int, str] = {}
        self.doubtful: set[int] = set()
        self.counts: dict[int, int] = {}
        self.violations: list[str] = []

    def produce(self, api: Api, topic: str, life: int) -> None:
        for turn in range(100_000):
            value = f"{life}-{turn}"
            (result,) = api.publish(topic, value)
            self.published[value] = result["offset"]

    def see(self, message: Json) -> None:
        offset, count = message["offset"], message["delivery_count"]
        if offset in self.acked:
            self.violations.append(f"{offset} was acked and came back")
        if count < self.counts.get(offset, 0):
            self.violations.append(f"the count of {offset} fell")
        self.counts[offset] = count

    def consume(self, api: Api, topic: str, chance: random.Random) -> None:
        member = api.join("g", topic, mode="shared")
        while True:
            for message in member.poll(max_messages=5, visibility_timeout="10m"):
                self.see(message)
                choice = chance.random()
                if choice < 0.6:
                    self.doubtful.add(message["offset"])
                    api.ack(message)
                    self.doubtful.discard(message["offset"])
                    self.acked[message["offset"]] = message["value"]
                elif choice < 0.8:
                    api.nack(message, delay="0s")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_kills_at_random_moments_lose_no_answer(
    mortal: ServerProcess, connect: Connect, seed: int
) -> None:
    chance = random.Random(seed)
    topic = connect(mortal).create("t", max_deliveries=0)
    witness = Witness()

    def until_killed(work: Callable[..., None], *details: object) -> None:
        with contextlib.suppress(*BROKEN):
            work(connect(mortal), topic, *details)

    for life in range(LIVES):
        with ThreadPoolExecutor(2) as threads:
            works = [
                threads.submit(until_killed, witness.produce, life),
                threads.submit(until_killed, witness.consume, random.Random(chance.random())),
            ]
            known = len(witness.published) + chance.randrange(20, 120)
            deadline = time.monotonic() + 60
            while len(witness.published) < known and time.monotonic() < deadline:
                threading.Event().wait(0.001)
            mortal.kill()
            for work in works:
                work.result(20)
        mortal.start()

    api = connect(mortal)
    stored = {message["value"]: message["offset"] for message in api.read(topic)}
    assert witness.published.items() <= stored.items()
    assert witness.violations == []
    assert len(witness.acked) > LIVES

    left = set(stored.values()) - witness.acked.keys()
    member = api.join("g", topic, mode="shared")
    again: set[int] = set()
    while left - again - witness.doubtful:
        messages = member.poll(max_messages=1000, visibility_timeout="10m")
        assert messages, "a message that nobody acked did not come back"
        for message in messages:
            witness.see(message)
            again.add(message["offset"])
        api.ack_all(messages)
    assert witness.violations == []
    assert not again & witness.acked.keys()


def test_a_node_that_is_stopped_in_its_tracks_goes_on_afterwards(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    topic = api.create("t")
    member = api.join("g", topic, session_timeout="1s")
    mortal.signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        publishing = threads.submit(connect(mortal).publish, topic, "v")
        threading.Event().wait(1.5)
        mortal.signal(signal.SIGCONT)
        assert publishing.result(20)[0]["offset"] == 0
    # Whether the session outlived the pause is a matter of order; either way work continues.
    answer = api.ask("GET", f"/groups/g/poll?member_id={member.id}&timeout=0s")
    assert answer.status in {200, 404}
    if answer.status == 404:
        member = api.join("g", topic)
        assert values_of(member.poll()) == ["v"]
