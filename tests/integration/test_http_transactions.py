"""Transactions over HTTP: all or nothing, with the progress of groups, over kills, too."""

from collections.abc import Callable

import pytest

from goqueue.model import parse_time
from goqueue.records import Flag, walk
from tests.integration.http_api import Api, Json, values_of
from tests.integration.server_process import ServerProcess
from tests.integration.transactional import Producer, send_records

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]
UNCOMMITTED = "read_uncommitted"


def read(api: Api, topic: str, partition: int = 0, **query: object) -> list[str]:
    """Values of one answer."""
    path = f"/topics/{topic}/partitions/{partition}/messages"
    return values_of(api.get(path, **query)["messages"])


def listed(api: Api, producer: Producer) -> list[Json]:
    """The transactions of this producer that have not ended."""
    answer = api.get("/transactions")
    assert answer["count"] == len(answer["transactions"])
    return [each for each in answer["transactions"] if each["producer_id"] == producer.id]


def restart(node: ServerProcess, api: Api) -> None:
    """As after a power cut; the client's next request opens another connection."""
    node.kill()
    node.start()
    api.close()


# All or nothing


def test_a_commit_shows_all_of_it_and_before_that_nothing(api: Api, name: Name) -> None:
    topic = api.create(name(), 3)
    producer = Producer(api, name())
    producer.begin()
    for partition in range(3):
        producer.publish(topic, f"inside {partition}", partition=partition)
    api.publish(topic, {"value": "behind", "partition": 1})
    for partition in range(3):
        assert read(api, topic, partition) == []
    assert read(api, topic, 0, isolation=UNCOMMITTED) == ["inside 0"]
    producer.commit()
    assert [read(api, topic, partition) for partition in range(3)] == [
        ["inside 0"],
        ["inside 1", "behind"],
        ["inside 2"],
    ]
    assert listed(api, producer) == []


def test_an_abort_shows_nothing_ever_and_readers_move_past_it(api: Api, name: Name) -> None:
    topic = api.create(name())
    producer = Producer(api, name())
    api.publish(topic, "before")
    producer.begin()
    for number in range(10):
        producer.publish(topic, f"gone {number}")
    producer.abort()
    producer.abort()
    path = f"/topics/{topic}/partitions/0/messages"
    answer = api.get(path)
    assert values_of(answer["messages"]) == ["before"]
    assert answer["next_offset"] == 12
    assert api.get(path, offset=1, limit=1) == {"messages": [], "next_offset": 12}
    api.publish(topic, "after")
    assert read(api, topic, offset=1, limit=1) == ["after"]
    assert len(read(api, topic, isolation=UNCOMMITTED)) == 12
    assert api.get(f"/topics/{topic}")["total_messages"] == 2


def test_stored_records_come_with_the_ranges_that_were_aborted(api: Api, name: Name) -> None:
    topic = api.create(name())
    producer = Producer(api, name())
    api.publish(topic, "0")
    producer.begin()
    producer.publish(topic, "1")
    identity = {"producer_id": producer.id, "epoch": producer.epoch}
    assert send_records(api, topic, "2", "3", **identity).status == 200
    open_ = api.send("GET", f"/topics/{topic}/partitions/0/records")
    assert open_.headers["goqueue-last-stable-offset"] == "1"
    assert open_.headers["goqueue-high-watermark"] == "4"
    assert open_.headers["goqueue-next-offset"] == "1"
    producer.abort()
    answer = api.send("GET", f"/topics/{topic}/partitions/0/records")
    assert answer.headers["goqueue-aborted"] == "1-3"
    assert answer.headers["goqueue-last-stable-offset"] == "5"
    columns = walk(answer.content)
    assert list(columns.offsets) == [0, 1, 2, 3, 4]
    assert columns.flags[4] & Flag.CONTROL
    everything = api.send("GET", f"/topics/{topic}/partitions/0/records?isolation={UNCOMMITTED}")
    assert everything.headers["goqueue-aborted"] == ""


def test_whoever_waits_is_woken_by_the_commit_and_not_by_the_abort(
    api: Api, other: Api, name: Name
) -> None:
    topic = api.create(name())
    lost, kept = Producer(api, name()), Producer(api, name())
    lost.begin()
    lost.publish(topic, "lost")
    kept.begin()
    kept.publish(topic, "kept")
    other.begin("GET", f"/topics/{topic}/partitions/0/messages?wait=30s")
    lost.abort()
    kept.commit()
    assert values_of(other.finish().body["messages"]) == ["kept"]


def test_queues_hand_out_what_was_committed_only(api: Api, other: Api, name: Name) -> None:
    topic = api.create(name())
    member = other.join(name(), topic)
    lost, kept = Producer(api, name()), Producer(api, name())
    lost.begin()
    kept.begin()
    lost.publish(topic, "lost")
    kept.publish(topic, "kept")
    assert member.poll(timeout="0", isolation=UNCOMMITTED) == []
    other.begin("GET", f"/groups/{member.group}/poll?member_id={member.id}&timeout=30s")
    lost.abort()
    kept.commit()
    assert values_of(other.finish().body["messages"]) == ["kept"]


def test_a_delayed_message_is_delivered_no_earlier_than_its_commit(api: Api, name: Name) -> None:
    topic = api.create(name())
    producer = Producer(api, name())
    producer.begin()
    result = producer.publish(topic, "later", delay="10ms")
    assert result["delayed"] is True
    producer.commit()
    path = f"/topics/{topic}/partitions/0/messages"
    assert values_of(api.get(path, wait="20s")["messages"]) == ["later"]
    producer.begin()
    producer.publish(topic, "never", delay="10ms")
    producer.abort()
    api.publish(topic, {"value": "next", "delay": "100ms"})
    found: list[str] = []
    offset = 0
    while "next" not in found:
        answer = api.get(path, wait="20s", offset=offset)
        found += values_of(answer["messages"])
        offset = answer["next_offset"]
    assert found == ["later", "next"]


# Progress of groups


def test_offsets_of_a_stream_group_move_with_the_commit_only(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *map(str, range(5)))
    member = api.join(group, topic)
    producer = Producer(api, name())
    owner = {"member_id": member.id, "generation": member.generation}
    producer.begin()
    producer.add(group, offsets={topic: {"0": 3}}, **owner)
    producer.abort()
    assert api.committed(group, topic) in (None, 0)
    producer.begin()
    producer.add(group, offsets={topic: {"0": 4}}, **owner)
    producer.commit()
    assert api.committed(group, topic) == 4


def test_acknowledgements_of_a_queue_group_hold_with_the_commit_only(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *map(str, range(4)))
    member = api.join(group, topic)
    messages = member.take(4)
    handles = [message["receipt_handle"] for message in messages]
    producer = Producer(api, name())
    producer.begin()
    producer.add(group, receipt_handles=handles[:2])
    producer.abort()
    # After an abort the leases run on: they can be settled in any way.
    producer.begin()
    producer.add(group, receipt_handles=handles[:2])
    producer.commit()
    assert api.committed(group, topic) == 2
    stale = {"receipt_handle": handles[0]}
    assert api.refusal("POST", "/messages/nack", stale) == (410, "receipt_stale")
    api.ack_all(messages[2:])
    assert api.committed(group, topic) == 4


def test_whoever_asks_for_offsets_waits_for_the_transaction_that_holds_them(
    api: Api, other: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *map(str, range(5)))
    member = api.join(group, topic)
    producer = Producer(api, name())
    producer.begin()
    producer.add(group, offsets={topic: {"0": 4}}, member_id=member.id)
    assert api.get(f"/groups/{group}/offsets")["offsets"] == {}
    other.begin("GET", f"/groups/{group}/offsets?stable=true")
    producer.commit()
    assert other.finish().body["offsets"] == {topic: {"0": 4}}


def test_messages_of_an_open_transaction_are_nobody_elses_though_their_lease_is_over(
    api: Api, other: Api, name: Name
) -> None:
    topic, group = api.create(name(), visibility_timeout="100ms"), name()
    api.publish(topic, "held")
    member = other.join(group, topic)
    [message] = member.take(1)
    producer = Producer(api, name())
    producer.begin()
    producer.add(group, receipt_handles=[message["receipt_handle"]])
    assert member.poll(timeout="1s") == []
    for settle in ("ack", "nack", "reject"):
        body = {"receipt_handle": message["receipt_handle"]}
        assert api.refusal("POST", f"/messages/{settle}", body) == (410, "receipt_stale")
    other.begin("GET", f"/groups/{group}/poll?member_id={member.id}&timeout=30s")
    producer.abort()
    [again] = other.finish().body["messages"]
    assert (again["value"], again["delivery_count"]) == ("held", 2)


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_transaction_commits_without_a_topic_that_was_deleted(
    api: Api, name: Name, *, is_made_again: bool
) -> None:
    gone, kept = api.create(name()), api.create(name())
    producer = Producer(api, name())
    producer.begin()
    producer.publish(gone, "gone")
    producer.publish(kept, "kept")
    api.do("DELETE", f"/topics/{gone}")
    if is_made_again:
        api.create(gone)
    producer.commit()
    assert values_of(api.read(kept)) == ["kept"]
    if is_made_again:
        assert api.read(gone) == []
        api.publish(gone, "anew")
        assert values_of(api.read(gone)) == ["anew"]


def test_a_transaction_commits_without_a_group_that_was_deleted(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "v")
    [message] = api.join(group, topic).take(1)
    producer = Producer(api, name())
    producer.begin()
    producer.publish(topic, "w")
    producer.add(group, receipt_handles=[message["receipt_handle"]])
    api.do("DELETE", f"/groups/{group}")
    producer.commit()
    assert values_of(api.read(topic)) == ["v", "w"]
    assert values_of(api.join(group, topic).take(2)) == ["v", "w"]


def test_reading_copying_and_settling_is_one_step(api: Api, name: Name) -> None:
    source, copies, group = api.create(name()), api.create(name()), name()
    api.publish(source, *map(str, range(6)))
    member = api.join(group, source)
    producer = Producer(api, name())
    for outcome in (producer.abort, producer.commit):
        producer.begin()
        messages = member.take(3)
        for message in messages:
            producer.publish(copies, message["value"])
        handles = [message["receipt_handle"] for message in messages]
        producer.add(group, receipt_handles=handles)
        outcome()
        for handle in handles if outcome == producer.abort else ():
            api.post("/messages/nack", {"receipt_handle": handle, "delay": 0})
    assert sorted(values_of(api.read(copies))) == ["0", "1", "2"]
    assert api.committed(group, source) == 3


# Many producers, one decision


def test_prepared_transactions_commit_together_and_a_key_decides_once(api: Api, name: Name) -> None:
    topic, key = api.create(name(), 2), name()
    workers = [Producer(api, name()) for _ in range(3)]

    def prepared(suffix: str) -> list[str]:
        ids = []
        for number, worker in enumerate(workers):
            worker.begin()
            worker.publish(topic, f"{number}{suffix}", partition=number % 2)
            ids.append(worker.prepare())
        return ids

    ids = prepared("")
    assert read(api, topic) == []
    assert [each["prepared"] for worker in workers for each in listed(api, worker)] == [True] * 3
    assert workers[0].refusal("begin") == (409, "transaction_state_invalid")
    body = {"key": key, "transaction_ids": ids}
    assert api.post("/transactions/commit-group", body) == {"status": "committed"}
    assert [read(api, topic, partition) for partition in range(2)] == [["0", "2"], ["1"]]
    body = {"key": key, "transaction_ids": prepared("again")}
    assert api.post("/transactions/commit-group", body) == {"status": "already_committed"}
    assert [read(api, topic, partition) for partition in range(2)] == [["0", "2"], ["1"]]
    assert not any(listed(api, worker) for worker in workers)


def test_a_group_with_one_that_is_not_prepared_commits_none(api: Api, name: Name) -> None:
    topic = api.create(name())
    ready, late = Producer(api, name()), Producer(api, name())
    ready.begin()
    ready.publish(topic, "ready")
    begun = late.begin()
    body = {"key": name(), "transaction_ids": [ready.prepare(), begun]}
    answer = api.ask("POST", "/transactions/commit-group", body)
    assert (answer.status, answer.code) == (409, "transaction_state_invalid")
    assert answer.body["details"]["transaction_id"] == begun
    assert read(api, topic) == []
    late.abort()
    ready.abort()


# Operators


def test_an_open_transaction_is_listed_described_and_counted(api: Api, name: Name) -> None:
    topic = api.create(name(), 2)
    producer = Producer(api, name(), transaction_timeout_ms=120_000)
    before = api.get("/transactions/stats")
    transaction_id = producer.begin()
    body = {**producer.p, "topic": topic, "partition": 1}
    assert api.post("/transactions/add-partition", body) == {"status": "added"}
    producer.publish(topic, "v", partition=0)
    [found] = listed(api, producer)
    assert parse_time(found.pop("started_at")) > 0
    found["partitions"].sort(key=lambda each: each["partition"])
    assert found == {
        **producer.p,
        "transaction_id": transaction_id,
        "state": "ongoing",
        "timeout_ms": 120_000,
        "partitions": [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}],
        "prepared": False,
    }
    described = api.get(f"/transactions/{transaction_id}")
    assert described["state"] == "ongoing"
    assert api.get("/transactions/stats")["active_transactions"] == (
        before["active_transactions"] + 1
    )
    producer.commit()
    assert api.get(f"/transactions/{transaction_id}")["state"] == "completed_commit"
    after = api.get("/transactions/stats")
    assert after["committed_total"] == before["committed_total"] + 1
    assert after["active_transactions"] == before["active_transactions"]
    assert set(after) == {
        "active_transactions",
        "committed_total",
        "aborted_total",
        "avg_duration",
        "active_producers",
    }


# Over kills


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_open_transaction_survives_a_kill_and_ends_either_way(
    mortal: ServerProcess, connect: Connect, *, is_committed: bool
) -> None:
    api = connect(mortal)
    topic = api.create("t", 2)
    api.publish(topic, {"value": "read", "partition": 0})
    handle = api.join("g", topic).take(1)[0]["receipt_handle"]
    producer = Producer(api, "worker")
    begun = producer.begin()
    producer.publish(topic, "inside", partition=1)
    producer.add("g", receipt_handles=[handle])
    restart(mortal, api)
    assert [each["transaction_id"] for each in listed(api, producer)] == [begun]
    assert read(api, topic, 1) == []
    producer.publish(topic, "more", partition=1)
    if is_committed:
        producer.commit()
    else:
        producer.abort()
    assert read(api, topic, 1) == (["inside", "more"] if is_committed else [])
    assert api.committed("g", topic) == (1 if is_committed else None)


def test_a_prepared_transaction_survives_a_kill_and_so_does_its_key(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    topic = api.create("t")
    first, second = Producer(api, "a"), Producer(api, "b")
    first.begin()
    first.publish(topic, "first")
    body = {"key": "k", "transaction_ids": [first.prepare()]}
    restart(mortal, api)
    assert api.post("/transactions/commit-group", body) == {"status": "committed"}
    second.begin()
    second.publish(topic, "second")
    body = {"key": "k", "transaction_ids": [second.prepare()]}
    restart(mortal, api)
    assert api.post("/transactions/commit-group", body) == {"status": "already_committed"}
    assert read(api, topic) == ["first"]


def test_what_was_decided_stays_so_after_a_kill(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    topic = api.create("t")
    producer = Producer(api, "worker")
    for number in range(10):
        producer.begin()
        producer.publish(topic, str(number))
        producer.commit() if number % 2 else producer.abort()
    restart(mortal, api)
    assert read(api, topic) == ["1", "3", "5", "7", "9"]
    producer.commit()
    again = Producer(api, "worker")
    assert (again.id, again.epoch) == (producer.id, 1)
    assert producer.refusal("begin") == (409, "producer_fenced")
