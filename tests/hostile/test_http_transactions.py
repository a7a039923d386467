"""Producers that mean harm: zombies, foreign epochs, numbers out of range, endless transactions."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from goqueue.client.http import Settings, Transport, post
from goqueue.model import Message
from goqueue.records import build
from tests.hostile.spent_names import spent_name
from tests.integration.http_api import Api, Json, values_of
from tests.integration.server_process import ServerProcess, serving
from tests.integration.transactional import Producer

MIB = 1024 * 1024
OPEN_TRANSACTIONS = 10_000
AT_ONCE = 64
TOGETHER = 1000
STEPS = ["begin", "prepare", "commit", "abort"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("field", "wrong", "refusal"),
    [
        ("producer_id", 2**63 - 1, (404, "producer_not_found")),
        ("producer_id", 0, (400, "request_invalid")),
        ("producer_id", -1, (400, "request_invalid")),
        ("producer_id", 2**63, (400, "request_invalid")),
        ("producer_id", 2**200, (400, "request_invalid")),
        ("producer_id", True, (400, "request_invalid")),
        ("producer_id", "1", (400, "request_invalid")),
        ("producer_id", 1e400, (400, "request_invalid")),
        ("epoch", 1, (400, "request_invalid")),
        ("epoch", 32_767, (400, "request_invalid")),
        ("epoch", 40_000, (400, "request_invalid")),
        ("epoch", -1, (400, "request_invalid")),
        ("epoch", False, (400, "request_invalid")),
        ("transactional_id", "someone-else", (404, "producer_not_found")),
        ("transactional_id", "n" * 250, (400, "name_invalid")),
        ("transactional_id", "../../etc/passwd", (400, "name_invalid")),
        ("transactional_id", "a\0b", (400, "name_invalid")),
        ("transactional_id", "", (400, "name_invalid")),
        ("transactional_id", None, (400, "request_invalid")),
        ("transactional_id", {}, (400, "request_invalid")),
    ],
)
def test_a_step_with_a_wrong_owner_changes_nothing(
    api: Api, step: str, field: str, wrong: object, refusal: tuple[int, str]
) -> None:
    producer = Producer(api, spent_name())
    begun = producer.begin()
    assert producer.refusal(step, **{field: wrong}) == refusal
    assert api.get(f"/transactions/{begun}")["state"] == "ongoing"
    producer.commit()


def test_a_transactional_id_of_250_characters_makes_no_producer(api: Api) -> None:
    body = {"transactional_id": "n" * 250}
    assert api.refusal("POST", "/producers/init", body) == (400, "name_invalid")
    assert Producer(api, "n" * 249).epoch == 0


@pytest.mark.parametrize("sequence", [-1, 2**31, 2**63, True, "0", 0.5])
def test_a_sequence_that_is_none_writes_nothing(api: Api, sequence: object) -> None:
    topic = api.create(spent_name())
    identity = api.post("/producers/init", {})
    body = {**identity, "topic": topic, "value": "v", "partition": 0, "sequence": sequence}
    refusal = (400, "request_invalid")
    assert api.refusal("POST", "/transactions/publish", body) == refusal
    records = bytes(build([Message(value=b"v")]))
    query = f"producer_id={identity['producer_id']}&epoch=0&partition=0&sequence={sequence}"
    raw = api.send("POST", f"/topics/{topic}/records?{query}", records)
    assert sequence == "0" or (raw.status, raw.code) == refusal
    assert len(api.read(topic)) == (1 if sequence == "0" else 0)


def test_the_last_sequence_there_is_ends_the_epoch_and_nothing_wraps(api: Api) -> None:
    topic = api.create(spent_name())
    identity = api.post("/producers/init", {})
    body = {**identity, "topic": topic, "value": "v", "partition": 0, "sequence": 2**31 - 1}
    refusal = api.refusal("POST", "/transactions/publish", body)
    assert refusal == (409, "sequence_out_of_order")
    assert api.read(topic) == []


def test_a_zombie_is_refused_everywhere_and_leaves_no_trace(api: Api) -> None:
    topic, transactional_id = api.create(spent_name()), spent_name()
    zombie = Producer(api, transactional_id)
    zombie.begin()
    zombie.publish(topic, "of the zombie")
    heir = Producer(api, transactional_id)
    assert (heir.id, heir.epoch) == (zombie.id, zombie.epoch + 1)
    fenced = (409, "producer_fenced")
    for step in STEPS:
        assert zombie.refusal(step) == fenced
    message = zombie.message(topic, "late")
    assert api.refusal("POST", "/transactions/publish", message) == fenced
    heir.begin()
    assert api.refusal("POST", "/transactions/publish", message) == fenced
    heir.publish(topic, "of the heir")
    heir.commit()
    assert values_of(api.read(topic)) == ["of the heir"]


def test_a_late_message_never_joins_the_next_transaction(api: Api) -> None:
    topic = api.create(spent_name())
    producer = Producer(api, spent_name())
    producer.begin()
    producer.commit()
    late = producer.message(topic, "late")
    state = (409, "transaction_state_invalid")
    assert api.refusal("POST", "/transactions/publish", late) == state
    assert producer.refusal("prepare") == state


def test_nobody_can_be_the_broker_itself(api: Api) -> None:
    topic = api.create(spent_name())
    body = {"producer_id": 0, "epoch": 0, "topic": topic, "value": "v"}
    refusal = (400, "request_invalid")
    assert api.refusal("POST", "/transactions/publish", body) == refusal
    assert api.refusal("POST", "/producers/0/heartbeat", {"epoch": 0}) == refusal
    for transactional_id in ("", "0", "__broker"):
        owner = {"producer_id": 0, "epoch": 0, "transactional_id": transactional_id}
        assert api.refusal("POST", "/transactions/begin", owner)[0] == 400


@pytest.mark.parametrize("name", ["__groups", "__topics"])
def test_nobody_writes_or_settles_what_is_the_brokers(api: Api, name: str) -> None:
    producer = Producer(api, spent_name())
    producer.begin()
    body = producer.message(name, "v")
    assert api.refusal("POST", "/transactions/publish", body) == (403, "topic_internal")
    added = producer.refusal("add-partition", topic=name, partition=0)
    assert added == (403, "topic_internal")
    status, _ = producer.refusal("offsets", group=spent_name(), offsets={name: {"0": 1}})
    assert 400 <= status < 500
    producer.abort()


def test_many_keys_and_ids_in_one_group_are_bounded(api: Api) -> None:
    path = "/transactions/commit-group"
    unknown = [f"{2**62 + number}-1" for number in range(1000)]
    body: Json = {"key": "k", "transaction_ids": unknown}
    assert api.refusal("POST", path, body) == (404, "transaction_not_found")
    wrongs: list[Json] = [
        {"transaction_ids": [*unknown, "1-1"]},
        {"transaction_ids": []},
        {"transaction_ids": ["x" * 250]},
        {"key": "k" * 250},
        {"key": ""},
    ]
    for wrong in wrongs:
        assert api.refusal("POST", path, {**body, **wrong}) == (400, "request_invalid"), wrong
    answer = api.send("POST", path, b'{"key":"\\ud800","transaction_ids":["1-1"]}')
    assert (answer.status, answer.code) == (400, "request_invalid")


def test_the_same_transaction_named_twice_is_committed_once(api: Api) -> None:
    topic = api.create(spent_name())
    producer = Producer(api, spent_name())
    begun = producer.begin()
    producer.publish(topic, "v")
    producer.prepare()
    body = {"key": spent_name(), "transaction_ids": [begun, begun]}
    answer = api.ask("POST", "/transactions/commit-group", body)
    assert answer.status in (200, 400, 409), answer
    if answer.status != 200:
        producer.abort()
    assert len(api.read(topic)) == (1 if answer.status == 200 else 0)


# Many of them


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[ServerProcess]:
    """A node of its own: what is open there is nobody else's."""
    with serving(tmp_path / "data") as process:
        yield process


class Crowd:
    """Producers that each have an open transaction, over as many connections as a client has."""

    def __init__(self, url: str) -> None:
        self._transport = Transport(Settings(server=url))
        self.owners: dict[str, Json] = {}

    def close(self) -> None:
        self._transport.close()

    async def ask(self, *parts: str, **fields: object) -> Json:
        answer: Json = msgspec.json.decode(
            (await self._transport.ask(post(*parts, fields=fields))).body
        )
        return answer

    async def open_all(self) -> None:
        await self._share(self._open, [f"crowd-{each}" for each in range(OPEN_TRANSACTIONS)])

    async def _open(self, name: str) -> None:
        """Prepared, too, or it would end by itself when its producer is silent for long."""
        owner = {**await self.ask("producers", "init", transactional_id=name)}
        owner["transactional_id"] = name
        begun = (await self.ask("transactions", "begin", **owner))["transaction_id"]
        await self.ask("transactions", "prepare", **owner)
        self.owners[begun] = owner

    async def end_all(self) -> None:
        """Commit half of them, a thousand by each decision, and abort the others."""
        ids = list(self.owners)
        half = len(ids) // 2
        for first in range(0, half, TOGETHER):
            together = ids[first : first + TOGETHER]
            answer = await self.ask(
                "transactions", "commit-group", key=f"key-{first}", transaction_ids=together
            )
            assert answer == {"status": "committed"}
        await self._share(self._abort, ids[half:])

    async def _abort(self, identity: str) -> None:
        await self.ask("transactions", "abort", **self.owners[identity])

    async def _share(self, work: Callable[[str], Awaitable[None]], names: Sequence[str]) -> None:
        left = iter(names)

        async def go_on() -> None:
            for name in left:
                await work(name)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(go_on())


def test_ten_thousand_open_transactions_stand_in_nobodys_way(crowded: ServerProcess) -> None:
    with contextlib.closing(Api(crowded.url)) as friend:
        topic = friend.create("of-a-friend")
        before = crowded.resident_bytes

        async def run() -> None:
            with contextlib.closing(Crowd(crowded.url)) as crowd:
                await crowd.open_all()
                look_on()
                await crowd.end_all()

        def look_on() -> None:
            assert friend.get("/transactions/stats")["active_transactions"] == OPEN_TRANSACTIONS
            assert friend.get("/transactions")["total"] == OPEN_TRANSACTIONS
            assert crowded.resident_bytes - before < 128 * MIB
            friend.publish(topic, "healthy")
            assert values_of(friend.join("friends", topic).poll()) == ["healthy"]
            producer = Producer(friend, "friendly")
            producer.begin()
            producer.publish(topic, "in a transaction")
            producer.commit()
            assert values_of(friend.read(topic)) == ["healthy", "in a transaction"]

        asyncio.run(run())
        listed = friend.get("/transactions")
        assert (listed["transactions"], listed["total"]) == ([], 0)
        stats = friend.get("/transactions/stats")
        assert stats["committed_total"] == OPEN_TRANSACTIONS // 2 + 1
        assert stats["aborted_total"] == OPEN_TRANSACTIONS // 2
