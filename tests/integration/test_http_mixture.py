"""Everything at once: whatever callers do in whatever order, no answer is a fault of the node.

Threads draw their next request from a seed. Each answer is a success or a refusal of the contract;
afterwards, and after a crash, the groups still add up.
"""

import http.client
import random
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pytest

from tests.integration.http_api import Api, Json
from tests.integration.server_process import ServerProcess

Connect = Callable[[ServerProcess], Api]
BROKEN = (OSError, http.client.HTTPException)
TOPICS = ("a", "b", "c")
GROUPS = ("g", "h", "i")
MODES = ("partitioned", "shared", "key_ordered")
CALLERS = 6
STEPS = 150


class Caller:
    """One client that does as its seed says."""

    def __init__(self, api: Api, seed: int) -> None:
        self._api = api
        self._chance = random.Random(seed)
        self._members: dict[str, str] = {}
        self._handles: list[str] = []
        self.counts: dict[str, int] = {}

    def live(self, steps: int) -> None:
        acts = [self._publish] * 4 + [self._poll] * 6 + [self._settle] * 8 + [self._join] * 2
        acts += [self._commit, self._reset, self._redrive, self._alter, self._look, self._leave]
        acts += [self._remake, self._remove_group]
        for _ in range(steps):
            self._chance.choice(acts)()

    def _ask(self, method: str, path: str, body: Json | None = None, **query: object) -> Json:
        answer = self._api.ask(method, path, body, **query)
        assert answer.status < 500, (method, path, body, answer)
        if answer.status >= 400:
            self.counts[answer.code] = self.counts.get(answer.code, 0) + 1
            return {}
        self.counts["done"] = self.counts.get("done", 0) + 1
        return answer.body

    def _topic(self) -> str:
        return self._chance.choice(TOPICS)

    def _publish(self) -> None:
        messages = [
            {"value": "v", "key": self._chance.choice(["", "k", "l", "m"])}
            for _ in range(self._chance.randint(1, 20))
        ]
        topic = self._topic() + self._chance.choice(["", "", "", ".dlq"])
        self._ask("POST", f"/topics/{topic}/messages", {"messages": messages})

    def _join(self) -> None:
        group = self._chance.choice(GROUPS)
        body: Json = {
            "client_id": "c",
            "topics": self._chance.sample(TOPICS, self._chance.randint(1, 3)),
            "mode": MODES[GROUPS.index(group)],
            "session_timeout": self._chance.choice(["1s", "30s"]),
        }
        if group in self._members and self._chance.random() < 0.5:
            body["member_id"] = self._members[group]
        joined = self._ask("POST", f"/groups/{group}/join", body)
        if joined:
            self._members[group] = joined["member_id"]

    def _poll(self) -> None:
        if not self._members:
            return
        group = self._chance.choice(sorted(self._members))
        answer = self._ask(
            "GET",
            f"/groups/{group}/poll",
            None,
            member_id=self._members[group],
            timeout=self._chance.choice(["0s", "20ms"]),
            max_messages=self._chance.choice([1, 10, 1000]),
            visibility_timeout=self._chance.choice(["100ms", "1s", "1h"]),
        )
        if not answer:
            self._members.pop(group)
            return
        self._handles += [message["receipt_handle"] for message in answer["messages"]]

    def _settle(self) -> None:
        if not self._handles:
            return
        handle = self._chance.choice(self._handles)
        act = self._chance.choice(["ack", "batch", "batch", "nack", "reject", "visibility"])
        if act == "batch":
            handles = self._handles[: self._chance.randint(1, 50)]
            self._handles = self._handles[self._chance.randint(0, len(handles)) :]
            self._ask("POST", "/messages/ack/batch", {"receipt_handles": handles})
        else:
            timeout = self._chance.choice(["10ms", "1m"])
            body = {"receipt_handle": handle, "delay": timeout, "timeout": timeout}
            self._ask("POST", f"/messages/{act}", body)

    def _commit(self) -> None:
        group = self._chance.choice(GROUPS)
        offsets = {self._topic(): {"0": self._chance.randint(0, 50)}}
        body: Json = {"offsets": offsets, "member_id": self._members.get(group)}
        self._ask("POST", f"/groups/{group}/offsets", body)

    def _reset(self) -> None:
        body = {
            "topic": self._topic(),
            "strategy": self._chance.choice(["earliest", "latest", "offset"]),
            "offset": self._chance.randint(0, 50),
            "dry_run": self._chance.random() < 0.5,
        }
        self._ask("POST", f"/groups/{self._chance.choice(GROUPS)}/offsets/reset", body)

    def _redrive(self) -> None:
        body = {"max": self._chance.randint(1, 20), "to_topic": self._chance.choice([None, "a"])}
        self._ask("POST", f"/topics/{self._topic()}/dlq/redrive", body)

    def _alter(self) -> None:
        body = {"max_deliveries": self._chance.randint(0, 4)}
        self._ask("PATCH", f"/topics/{self._topic()}", body)

    def _look(self) -> None:
        group, topic = self._chance.choice(GROUPS), self._topic()
        paths = ["/reliability/stats", "/stats", "/groups", f"/groups/{group}/lag"]
        paths += [f"/groups/{group}", f"/groups/{group}/offsets", f"/topics/{topic}/partitions"]
        paths.append(f"/topics/{topic}/partitions/0/messages")
        self._ask("GET", self._chance.choice(paths))

    def _leave(self) -> None:
        if self._members:
            group = self._chance.choice(sorted(self._members))
            self._ask("POST", f"/groups/{group}/leave", {"member_id": self._members.pop(group)})

    def _remake(self) -> None:
        topic = self._topic() + self._chance.choice(["", "", ".dlq"])
        if self._chance.random() < 0.4:
            self._ask("DELETE", f"/topics/{topic}")
        partitions = self._chance.randint(1, 4)
        self._ask("POST", "/topics", {"name": topic, "num_partitions": partitions})

    def _remove_group(self) -> None:
        if self._chance.random() < 0.3:
            self._ask("DELETE", f"/groups/{self._chance.choice(GROUPS)}")


def assert_groups_add_up(api: Api) -> None:
    """Lag is what can be leased: drained, it is zero, and every position is at its end."""
    for group in api.get("/groups")["groups"]:
        topics = [topic for topic in TOPICS if topic in api.get("/topics")["topics"]]
        api.do("DELETE", f"/groups/{group}")
        member = api.join(group, *topics, mode="shared")
        total = sum(api.get(f"/topics/{topic}")["total_messages"] for topic in topics)
        assert api.get(f"/groups/{group}/lag")["total_lag"] == total
        places: set[tuple[str, int, int]] = set()
        while len(places) < total:
            messages = member.poll(max_messages=1000)
            assert messages, f"{len(places)} of {total} messages of {group} came"
            places |= {(each["topic"], each["partition"], each["offset"]) for each in messages}
            api.ack_all(messages)
        assert api.get(f"/groups/{group}/lag")["total_lag"] == 0


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))]
)
def test_no_mixture_of_requests_is_too_much(
    mortal: ServerProcess, connect: Connect, seed: int
) -> None:
    api = connect(mortal)
    for topic in TOPICS:
        api.create(topic, partitions=2)
    callers = [Caller(connect(mortal), seed * 100 + number) for number in range(CALLERS)]
    with ThreadPoolExecutor(CALLERS) as threads:
        for living in [threads.submit(caller.live, STEPS) for caller in callers]:
            living.result(120)
    assert sum(caller.counts["done"] for caller in callers) > CALLERS * STEPS / 4

    before = {path: api.get(path) for path in ("/topics", "/stats")}
    letters = api.get("/reliability/stats")["dlq_messages"]
    mortal.restart()
    api.close()
    assert api.get("/topics") == before["/topics"]
    assert api.get("/stats")["topic_stats"].keys() == before["/stats"]["topic_stats"].keys()
    assert api.get("/reliability/stats")["dlq_messages"] >= letters
    assert_groups_add_up(api)


@pytest.mark.parametrize("seed", [4, pytest.param(5, marks=pytest.mark.long)])
def test_a_kill_in_the_midst_of_any_mixture_is_survived(
    mortal: ServerProcess, connect: Connect, seed: int
) -> None:
    api = connect(mortal)
    for topic in TOPICS:
        api.create(topic, partitions=2)
    chance = random.Random(seed)

    def live(caller: Caller) -> BaseException | None:
        # What the kill does to a caller is its result, so that an end before the kill can be told.
        try:
            caller.live(100_000)
        except BROKEN as broken:
            return broken
        return None

    for life in range(4):
        callers = [
            Caller(connect(mortal), seed * 1000 + life * 10 + number) for number in range(CALLERS)
        ]
        goal = chance.randrange(100, 1000)
        with ThreadPoolExecutor(CALLERS) as threads:
            living = [threads.submit(live, caller) for caller in callers]
            while sum(caller.counts.get("done", 0) for caller in callers) < goal:
                # A caller that ends before the kill has met a fault of the node.
                wait(living, timeout=0.01, return_when=FIRST_COMPLETED)
                ended = [each.exception() or each.result() for each in living if each.done()]
                assert not ended, (ended, mortal.said)
            mortal.kill()
            for each in living:
                each.result(20)
        mortal.start()
        api.close()
        assert api.get("/health")["status"] == "ok"
    assert_groups_add_up(api)
