"""Every refusal that the contract names for producers and transactions, reached over HTTP."""

from collections.abc import Callable

import pytest

from goqueue.model import Message
from goqueue.records import build
from tests.integration.http_api import Api, Json
from tests.integration.transactional import Producer

Name = Callable[[], str]
STEPS = ["begin", "add-partition", "offsets", "prepare", "commit", "abort"]
UNKNOWN = 2**62
NOT_FOUND = (404, "producer_not_found")
FENCED = (409, "producer_fenced")
STATE = (409, "transaction_state_invalid")


class Stage:
    """A topic, a group and a producer without a transaction, for one test."""

    def __init__(self, api: Api, name: Name) -> None:
        self.api = api
        self.topic = api.create(name(), 2)
        self.group = name()
        self.producer = Producer(api, name())

    def step(self, step: str, **fields: object) -> tuple[int, str]:
        """A step that is refused; what it needs beyond its owner is right."""
        needed: Json = {}
        if step == "add-partition":
            needed = {"topic": self.topic, "partition": 0}
        elif step == "offsets":
            needed = {"group": self.group, "offsets": {self.topic: {"0": 0}}}
        return self.producer.refusal(step, **{**needed, **fields})

    def publish(self, **fields: object) -> tuple[int, str]:
        """A publish that is refused."""
        body = {**self.producer.message(self.topic, "v"), **fields}
        return self.api.refusal("POST", "/transactions/publish", body)


@pytest.fixture
def stage(api: Api, name: Name) -> Stage:
    return Stage(api, name)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_an_unknown_producer(stage: Stage, step: str) -> None:
    assert stage.step(step, producer_id=UNKNOWN) == NOT_FOUND


@pytest.mark.parametrize("step", STEPS)
def test_a_step_under_the_name_of_another_producer(stage: Stage, step: str, name: Name) -> None:
    assert stage.step(step, transactional_id=name()) == NOT_FOUND


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_a_producer_that_another_has_replaced(stage: Stage, step: str) -> None:
    stage.producer.begin()
    Producer(stage.api, stage.producer.p["transactional_id"])
    assert stage.step(step) == FENCED


@pytest.mark.parametrize("step", STEPS)
def test_a_step_with_an_epoch_that_was_never_given(stage: Stage, step: str) -> None:
    assert stage.step(step, epoch=stage.producer.epoch + 1) == (400, "request_invalid")


@pytest.mark.parametrize("step", [step for step in STEPS if step != "begin"])
def test_a_step_without_a_transaction(stage: Stage, step: str) -> None:
    assert stage.step(step) == STATE


def test_a_second_transaction_of_one_producer(stage: Stage) -> None:
    stage.producer.begin()
    answer = stage.api.ask("POST", "/transactions/begin", stage.producer.p)
    assert (answer.status, answer.code) == STATE
    assert answer.body["details"]["state"] == "ongoing"
    stage.producer.abort()


@pytest.mark.parametrize("step", ["begin", "add-partition", "offsets"])
def test_a_step_that_adds_to_a_prepared_transaction(stage: Stage, step: str) -> None:
    stage.producer.begin()
    stage.producer.prepare()
    assert stage.step(step) == STATE
    stage.producer.abort()


def test_a_publish_into_a_prepared_transaction(stage: Stage) -> None:
    stage.producer.begin()
    stage.producer.prepare()
    assert stage.publish() == STATE
    stage.producer.abort()


def test_the_other_end_of_a_transaction_that_has_ended(stage: Stage) -> None:
    stage.producer.begin()
    stage.producer.commit()
    stage.producer.commit()
    assert stage.step("abort") == STATE
    stage.producer.begin()
    stage.producer.abort()
    stage.producer.abort()
    assert stage.step("commit") == STATE


def test_a_transaction_that_ran_past_its_time(api: Api, name: Name) -> None:
    topic = api.create(name())
    producer = Producer(api, name(), transaction_timeout_ms=1000)
    producer.begin()
    producer.publish(topic, "too late")
    api.publish(topic, "behind")
    path = f"/topics/{topic}/partitions/0/messages"
    # A reader behind an open transaction is woken by its end.
    [message] = api.get(path, wait="30s")["messages"]
    assert message["value"] == "behind"
    assert producer.refusal("commit") == (409, "transaction_timeout")
    producer.abort()
    producer.begin()
    producer.publish(topic, "in time")
    producer.commit()
    assert [each["value"] for each in api.read(topic)] == ["behind", "in time"]


@pytest.mark.parametrize("timeout_ms", [999, 0, -1, 900_001, 2**63])
def test_a_timeout_out_of_bounds(api: Api, name: Name, timeout_ms: int) -> None:
    body = {"transactional_id": name(), "transaction_timeout_ms": timeout_ms}
    assert api.refusal("POST", "/producers/init", body) == (400, "request_invalid")


# Heartbeats


def test_a_heartbeat_of_an_unknown_and_of_a_fenced_producer(api: Api, name: Name) -> None:
    body = {"epoch": 0}
    assert api.refusal("POST", f"/producers/{UNKNOWN}/heartbeat", body) == NOT_FOUND
    transactional_id = name()
    old = Producer(api, transactional_id)
    Producer(api, transactional_id)
    assert api.refusal("POST", f"/producers/{old.id}/heartbeat", body) == FENCED


# Publishing


def test_a_publish_of_an_unknown_or_fenced_producer(stage: Stage) -> None:
    assert stage.publish(producer_id=UNKNOWN) == NOT_FOUND
    Producer(stage.api, stage.producer.p["transactional_id"])
    assert stage.publish() == FENCED
    assert stage.api.read(stage.topic) == []


def test_a_publish_of_a_transactional_producer_without_a_transaction(stage: Stage) -> None:
    assert stage.publish() == STATE
    query = f"producer_id={stage.producer.id}&epoch={stage.producer.epoch}"
    body = bytes(build([Message(value=b"v")]))
    raw = stage.api.send("POST", f"/topics/{stage.topic}/records?{query}", body)
    assert (raw.status, raw.code) == STATE


def test_records_of_an_unknown_or_fenced_producer(stage: Stage) -> None:
    body = bytes(build([Message(value=b"v")]))

    def refusal(producer_id: int) -> tuple[int, str]:
        query = f"producer_id={producer_id}&epoch={stage.producer.epoch}"
        answer = stage.api.send("POST", f"/topics/{stage.topic}/records?{query}", body)
        return answer.status, answer.code

    assert refusal(UNKNOWN) == NOT_FOUND
    Producer(stage.api, stage.producer.p["transactional_id"])
    assert refusal(stage.producer.id) == FENCED


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"topic": "nowhere"}, (404, "topic_not_found")),
        ({"topic": "__groups"}, (403, "topic_internal")),
        ({"partition": 2}, (404, "partition_not_found")),
        ({"partition": -1}, (400, "partition_invalid")),
        ({"value": "x" * (1024 * 1024 + 1)}, (413, "message_too_large")),
        ({"priority": "urgent"}, (400, "message_invalid")),
        ({"headers": {"gq.batch": "1,0,0,1,0"}}, (400, "message_invalid")),
        ({"delay": "9999h"}, (400, "delay_too_long")),
        ({"partition": 0, "sequence": 1}, (409, "sequence_out_of_order")),
    ],
)
def test_a_message_that_cannot_be_taken_leaves_the_transaction_open(
    stage: Stage, fields: Json, refusal: tuple[int, str]
) -> None:
    stage.producer.begin()
    assert stage.publish(**fields) == refusal
    stage.producer.publish(stage.topic, "good", partition=0)
    stage.producer.commit()
    assert [each["value"] for each in stage.api.read(stage.topic)] == ["good"]


def test_a_compacted_topic_needs_keys_here_too(stage: Stage, name: Name) -> None:
    topic = stage.api.create(name(), cleanup_policy="compact")
    stage.producer.begin()
    assert stage.publish(topic=topic) == (400, "message_invalid")
    stage.producer.abort()


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"topic": "nowhere"}, (404, "topic_not_found")),
        ({"topic": "__groups"}, (403, "topic_internal")),
        ({"partition": 2}, (404, "partition_not_found")),
        ({"partition": -1}, (400, "partition_invalid")),
    ],
)
def test_a_partition_that_cannot_be_added(
    stage: Stage, fields: Json, refusal: tuple[int, str]
) -> None:
    stage.producer.begin()
    assert stage.step("add-partition", **fields) == refusal
    stage.producer.abort()


# Progress of groups


def test_offsets_of_a_group_that_one_is_not_a_member_of(stage: Stage) -> None:
    api, topic = stage.api, stage.topic
    api.publish(topic, {"value": "v", "partition": 0})
    member = api.join(stage.group, topic)
    stage.producer.begin()
    at = {"offsets": {topic: {"0": 1}}}
    assert stage.step("offsets", **at) == (404, "member_not_found")
    assert stage.step("offsets", **at, member_id="stranger") == (404, "member_not_found")
    stale = {"member_id": member.id, "generation": member.generation + 1}
    assert stage.step("offsets", **at, **stale) == (409, "generation_stale")
    beyond = {"offsets": {topic: {"0": 2}}, "member_id": member.id}
    assert stage.step("offsets", **beyond) == (400, "offset_out_of_range")
    nowhere = {"offsets": {"nowhere": {"0": 0}}, "member_id": member.id}
    assert stage.step("offsets", **nowhere)[0] in (404, 409)
    stage.producer.commit()
    assert api.committed(stage.group, topic) in (None, 0)


def test_offsets_of_a_partition_that_another_member_has(stage: Stage, other: Api) -> None:
    first = stage.api.join(stage.group, stage.topic)
    second = other.join(stage.group, stage.topic)
    stage.producer.begin()
    refusals = [
        stage.step("offsets", offsets={stage.topic: {"0": 0, "1": 0}}, member_id=member.id)
        for member in (first, second)
    ]
    assert refusals == [(409, "partition_not_assigned")] * 2
    stage.producer.abort()


def test_receipts_that_are_none_or_are_over(stage: Stage) -> None:
    api, topic = stage.api, stage.topic
    api.publish(topic, *({"value": "v", "partition": 0} for _ in range(2)))
    first, second = api.join(stage.group, topic).take(2)
    api.ack(first)
    stage.producer.begin()

    def refusal(*handles: str) -> tuple[int, str]:
        return stage.step("offsets", offsets=None, receipt_handles=list(handles))

    stale, good = first["receipt_handle"], second["receipt_handle"]
    assert refusal(stale) == (410, "receipt_stale")
    assert refusal(good, stale) == (410, "receipt_stale")
    assert refusal(good, "no:receipt") == (400, "receipt_invalid")
    forged = good[:-1] + ("0" if good[-1] != "0" else "1")
    assert refusal(forged) == (400, "receipt_invalid")
    # All or nothing: the good one was not taken along, and can still be settled alone.
    stage.producer.commit()
    assert api.committed(stage.group, topic) == 1
    api.ack(second)


# Groups of transactions


def test_a_group_of_transactions_that_are_unknown_or_not_prepared(stage: Stage, name: Name) -> None:
    def refusal(*ids: str) -> tuple[int, str]:
        body = {"key": name(), "transaction_ids": list(ids)}
        return stage.api.refusal("POST", "/transactions/commit-group", body)

    begun = stage.producer.begin()
    assert refusal(f"{stage.producer.id}-999999") == (404, "transaction_not_found")
    assert refusal("not an id") == (404, "transaction_not_found")
    assert refusal(begun) == STATE
    prepared = stage.producer.prepare()
    assert prepared == begun
    assert refusal(prepared, f"{UNKNOWN}-1") == (404, "transaction_not_found")
    stage.producer.abort()
    assert refusal(prepared) in (STATE, (404, "transaction_not_found"))


@pytest.mark.parametrize("transaction_id", ["1-999999", f"{UNKNOWN}-1", "x", "-", "1-", "1-1-1"])
def test_a_transaction_that_is_not_there(api: Api, transaction_id: str) -> None:
    refusal = api.refusal("GET", f"/transactions/{transaction_id}")
    assert refusal == (404, "transaction_not_found")


@pytest.mark.parametrize("step", ["commit", "abort"])
def test_an_end_that_names_its_transaction_never_means_the_next(
    api: Api, name: Name, step: str
) -> None:
    producer = Producer(api, name())
    first = producer.begin()
    producer.commit()
    second = producer.begin()
    assert producer.refusal(step, transaction_id=first) == (404, "transaction_not_found")
    assert api.get(f"/transactions/{second}")["state"] == "ongoing"
    ended = api.post(f"/transactions/{step}", {**producer.p, "transaction_id": second})
    assert ended == {"status": "committed" if step == "commit" else "aborted"}
