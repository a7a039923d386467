"""Committed offsets, resets and lag through the API."""

from collections.abc import Callable

import pytest

from tests.integration.http_api import Api, Json, values_of

Name = Callable[[], str]


def commit(api: Api, group: str, offsets: Json, **fields: object) -> Json:
    return api.post(f"/groups/{group}/offsets", {"offsets": offsets, **fields})


def refused_commit(api: Api, group: str, offsets: Json, **fields: object) -> tuple[int, str]:
    return api.refusal("POST", f"/groups/{group}/offsets", {"offsets": offsets, **fields})


def test_a_commit_makes_a_group_and_is_where_delivery_begins(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *"abcd")
    committed = commit(api, group, {topic: {"0": 2}})
    assert committed == {"committed": True, "group_id": group, "offsets": {topic: {"0": 2}}}
    assert values_of(api.join(group, topic).poll()) == ["c", "d"]


def test_a_commit_never_moves_back(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *"abcd")
    commit(api, group, {topic: {"0": 3}})
    assert commit(api, group, {topic: {"0": 1}})["offsets"] == {topic: {"0": 3}}
    assert api.committed(group, topic) == 3


def test_a_commit_settles_what_lies_below(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *"abc")
    member = api.join(group, topic)
    held = member.take(3)
    commit(api, group, {topic: {"0": 2}}, member_id=member.id, generation=member.generation)
    assert api.get(f"/groups/{group}/lag")["partitions"][0]["in_flight"] == 1
    handle = {"receipt_handle": held[0]["receipt_handle"]}
    assert api.refusal("POST", "/messages/nack", handle) == (410, "receipt_stale")
    assert api.ack(held[2])["committed_offset"] == 3


def test_a_commit_is_all_or_nothing(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    api.publish(topic, {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    answer = api.ask("POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 1, "1": 2}}})
    assert (answer.status, answer.code) == (400, "offset_out_of_range")
    assert answer.body["details"].items() >= {"earliest": 0, "end": 1}.items()
    assert api.refusal("GET", f"/groups/{group}/offsets") == (404, "group_not_found")


def test_a_commit_by_nobody_is_refused_while_there_are_members(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    api.publish(topic, {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    first, second = api.join(group, topic), api.join(group, topic)
    by_id = {member.id: member for member in (first, second)}
    owner = by_id[min(by_id)]
    nobody = refused_commit(api, group, {topic: {"0": 1}})
    assert nobody == (404, "member_not_found")
    unknown = refused_commit(api, group, {topic: {"0": 1}}, member_id="who")
    assert unknown == (404, "member_not_found")
    stale = refused_commit(
        api, group, {topic: {"0": 1}}, member_id=owner.id, generation=first.generation - 1
    )
    assert stale == (409, "generation_stale")
    foreign = refused_commit(api, group, {topic: {"1": 1}}, member_id=owner.id)
    assert foreign == (409, "partition_not_assigned")
    assert commit(api, group, {topic: {"0": 1}}, member_id=owner.id)["committed"] is True
    assert api.committed(group, topic, 1) in {None, 0}


@pytest.mark.parametrize(
    ("partition", "offset", "refusal"),
    [
        ("0", -1, (400, "request_invalid")),
        ("0", 2, (400, "offset_out_of_range")),
        ("0", 2**63 - 1, (400, "offset_out_of_range")),
        ("1", 0, (404, "partition_not_found")),
    ],
)
def test_a_commit_outside_the_log_is_refused(
    api: Api, name: Name, partition: str, offset: int, refusal: tuple[int, str]
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    assert refused_commit(api, group, {topic: {partition: offset}}) == refusal


def test_a_commit_to_an_unknown_topic_makes_no_group(api: Api, name: Name) -> None:
    group = name()
    assert refused_commit(api, group, {name(): {"0": 0}}) == (404, "topic_not_found")
    assert api.refusal("GET", f"/groups/{group}") == (404, "group_not_found")


# ---- reset ---------------------------------------------------------------------------------


def reset(api: Api, group: str, **fields: object) -> Json:
    return api.post(f"/groups/{group}/offsets/reset", dict(fields))


def test_a_dry_run_tells_and_changes_nothing(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    api.publish(topic, *({"value": "v", "partition": number % 2} for number in range(6)))
    commit(api, group, {topic: {"0": 3, "1": 1}})
    plan = reset(api, group, topic=topic, strategy="earliest", dry_run=True)
    assert plan == {
        "group_id": group,
        "reset_count": 2,
        "new_offsets": [
            {"topic": topic, "partition": number, "offset": 0, "lag": 3} for number in (0, 1)
        ],
    }
    assert [api.committed(group, topic, number) for number in (0, 1)] == [3, 1]
    assert reset(api, group, topic=topic, strategy="earliest") == plan
    assert [api.committed(group, topic, number) for number in (0, 1)] == [0, 0]


def test_a_reset_moves_one_partition_where_it_is_told(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    results = api.publish(
        topic, *({"value": str(number), "partition": number % 2} for number in range(6))
    )
    api.publish(topic, {"value": "last", "partition": 1})
    commit(api, group, {topic: {"0": 1, "1": 1}})
    (latest,) = reset(api, group, topic=topic, partition=1, strategy="latest")["new_offsets"]
    assert (latest["offset"], latest["lag"]) == (4, 0)
    (exact,) = reset(api, group, topic=topic, partition=1, strategy="offset", offset=2)[
        "new_offsets"
    ]
    assert (exact["offset"], exact["lag"]) == (2, 2)
    timed = reset(
        api,
        group,
        topic=topic,
        partition=1,
        strategy="timestamp",
        timestamp=results[1]["timestamp"],
    )
    assert timed["new_offsets"][0]["offset"] == 0
    assert api.committed(group, topic, 0) == 1


def test_a_reset_makes_open_leases_stale_and_delivers_again(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *"abc")
    member = api.join(group, topic)
    held = member.take(3)
    api.ack(held[0])
    reset(api, group, topic=topic, strategy="earliest")
    handle = {"receipt_handle": held[1]["receipt_handle"]}
    assert api.refusal("POST", "/messages/ack", handle) == (410, "receipt_stale")
    assert values_of(member.take(3)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"strategy": "offset", "offset": 9}, (400, "offset_out_of_range")),
        ({"strategy": "offset"}, (400, "request_invalid")),
        ({"strategy": "timestamp"}, (400, "request_invalid")),
        ({"strategy": "sideways"}, (400, "request_invalid")),
        ({}, (400, "request_invalid")),
        ({"strategy": "earliest", "partition": 7}, (404, "partition_not_found")),
    ],
)
def test_a_reset_that_cannot_be_done_changes_nothing(
    api: Api, name: Name, fields: Json, refusal: tuple[int, str]
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *"abc")
    commit(api, group, {topic: {"0": 2}})
    path = f"/groups/{group}/offsets/reset"
    assert api.refusal("POST", path, {"topic": topic, **fields}) == refusal
    assert api.committed(group, topic) == 2


# ---- lag -----------------------------------------------------------------------------------


def test_lag_counts_what_is_not_settled(api: Api, name: Name) -> None:
    topic, group = api.create(name(), partitions=2), name()
    member = api.join(group, topic)
    assert api.get(f"/groups/{group}/lag")["total_lag"] == 0
    api.publish(topic, *({"value": str(number), "partition": 0} for number in range(4)))
    first, _, third, _ = member.take(4)
    api.ack(first)
    api.ack(third)
    lag = api.get(f"/groups/{group}/lag")
    assert (lag["group_id"], lag["total_lag"]) == (group, 2)
    ours, empty = lag["partitions"]
    assert ours.pop("time_lag") != "0s"
    assert ours == {
        "topic": topic,
        "partition": 0,
        "committed_offset": 1,
        "end_offset": 4,
        "lag": 2,
        "in_flight": 2,
    }
    assert (empty["lag"], empty["time_lag"], empty["end_offset"]) == (0, "0s", 0)


def test_a_group_that_starts_at_the_end_has_no_lag(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *"abc")
    member = api.join(group, topic, start_position="latest")
    assert api.get(f"/groups/{group}/lag")["total_lag"] == 0
    api.publish(topic, "d")
    assert values_of(member.poll()) == ["d"]


def test_offsets_are_listed_per_topic(api: Api, name: Name) -> None:
    one, two, group = api.create(name()), api.create(name()), name()
    api.publish(one, "a")
    api.publish(two, "a")
    commit(api, group, {one: {"0": 1}, two: {"0": 1}})
    offsets = api.get(f"/groups/{group}/offsets")
    assert offsets["offsets"] == {one: {"0": 1}, two: {"0": 1}}
    assert offsets["group_id"] == group
    assert api.get(f"/groups/{group}/offsets", topic=two)["offsets"] == {two: {"0": 1}}
    assert api.refusal("GET", f"/groups/{name()}/offsets") == (404, "group_not_found")
