"""Topics that come and go, shrink and compact, also across crashes."""

import contextlib
import http.client
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.integration.http_api import Api, values_of
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]
BROKEN = (OSError, http.client.HTTPException)


def test_a_topic_deleted_before_a_crash_stays_deleted(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    for topic in ("kept", "gone", "again"):
        api.create(topic, partitions=2)
        api.publish(topic, *["old"] * 4)
        api.post("/groups/g/offsets", {"offsets": {topic: {"0": 1}}})
    api.do("DELETE", "/topics/gone")
    api.do("DELETE", "/topics/again")
    api.create("again")
    mortal.restart()
    api.close()
    assert api.get("/topics")["topics"] == ["again", "kept"]
    assert api.read("again") == []
    assert api.get("/groups/g/offsets")["offsets"] == {"kept": {"0": 1}}
    assert api.get("/topics/again")["partitions"] == 1
    assert len(api.read("kept", 0)) == 2


def test_topics_made_and_deleted_at_the_time_of_a_kill_are_whole_or_absent(
    mortal: ServerProcess, connect: Connect
) -> None:
    chance = random.Random(3)
    for life in range(5):
        made: dict[str, int] = {}
        enough = threading.Event()

        def churn(
            life: int = life, made: dict[str, int] = made, enough: threading.Event = enough
        ) -> None:
            client = connect(mortal)
            with contextlib.suppress(*BROKEN):
                for number in range(10_000):
                    topic = client.create(f"t{life}-{number}", partitions=3)
                    (result,) = client.publish(topic, "v")
                    made[topic] = result["partition"]
                    if number % 3 == 0:
                        made.pop(topic)
                        client.do("DELETE", f"/topics/{topic}")
                    if number >= 5:
                        enough.set()

        with ThreadPoolExecutor(1) as threads:
            churning = threads.submit(churn)
            assert enough.wait(60)
            threading.Event().wait(chance.random() / 20)
            mortal.kill()
            churning.result(20)
        mortal.start()
        api = connect(mortal)
        present = api.get("/topics")["topics"]
        assert made.keys() <= set(present)
        for topic, partition in made.items():
            assert values_of(api.read(topic, partition)) == ["v"]
        for topic in present:
            assert len(api.publish(topic, *"abc")) == 3
            api.do("DELETE", f"/topics/{topic}")


def test_a_node_killed_while_it_recovers_recovers_the_next_time(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    topic = api.create("t", partitions=50)
    api.publish(topic, *map(str, range(2_000)))
    member = api.join("g", topic, mode="shared")
    messages = member.take(1_000)
    api.ack_all(messages)
    chance = random.Random(5)
    for _ in range(5):
        mortal.kill()
        mortal.start_and_kill(chance.random() / 2)
        mortal.start()
    api.close()
    assert api.get(f"/topics/{topic}")["total_messages"] == 2_000
    assert api.get("/groups/g/lag")["total_lag"] == 1_000
    left = api.join("g", topic, mode="shared").take(1_000)
    settled = {(message["partition"], message["offset"]) for message in messages}
    assert not settled & {(message["partition"], message["offset"]) for message in left}


def test_deleting_a_topic_ends_those_who_wait_for_it(api: Api, other: Api, name: Name) -> None:
    topic = api.create(name())
    other.begin("GET", f"/topics/{topic}/partitions/0/messages?wait=60s")
    api.do("DELETE", f"/topics/{topic}")
    answer = other.finish()
    assert (answer.status, answer.code) == (404, "topic_not_found")


def test_a_deleted_topic_leaves_its_dead_letters(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "v")
    (message,) = api.join(group, topic).poll()
    api.post("/messages/reject", {"receipt_handle": message["receipt_handle"]})
    api.do("DELETE", f"/topics/{topic}")
    assert values_of(api.read(f"{topic}.dlq")) == ["v"]


def test_members_get_the_partitions_of_a_topic_made_again(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    member = api.join(group, topic)
    api.do("DELETE", f"/topics/{topic}")
    api.create(topic, partitions=2)
    api.publish(topic, {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    assert sorted(values_of(member.take(2))) == ["a", "b"]


def test_a_compacted_topic_wants_keys(api: Api, name: Name) -> None:
    topic = api.create(name(), cleanup_policy="compact")
    body = {"messages": [{"value": "v"}, {"value": "v", "key": "k"}, {"value": None, "key": "k"}]}
    keyless, keyed, tombstone = api.post(f"/topics/{topic}/messages", body)["results"]
    assert keyless["code"] == "message_invalid"
    assert (keyed["offset"], tombstone["offset"]) == (0, 1)
    assert [message["value"] for message in api.read(topic)] == ["v", None]


def test_old_segments_go_and_readers_go_on_at_the_earliest(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    topic = api.create("t", segment_bytes=65_536, retention_bytes=131_072)
    for _ in range(40):
        api.publish(topic, *["v" * 10_000] * 4)
    mortal.restart()
    api.close()
    for _ in range(10_000):
        earliest = api.get(f"/topics/{topic}")["partition_offsets"]["0"]["earliest"]
        if earliest > 0:
            break
        api.publish(topic, "v" * 10_000)
    else:
        raise AssertionError("no segment was ever retired")
    path = f"/topics/{topic}/partitions/0"
    page = api.get(f"{path}/messages", limit=1)
    assert page["messages"][0]["offset"] == earliest
    raw = api.send("GET", f"{path}/records?offset=0")
    assert (raw.status, raw.code) == (400, "offset_out_of_range")
    assert raw.body["details"]["earliest"] == earliest
    (first, *_) = api.join("g", topic).poll()
    assert first["offset"] == earliest
