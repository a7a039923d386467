"""Idempotent producers over HTTP: what is repeated is written once, over kills, too."""

from collections.abc import Callable

from goqueue.model import parse_time
from tests.integration.http_api import Api, values_of
from tests.integration.server_process import ServerProcess
from tests.integration.transactional import send_records

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]


def read(api: Api, topic: str, partition: int = 0, **query: object) -> list[str]:
    """Values of one answer."""
    path = f"/topics/{topic}/partitions/{partition}/messages"
    return values_of(api.get(path, **query)["messages"])


def test_every_producer_has_an_id_of_its_own_and_each_init_an_epoch(api: Api, name: Name) -> None:
    plain = [api.post("/producers/init", {}) for _ in range(3)]
    assert len({each["producer_id"] for each in plain}) == 3
    assert all(each["producer_id"] >= 1 and each["epoch"] == 0 for each in plain)
    named = name()
    again = [api.post("/producers/init", {"transactional_id": named}) for _ in range(3)]
    assert [each["epoch"] for each in again] == [0, 1, 2]
    assert len({each["producer_id"] for each in again}) == 1
    beat = api.post(f"/producers/{again[0]['producer_id']}/heartbeat", {"epoch": 2})
    assert beat == {"success": True}


def test_a_repeat_is_answered_with_its_first_result_and_written_once(api: Api, name: Name) -> None:
    topic = api.create(name(), 2)
    identity = api.post("/producers/init", {})
    body = {**identity, "topic": topic, "partition": 1}
    first = [
        api.post("/transactions/publish", {**body, "value": str(number), "sequence": number})
        for number in range(5)
    ]
    assert [each["duplicate"] for each in first] == [False] * 5
    again = [
        api.post("/transactions/publish", {**body, "value": str(number), "sequence": number})
        for number in range(5)
    ]
    assert again == [{**each, "duplicate": True} for each in first]
    assert read(api, topic, 1) == ["0", "1", "2", "3", "4"]


def test_a_repeat_of_a_delayed_message_is_told_when_it_is_due(api: Api, name: Name) -> None:
    topic = api.create(name())
    identity = api.post("/producers/init", {})
    body = {**identity, "topic": topic, "partition": 0, "value": "v", "sequence": 0, "delay": "1h"}
    first = api.post("/transactions/publish", body)
    assert first["delayed"] is True
    assert parse_time(first["deliverAt"]) > parse_time(first["timestamp"])
    assert api.post("/transactions/publish", body) == {**first, "duplicate": True}
    assert api.get(f"/topics/{topic}/delayed")["total"] == 1


def test_gaps_and_repeats_that_are_too_old_say_what_is_expected(api: Api, name: Name) -> None:
    topic = api.create(name())
    identity = api.post("/producers/init", {})
    body = {**identity, "topic": topic, "partition": 0, "value": "v"}

    def expected(sequence: int) -> object:
        answer = api.ask("POST", "/transactions/publish", {**body, "sequence": sequence})
        assert (answer.status, answer.code) == (409, "sequence_out_of_order")
        return answer.body["details"]["expected"]

    assert expected(1) == 0
    for sequence in range(7):
        api.post("/transactions/publish", {**body, "sequence": sequence})
    assert expected(0) == 7
    assert expected(8) == 7
    assert len(read(api, topic)) == 7


def test_batches_of_records_are_deduplicated_by_their_first_number(api: Api, name: Name) -> None:
    topic = api.create(name())
    identity = {**api.post("/producers/init", {}), "partition": 0}
    first = send_records(api, topic, "a", "b", "c", **identity, sequence=0)
    assert first.body["results"] == [{"partition": 0, "base_offset": 0, "count": 3}]
    second = send_records(api, topic, "d", **identity, sequence=3)
    assert second.body["results"] == [{"partition": 0, "base_offset": 3, "count": 1}]
    again = send_records(api, topic, "a", "b", "c", **identity, sequence=0)
    assert again.body["results"] == [
        {"partition": 0, "base_offset": 0, "count": 3, "duplicate": True}
    ]
    gap = send_records(api, topic, "f", **identity, sequence=5)
    assert (gap.status, gap.code, gap.body["details"]) == (
        409,
        "sequence_out_of_order",
        {"expected": 4},
    )
    assert read(api, topic) == ["a", "b", "c", "d"]
    unsequenced = {"producer_id": identity["producer_id"], "epoch": identity["epoch"]}
    assert send_records(api, topic, "e", **unsequenced).status == 200
    assert read(api, topic) == ["a", "b", "c", "d", "e"]


def test_the_notes_about_writers_are_shown_to_nobody_but_readers_of_bytes(
    api: Api, name: Name
) -> None:
    topic = api.create(name())
    identity = api.post("/producers/init", {})
    body = {**identity, "topic": topic, "partition": 0, "sequence": 0, "value": "v"}
    api.post("/transactions/publish", {**body, "headers": {"a": "b"}})
    [message] = api.read(topic)
    assert message["headers"] == {"a": "b"}
    [polled] = api.join(name(), topic).take(1)
    assert polled["headers"] == {"a": "b"}
    stored = api.send("GET", f"/topics/{topic}/partitions/0/records").content
    assert b"gq.batch" in stored


def test_repeats_are_known_after_a_kill(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    topic = api.create("t")
    identity = api.post("/producers/init", {})
    body = {**identity, "topic": topic, "partition": 0, "value": "v"}
    first = [api.post("/transactions/publish", {**body, "sequence": each}) for each in range(3)]
    mortal.kill()
    mortal.start()
    api.close()
    again = [api.post("/transactions/publish", {**body, "sequence": each}) for each in range(3)]
    assert again == [{**each, "duplicate": True} for each in first]
    assert len(read(api, topic)) == 3
    other = api.post("/producers/init", {})
    assert other["producer_id"] > identity["producer_id"]
