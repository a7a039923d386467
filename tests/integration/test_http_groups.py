"""Membership, waiting and order through the API."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.http_api import Api, Json, Member, values_of
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]
# The other side of a wait is the time that a wake-up may take on a busy machine.
LONG = "60s"


@pytest.fixture
def aside() -> Iterator[Callable[..., "Future[Any]"]]:
    """Runs something beside the test."""
    with ThreadPoolExecutor(8) as threads:
        yield threads.submit


# ---- waiting -------------------------------------------------------------------------------


def test_a_publish_wakes_a_waiting_poll(
    api: Api, other: Api, name: Name, aside: Callable[..., "Future[Any]"]
) -> None:
    topic, group = api.create(name()), name()
    member = api.join(group, topic)
    waiting = aside(member.poll, timeout=LONG)
    (result,) = other.publish(topic, "now")
    (message,) = waiting.result(20)
    assert (message["offset"], message["value"]) == (result["offset"], "now")


def test_a_publish_wakes_a_waiting_reader(
    api: Api, other: Api, name: Name, aside: Callable[..., "Future[Any]"]
) -> None:
    topic = api.create(name())
    waiting = aside(api.get, f"/topics/{topic}/partitions/0/messages", wait=LONG)
    other.publish(topic, "now")
    answer = waiting.result(20)
    assert values_of(answer["messages"]) == ["now"]
    assert answer["next_offset"] == 1


@pytest.mark.long
def test_a_poll_ends_before_a_client_of_equal_patience_gives_up(
    node: ServerProcess, api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    member = api.join(group, topic)
    patient = Api(node.url, timeout_s=30)
    query = f"/groups/{group}/poll?member_id={member.id}"
    begun = time.monotonic()
    answer = patient.send("GET", query)
    # The default of 30 s is waited for, less the second that keeps the client's clock from ending.
    assert (answer.status, answer.body) == (200, {"messages": []})
    assert time.monotonic() - begun > 20
    patient.close()


@pytest.mark.parametrize("timeout", ["0", "0s", "200ms", "0.2"])
def test_a_poll_that_finds_nothing_answers_with_an_empty_list(
    api: Api, name: Name, timeout: str
) -> None:
    member = api.join(name(), api.create(name()))
    assert member.poll(timeout=timeout) == []


def test_a_poll_does_not_wait_to_fill_up(api: Api, name: Name) -> None:
    topic = api.create(name())
    api.publish(topic, "a")
    member = api.join(name(), topic)
    assert values_of(member.poll(timeout=LONG, max_messages=1000)) == ["a"]


def test_a_deleted_group_ends_its_waiting_polls(
    api: Api, other: Api, name: Name, aside: Callable[..., "Future[Any]"]
) -> None:
    topic, group = api.create(name()), name()
    member = api.join(group, topic)
    query = {"member_id": member.id, "timeout": LONG}
    waiting = aside(api.refusal, "GET", f"/groups/{group}/poll", **query)
    assert other.do("DELETE", f"/groups/{group}") == {"deleted": True, "group_id": group}
    assert waiting.result(20) in {(404, "group_not_found"), (404, "member_not_found")}


def test_a_member_that_leaves_ends_its_waiting_poll(
    api: Api, other: Api, name: Name, aside: Callable[..., "Future[Any]"]
) -> None:
    topic, group = api.create(name()), name()
    member = api.join(group, topic)
    query = {"member_id": member.id, "timeout": LONG}
    waiting = aside(api.refusal, "GET", f"/groups/{group}/poll", **query)
    other.post(f"/groups/{group}/leave", {"member_id": member.id})
    assert waiting.result(20) == (404, "member_not_found")


# ---- sessions ------------------------------------------------------------------------------


def test_a_member_that_only_polls_stays(api: Api, other: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    member = api.join(group, topic, session_timeout="1s")
    # Two sessions long: a wait counts as a sign of life, and so does each poll.
    for _ in range(3):
        assert member.poll(timeout="900ms") == []
    (listed,) = other.get(f"/groups/{group}")["members"]
    assert listed["member_id"] == member.id
    assert member.generation == other.get(f"/groups/{group}")["generation"]


def test_one_long_poll_outlives_many_sessions(
    api: Api, other: Api, name: Name, aside: Callable[..., "Future[Any]"]
) -> None:
    topic, group = api.create(name()), name()
    member = api.join(group, topic, session_timeout="1s")
    watcher = other.join(group, topic)
    waiting = aside(member.poll, timeout="4s")
    assert waiting.result(20) == []
    beat = other.post(
        f"/groups/{group}/heartbeat", {"member_id": member.id, "generation": member.generation}
    )
    assert beat["generation"] == watcher.generation


def test_a_member_that_stalls_past_its_session_can_neither_commit_nor_ack(
    api: Api, other: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a", "b")
    stalled = api.join(group, topic, session_timeout="1s")
    held = stalled.take(2)
    heir = other.join(group, topic)
    inherited = heir.take(2)
    assert values_of(inherited) == ["a", "b"]
    assert [message["delivery_count"] for message in inherited] == [2, 2]

    body = {"member_id": stalled.id, "offsets": {topic: {"0": 2}}}
    assert api.refusal("POST", f"/groups/{group}/offsets", body) == (404, "member_not_found")
    handle = {"receipt_handle": held[0]["receipt_handle"]}
    assert api.refusal("POST", "/messages/ack", handle) == (410, "receipt_stale")
    beat = {"member_id": stalled.id, "generation": stalled.generation}
    assert api.refusal("POST", f"/groups/{group}/heartbeat", beat) == (404, "member_not_found")
    assert api.committed(group, topic) in {None, 0}
    other.ack_all(inherited)
    assert api.committed(group, topic) == 2


def test_leaving_frees_leases_at_once(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    first = api.join(group, topic)
    first.take(1)
    first.leave()
    (again,) = api.join(group, topic).poll(timeout=LONG)
    assert again["value"] == "a"


def test_a_rebalance_leaves_leases_with_their_holder(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    api.publish(topic, {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    first = api.join(group, topic)
    held = first.take(2)
    second = api.join(group, topic)
    assert second.generation == first.generation + 1
    assert second.poll(timeout="0s") == []
    api.ack_all(held)
    assert [api.committed(group, topic, number) for number in (0, 1)] == [1, 1]


def test_a_stale_generation_is_refused_on_poll_and_told_by_a_heartbeat(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name(), partitions=2), name()
    first = api.join(group, topic)
    second = api.join(group, topic)
    query = {"member_id": first.id, "generation": first.generation, "timeout": "0s"}
    stale = api.refusal("GET", f"/groups/{group}/poll", None, **query)
    assert stale == (409, "generation_stale")
    beat = api.post(
        f"/groups/{group}/heartbeat", {"member_id": first.id, "generation": first.generation}
    )
    assert (beat["rebalance_required"], beat["generation"]) == (True, second.generation)
    assert len(beat["assigned_partitions"]) == 1
    assert second.poll(timeout="0s", generation=second.generation) == []


def test_a_rejoin_with_a_known_id_changes_nothing(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    first = api.join(group, topic)
    again = api.join(group, topic, member_id=first.id)
    assert (again.id, again.generation) == (first.id, first.generation)
    body = {"client_id": "c", "topics": [topic], "member_id": "never-was"}
    unknown = api.refusal("POST", f"/groups/{group}/join", body)
    assert unknown == (404, "member_not_found")


def test_partitions_are_shared_out_by_range(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=5), name()
    members = [api.join(group, topic) for _ in range(2)]
    listed = api.get(f"/groups/{group}")["members"]
    shares = {member["member_id"]: member["assigned_partitions"] for member in listed}
    first, last = sorted(member.id for member in members)
    assert shares[first] == [f"{topic}-{number}" for number in (0, 1, 2)]
    assert shares[last] == [f"{topic}-{number}" for number in (3, 4)]


def test_another_mode_than_that_of_the_members_is_refused(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.join(group, topic, mode="shared")
    body = {"client_id": "c", "topics": [topic], "mode": "key_ordered"}
    refused = api.refusal("POST", f"/groups/{group}/join", body)
    assert refused == (409, "group_mismatch")


# ---- modes ---------------------------------------------------------------------------------


def test_more_members_than_partitions_all_get_work_in_shared_mode(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    members = [api.join(group, topic, mode="shared") for _ in range(6)]
    assert all(len(member.joined["assigned_partitions"]) == 2 for member in members)
    api.publish(topic, *map(str, range(60)))
    shares = [member.take(10) for member in members]
    assert sorted(int(value) for share in shares for value in values_of(share)) == list(range(60))
    for share in shares:
        api.ack_all(share)
    assert api.get(f"/groups/{group}/lag")["total_lag"] == 0


def test_members_without_a_partition_wait_in_partitioned_mode(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    members = sorted((api.join(group, topic) for _ in range(3)), key=lambda member: member.id)
    api.publish(topic, "a")
    assert [member.poll(timeout="0s") for member in members[1:]] == [[], []]
    assert values_of(members[0].poll()) == ["a"]


def work_in_turns(members: list[Member], refuses: Callable[[Json], bool]) -> list[Json]:
    """Every member takes one message after the other until nothing is left; what was acked."""
    acked: list[Json] = []
    idle = 0
    while idle < len(members):
        for member in members:
            messages = member.poll(timeout="0s", max_messages=3)
            idle = 0 if messages else idle + 1
            for message in messages:
                if refuses(message):
                    member.api.nack(message, delay="30s")
                else:
                    member.api.ack(message)
                    acked.append(message)
    return acked


def test_key_order_holds_over_members_and_a_failing_key_holds_up_nobody(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name(), partitions=2), name()
    keys = [f"k{number}" for number in range(6)]
    api.publish(topic, *({"key": key, "value": str(turn)} for turn in range(10) for key in keys))
    api.publish(topic, *map(str, range(8)))
    members = [api.join(group, topic, mode="key_ordered") for _ in range(4)]
    acked = work_in_turns(members, lambda message: bool(message.get("key") == "k3"))
    per_key: dict[str, list[int]] = {}
    for message in acked:
        per_key.setdefault(message.get("key", ""), []).append(int(message["value"]))
    assert sorted(per_key.pop("")) == list(range(8))
    assert per_key == {key: list(range(10)) for key in keys if key != "k3"}


def test_messages_of_one_key_are_with_one_member_at_a_time(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    members = [api.join(group, topic, mode="key_ordered") for _ in range(3)]
    api.publish(topic, *({"key": "k", "value": str(number)} for number in range(3)))
    for number in range(3):
        holders = [member.poll(timeout="0s") for member in members]
        held = [message for holder in holders for message in holder]
        assert values_of(held) == [str(number)]
        api.ack(held[0])


# ---- deletion ------------------------------------------------------------------------------


def test_a_topic_made_anew_inherits_nothing(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "old", "older")
    member = api.join(group, topic)
    held = member.take(2)
    api.ack(held[0])
    member.leave()
    assert api.do("DELETE", f"/topics/{topic}") == {"deleted": True, "name": topic}
    assert api.refusal("GET", f"/topics/{topic}") == (404, "topic_not_found")
    assert api.get(f"/groups/{group}/offsets")["offsets"] == {}

    api.create(topic)
    assert api.get(f"/topics/{topic}")["partition_offsets"] == {"0": {"earliest": 0, "latest": -1}}
    assert api.read(topic) == []
    status, code = api.refusal(
        "POST", "/messages/ack", {"receipt_handle": held[1]["receipt_handle"]}
    )
    assert (status, code) == (410, "receipt_stale")
    api.publish(topic, "new")
    assert api.committed(group, topic) in {None, 0}
    (message,) = api.join(group, topic).poll()
    assert (message["value"], message["offset"], message["delivery_count"]) == ("new", 0, 1)


def test_a_deleted_group_begins_again(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    (message,) = api.join(group, topic).take(1)
    api.ack(message)
    api.do("DELETE", f"/groups/{group}")
    assert api.refusal("GET", f"/groups/{group}") == (404, "group_not_found")
    assert group not in api.get("/groups")["groups"]
    (again,) = api.join(group, topic).poll()
    assert (again["value"], again["delivery_count"]) == ("a", 1)
