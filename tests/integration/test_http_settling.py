"""Acknowledgement and dead letters through the API: what queues get wrong, one test each."""

from collections.abc import Callable

import pytest

from tests.integration.http_api import Api, Json, values_of
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]
SHORT = "100ms"
LETTER_FACTS = ("topic", "partition", "offset", "group", "deliveries", "hops", "time", "cause")


def refusal_of(api: Api, route: str, message: Json, **fields: object) -> tuple[int, str]:
    if route == "visibility":
        fields = {"timeout": "1s", **fields}
    body = {"receipt_handle": message["receipt_handle"], **fields}
    return api.refusal("POST", f"/messages/{route}", body)


def test_an_ack_commits(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a", "b", "c")
    first, second, third = api.join(group, topic).take(3)
    assert api.committed(group, topic) in {None, 0}

    acked = api.ack(first)
    assert acked == {
        "acknowledged": True,
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "committed_offset": 1,
        "offset_advanced": True,
        "in_flight_count": 2,
    }
    assert api.committed(group, topic) == 1

    beyond = api.ack(third)
    assert (beyond["committed_offset"], beyond["offset_advanced"]) == (1, False)
    assert api.committed(group, topic) == 1
    assert api.ack(second)["committed_offset"] == 3
    assert api.committed(group, topic) == 3


def test_what_is_released_is_ready_at_once_and_does_not_count_as_delivered(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a", "b")
    member = api.join(group, topic)
    first, second = member.take(2)
    api.ack(second)
    handles = [first["receipt_handle"], second["receipt_handle"], "nonsense"]

    results = api.post("/messages/release", {"receipt_handles": handles})["results"]

    assert [each["receipt_handle"] for each in results] == handles
    assert [each["success"] for each in results] == [True, False, False]
    codes = [each.get("code") for each in results]
    assert codes == [None, "receipt_stale", "receipt_invalid"]
    (again,) = member.take(1)
    assert (again["value"], again["delivery_count"]) == ("a", 1)


def test_an_ack_outlives_a_crash(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    topic = api.create("t")
    api.publish(topic, "a", "b", "c")
    member = api.join("g", topic)
    first, _, third = member.take(3)
    api.ack(first)
    api.ack(third)

    mortal.restart()
    api.close()
    assert api.committed("g", topic) == 1
    # Members are known after a crash, too; their leases are not.
    (left,) = member.poll()
    assert (left["value"], left["delivery_count"]) in {("b", 1), ("b", 2)}
    assert api.ack(left)["committed_offset"] == 3


def test_an_ack_whose_answer_was_lost_in_a_crash_may_be_repeated(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    topic = api.create("t")
    api.publish(topic, "a", "b")
    settled, open_one = api.join("g", topic).take(2)
    api.ack(settled)
    mortal.restart()
    api.close()

    assert api.ack(settled)["acknowledged"] is True
    assert refusal_of(api, "ack", open_one) == (410, "receipt_stale")
    assert api.committed("g", topic) == 1


def test_acking_twice_is_the_same_as_once(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a", "b")
    first, _ = api.join(group, topic).take(2)
    api.ack(first)
    assert api.ack(first)["committed_offset"] == 1
    assert api.committed(group, topic) == 1


@pytest.mark.parametrize("route", ["nack", "reject", "visibility"])
def test_a_settled_receipt_is_stale_for_everything_but_an_ack(
    api: Api, name: Name, route: str
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    (message,) = api.join(group, topic).take(1)
    api.ack(message)
    assert refusal_of(api, route, message) == (410, "receipt_stale")
    assert api.get(f"/groups/{group}/lag")["total_lag"] == 0


def test_a_nacked_message_comes_back(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (first,) = member.poll()
    assert first["delivery_count"] == 1

    nacked = api.nack(first, delay="50ms")
    assert (nacked["requeued"], nacked["delivery_count"]) == (True, 1)
    assert "next_visible_at" in nacked
    assert "dlq_topic" not in nacked
    (second,) = member.poll()
    assert (second["offset"], second["delivery_count"]) == (0, 2)
    assert second["receipt_handle"] != first["receipt_handle"]


def test_a_nack_without_a_delay_backs_off(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (first,) = member.poll()
    api.nack(first)
    assert member.poll(timeout="0s") == []
    (second,) = member.poll()
    assert second["delivery_count"] == 2


def test_a_lease_that_ends_redelivers(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (first,) = member.poll(visibility_timeout=SHORT)
    (second,) = member.poll()
    assert (second["offset"], second["delivery_count"]) == (0, 2)
    assert second["timestamp"] == first["timestamp"]


@pytest.mark.parametrize("route", ["ack", "nack", "reject", "visibility"])
def test_a_stale_receipt_changes_nothing_and_says_so(api: Api, name: Name, route: str) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (old,) = member.poll(visibility_timeout=SHORT)
    (new,) = member.poll()

    assert refusal_of(api, route, old) == (410, "receipt_stale")
    assert api.get(f"/groups/{group}/lag")["partitions"][0]["in_flight"] == 1
    assert member.poll(timeout="0s") == []
    assert api.ack(new)["committed_offset"] == 1


def test_many_messages_are_kept_longer_each_for_itself(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a", "b")
    member = api.join(group, topic)
    first, second = member.take(2)
    api.ack(second)
    handles = [first["receipt_handle"], second["receipt_handle"], "nonsense"]

    body = {"receipt_handles": handles, "timeout": "5m"}
    results = api.post("/messages/visibility/batch", body)["results"]

    assert [each["receipt_handle"] for each in results] == handles
    assert [each["success"] for each in results] == [True, False, False]
    assert [each.get("code") for each in results] == [None, "receipt_stale", "receipt_invalid"]
    assert results[0]["new_deadline"] > first["deadline"]
    assert api.refusal("POST", "/messages/visibility/batch", {**body, "receipt_handles": []}) == (
        400,
        "request_invalid",
    )


def test_an_extended_lease_outlives_its_first_deadline(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (message,) = member.poll(visibility_timeout="500ms")
    body = {"receipt_handle": message["receipt_handle"], "timeout": "30s"}
    extended = api.post("/messages/visibility", body)
    assert extended["extended"] is True
    assert extended["new_deadline"] > message["deadline"]
    assert member.poll(timeout="1s") == []
    assert api.ack(message)["committed_offset"] == 1


def test_a_lease_may_be_cut_short(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (message,) = member.poll()
    api.post(
        "/messages/visibility", {"receipt_handle": message["receipt_handle"], "timeout": "10ms"}
    )
    (again,) = member.poll()
    assert again["delivery_count"] == 2


def test_a_second_group_is_never_held_up_by_the_first(api: Api, name: Name) -> None:
    topic, first, second = api.create(name()), name(), name()
    api.publish(topic, "a", "b")
    held = api.join(first, topic).take(2)
    other = api.join(second, topic).take(2)
    assert values_of(other) == values_of(held) == ["a", "b"]
    assert [message["delivery_count"] for message in other] == [1, 1]

    api.ack_all(other)
    assert api.committed(second, topic) == 2
    assert api.committed(first, topic) in {None, 0}
    assert refusal_of(api, "nack", other[0]) == (410, "receipt_stale")
    assert api.ack(held[0])["committed_offset"] == 1


def test_a_batch_of_acks_answers_each_in_order(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (old,) = member.poll(visibility_timeout=SHORT)
    (again,) = member.poll()
    api.publish(topic, "b")
    (second,) = member.poll()
    handles = [again["receipt_handle"], "nonsense", old["receipt_handle"]]
    handles += [second["receipt_handle"]] * 2
    results = api.post("/messages/ack/batch", {"receipt_handles": handles})["results"]
    assert [result["receipt_handle"] for result in results] == handles
    # An earlier entry settled the message: after that any receipt of it is a safe repetition.
    assert [result.get("code") for result in results] == [None, "receipt_invalid", None, None, None]
    assert [result["success"] for result in results] == [True, False, True, True, True]
    assert api.committed(group, topic) == 2


def test_three_deliveries_and_then_a_dead_letter_that_says_all(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    message = {"key": "k", "value": "v", "headers": {"mine": "kept"}, "priority": "high"}
    api.publish(topic, message)
    member = api.join(group, topic)
    for attempt in (1, 2):
        (delivered,) = member.poll()
        assert delivered["delivery_count"] == attempt
        assert api.nack(delivered, delay="0s")["requeued"] is True
    (last,) = member.poll()
    assert last["delivery_count"] == 3
    buried = api.nack(last, reason="no use")
    assert (buried["requeued"], buried["dlq_topic"]) == (False, f"{topic}.dlq")
    assert "next_visible_at" not in buried

    (letter,) = api.read(f"{topic}.dlq")
    assert (letter["key"], letter["value"], letter["priority"]) == ("k", "v", "high")
    headers = letter["headers"]
    assert headers.pop("mine") == "kept"
    headers.pop("traceparent", None)
    assert headers.pop("goqueue.dlq.time").endswith("Z")
    assert headers == {
        "goqueue.dlq.topic": topic,
        "goqueue.dlq.partition": "0",
        "goqueue.dlq.offset": "0",
        "goqueue.dlq.group": group,
        "goqueue.dlq.deliveries": "3",
        "goqueue.dlq.hops": "1",
        "goqueue.dlq.cause": "max_deliveries",
        "goqueue.dlq.reason": "no use",
    }
    assert api.committed(group, topic) == 1
    assert member.poll(timeout="0s") == []


def test_leases_that_end_three_times_make_a_dead_letter(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    for attempt in (1, 2, 3):
        (delivered,) = member.poll(visibility_timeout=SHORT)
        assert delivered["delivery_count"] == attempt
    # The dead-letter topic is made on demand; the settled position says when it is there.
    assert member.poll(timeout="1s") == []
    assert api.committed(group, topic) == 1
    (letter,) = api.read(f"{topic}.dlq")
    assert letter["headers"]["goqueue.dlq.cause"] == "max_deliveries"
    assert "goqueue.dlq.reason" not in letter["headers"]
    assert set(LETTER_FACTS) <= {key.removeprefix("goqueue.dlq.") for key in letter["headers"]}


def test_a_rejected_message_is_redriven_and_may_die_again(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    for hops in ("1", "2"):
        (message,) = member.poll()
        assert message["delivery_count"] == 1
        body = {"receipt_handle": message["receipt_handle"], "reason": "broken"}
        rejected = api.post("/messages/reject", body)
        assert rejected["rejected"] is True
        assert rejected["dlq_topic"] == f"{topic}.dlq"
        letter = api.read(f"{topic}.dlq")[-1]
        assert letter["headers"]["goqueue.dlq.hops"] == hops
        assert letter["headers"]["goqueue.dlq.cause"] == "rejected"
        assert letter["headers"]["goqueue.dlq.reason"] == "broken"
        redrive = f"/topics/{topic}/dlq/redrive"
        assert api.post(redrive, {"filter": {"reason": "another"}}) == {"moved": 0}
        assert api.post(redrive, {"filter": {"reason": "broken"}}) == {"moved": 1}
        assert api.post(redrive, {}) == {"moved": 0}
    (back,) = member.poll()
    assert (back["value"], back["headers"]["goqueue.dlq.cause"]) == ("a", "rejected")


def test_a_redrive_may_go_elsewhere(api: Api, name: Name) -> None:
    topic, group, other = api.create(name()), name(), api.create(name())
    api.publish(topic, "a", "b")
    for message in api.join(group, topic).take(2):
        api.post("/messages/reject", {"receipt_handle": message["receipt_handle"]})
    redrive = f"/topics/{topic}/dlq/redrive"
    unknown = api.refusal("POST", redrive, {"to_topic": name()})
    assert unknown == (404, "topic_not_found")
    assert api.post(redrive, {"max": 1, "to_topic": other}) == {"moved": 1}
    assert values_of(api.read(other)) == ["a"]
    assert api.post(redrive, {}) == {"moved": 1}
    assert values_of(api.read(topic)) == ["a", "b", "b"]


def test_a_dead_letter_topic_has_none_of_its_own(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    (message,) = api.join(group, topic).poll()
    api.post("/messages/reject", {"receipt_handle": message["receipt_handle"]})
    member = api.join(name(), f"{topic}.dlq")
    for attempt in range(1, 6):
        (letter,) = member.poll()
        assert letter["delivery_count"] == attempt
        assert api.nack(letter, delay="0s")["requeued"] is True
    (letter,) = member.poll()
    assert refusal_of(api, "reject", letter) == (409, "dead_letter_loop")
    body = {"dead_letter_topic": topic}
    assert api.refusal("PATCH", f"/topics/{topic}", body) == (409, "dead_letter_loop")
    # Behind the letter stands the marker that shows it, which is nobody's to settle.
    assert api.ack(letter)["committed_offset"] == 2


def test_the_counts_of_reliability_follow_what_happened(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    before = api.get("/reliability/stats")
    api.publish(topic, "a", "b", "c")
    member = api.join(group, topic)
    acked, nacked, rejected = member.take(3)
    api.ack(acked)
    api.nack(nacked, delay="0s")
    api.post("/messages/reject", {"receipt_handle": rejected["receipt_handle"]})
    member.take(1)
    after = api.get("/reliability/stats")
    risen = {name: after[name] - before[name] for name in after if isinstance(after[name], int)}
    assert risen["acks_total"] == risen["nacks_total"] == risen["rejects_total"] == 1
    assert risen["dlq_messages"] == risen["redeliveries_total"] == risen["in_flight"] == 1
    assert after["dlq_by_cause"]["rejected"] - before["dlq_by_cause"]["rejected"] == 1
