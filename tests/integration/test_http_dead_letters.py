"""Dead letters and delayed messages under the names that users try first."""

from collections.abc import Callable

from tests.integration.http_api import Api, values_of

Name = Callable[[], str]


def test_the_dead_letters_of_a_topic_are_listed_with_their_reasons(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    assert api.get(f"/topics/{topic}/dlq") == {
        "messages": [],
        "dead_letter_topic": f"{topic}.dlq",
        "next_offsets": {},
    }
    for number in range(3):
        api.publish(topic, {"value": str(number), "partition": number % 2})
    for message in api.post(f"/queues/{group}/receive", {"topic": topic, "max": 10})["messages"]:
        handle = message["receipt_handle"]
        api.post("/messages/reject", {"receipt_handle": handle, "reason": "unreadable"})

    listed = api.get(f"/topics/{topic}/dlq")
    assert sorted(values_of(listed["messages"])) == ["0", "1", "2"]
    assert all("unreadable" in each["headers"].values() for each in listed["messages"])
    first = api.get(f"/topics/{topic}/dlq", limit=1)
    (letter,) = first["messages"]
    number = letter["partition"]
    after = first["next_offsets"][str(number)]
    rest = api.get(f"/topics/{topic}/dlq", partition=number, offset=after)["messages"]
    assert letter["value"] not in values_of(rest)


def test_places_of_dead_letters_that_make_no_sense_are_refused(api: Api, name: Name) -> None:
    topic = api.create(name())
    assert api.send("GET", f"/topics/{topic}/dlq?offset=3").code == "request_invalid"
    assert api.send("GET", f"/topics/{name()}/dlq").code == "topic_not_found"


def test_a_delayed_message_is_found_where_it_can_be_cancelled(api: Api, name: Name) -> None:
    topic = api.create(name())
    (placed,) = api.publish(topic, {"value": "later", "delay": "1h"})
    path = f"/topics/{topic}/delayed/{placed['partition']}/{placed['offset']}"
    assert api.get(path)["state"] == "pending"
    api.do("DELETE", path)
    assert api.get(path)["state"] == "cancelled"
    assert api.get("/delayed/stats").keys() == api.get("/delay/stats").keys()


def test_a_value_that_is_no_text_is_refused_with_advice(api: Api, name: Name) -> None:
    topic = api.create(name())
    refused = api.send("POST", f"/topics/{topic}/messages", b'{"messages":[{"value":{"a":1}}]}')
    assert (refused.status, refused.code) == (400, "message_invalid")
    assert "send JSON as text" in refused.body["error"]
