"""Queues in stored bytes through the API: polls that answer with records, settling by lease."""

from collections.abc import Callable
from itertools import islice

import pytest

from goqueue.model import LEASED_RECORDS_MEDIA
from goqueue.records import LeasedShare, decode, read_shares, walk
from tests.integration.http_api import Api, Json, Member
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]


def taken(api: Api, member: Member, count: int = 1000) -> list[LeasedShare]:
    """What one poll gets."""
    body = {"member_id": member.id, "max_messages": count, "timeout": "5s"}
    answer = api.ask("POST", f"/groups/{member.group}/poll/records", body)
    assert (answer.status, answer.headers["content-type"]) == (200, LEASED_RECORDS_MEDIA)
    return read_shares(answer.content)


def offsets_of(share: LeasedShare) -> list[list[int]]:
    """The offsets of each lease in the order of delivery: named, or those of its records."""
    stored = iter(walk(share.data).offsets)
    return [
        list(islice(stored, lease.count)) if share.is_exact else list(lease)
        for lease in share.header.leases
    ]


def values(share: LeasedShare) -> list[str]:
    """The values of a share in the order of delivery."""
    columns = walk(share.data)
    places = dict(zip(columns.offsets, columns.positions, strict=True))
    found = [
        decode(share.data, places[each]) for of_lease in offsets_of(share) for each in of_lease
    ]
    return [(record.value or b"").decode() for record in found]


def settle(api: Api, member: Member, route: str, leases: list[Json], **fields: object) -> Json:
    return api.post(f"/groups/{member.group}/leases/{route}", {"leases": leases, **fields})


def test_a_poll_brings_records_and_one_lease_and_an_ack_of_its_range_commits(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *"abcde")
    member = api.join(group, topic)

    (share,) = taken(api, member)
    (lease,) = share.header.leases
    assert (share.header.topic, share.header.partition) == (topic, 0)
    assert (lease.delivery_count, lease.offsets) == (1, [(0, 5)])
    assert values(share) == list("abcde")
    ack = {"handle": lease.handle, "offsets": [[0, 2], [3, 5]]}
    assert settle(api, member, "ack", [ack]) == {"count": 4, "refused": []}
    assert api.committed(group, topic) == 2
    # Also after its answer was lost.
    assert settle(api, member, "ack", [ack]) == {"count": 4, "refused": []}


def test_messages_of_a_lease_come_by_priority(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    priorities = ("low", "critical", "normal", "critical")
    messages = [{"value": each, "priority": each} for each in priorities]
    api.post(f"/topics/{topic}/messages", {"messages": messages})

    (share,) = taken(api, api.join(group, topic))

    assert values(share) == ["critical", "critical", "normal", "low"]


def test_scattered_messages_come_without_those_between_and_are_acked_together(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    priorities = ["low", "low", "critical", "low"] * 10
    messages = [{"value": f"{each}-{i}", "priority": each} for i, each in enumerate(priorities)]
    api.post(f"/topics/{topic}/messages", {"messages": messages})
    member = api.join(group, topic)

    (share,) = taken(api, member, 10)
    (lease,) = share.header.leases
    assert (lease.count, lease.offsets) == (10, ())
    assert values(share) == [f"critical-{i}" for i in range(2, 40, 4)]
    assert list(walk(share.data).offsets) == list(range(2, 40, 4))
    ack = {"handle": lease.handle, "steps": [2] + [4] * 9}
    assert settle(api, member, "ack", [ack]) == {"count": 10, "refused": []}
    # Also after its answer was lost.
    assert settle(api, member, "ack", [ack]) == {"count": 10, "refused": []}
    (rest,) = taken(api, member)
    assert len(values(rest)) == 30


def test_a_part_of_a_scattered_lease_is_settled_by_steps_and_the_rest_by_ranges(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    messages = [{"value": str(i), "priority": ("low", "high")[i % 2]} for i in range(40)]
    api.post(f"/topics/{topic}/messages", {"messages": messages})
    member = api.join(group, topic)
    (share,) = taken(api, member, 20)
    handle, [offsets] = share.header.leases[0].handle, offsets_of(share)
    assert offsets == list(range(1, 40, 2))

    steps = {"handle": handle, "steps": [3, 2, 2]}
    assert settle(api, member, "release", [steps])["count"] == 3
    over = settle(api, member, "ack", [{"handle": handle, "steps": [1, 2, 3, 5]}])
    assert over["count"] == 2
    assert [each["offsets"] for each in over["refused"]] == [[[3, 4]], [[6, 7]]]
    rest = {"handle": handle, "offsets": [[each, each + 1] for each in offsets[5:]]}
    assert settle(api, member, "ack", [rest])["count"] == 15


def test_a_lease_is_settled_in_parts_in_every_way(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *"abcdef")
    member = api.join(group, topic)
    (share,) = taken(api, member)
    handle = share.header.leases[0].handle

    def part(*offsets: int) -> list[Json]:
        return [{"handle": handle, "offsets": [[each, each + 1] for each in offsets]}]

    assert settle(api, member, "extend", part(5), timeout="5m")["count"] == 1
    nacked = settle(api, member, "nack", part(0, 2), delay="0s", reason="busy")
    assert (nacked["count"], nacked["dead_lettered"]) == (2, 0)
    assert settle(api, member, "reject", part(1), reason="unreadable")["count"] == 1
    assert settle(api, member, "release", part(3))["count"] == 1
    assert settle(api, member, "ack", part(4))["count"] == 1
    over = settle(api, member, "ack", part(0, 1, 3, 5))
    assert over["count"] == 1
    assert [each["offsets"] for each in over["refused"]] == [[[0, 2]], [[3, 4]]]
    assert {each["code"] for each in over["refused"]} == {"receipt_stale"}

    again = taken(api, member)
    counts = [each.delivery_count for each in again[0].header.leases]
    assert dict(zip(counts, offsets_of(again[0]), strict=True)) == {2: [0, 2], 1: [3]}


def test_a_message_leased_as_a_record_is_acked_by_its_receipt_and_the_other_way_round(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a", "b")
    member = api.join(group, topic)
    (share,) = taken(api, member, 1)
    head, _, rest = share.header.leases[0].handle.partition(":0:")
    receipt = f"{head}:0:0:{rest}"
    (second,) = member.take(1)
    start, _, nonce = second["receipt_handle"].partition(":0:1:")

    api.ack({"receipt_handle": receipt})
    lease = {"handle": f"{start}:0:{nonce}", "offsets": [[1, 2]]}
    assert settle(api, member, "ack", [lease])["count"] == 1
    assert api.committed(group, topic) == 2


@pytest.mark.parametrize(
    "offsets",
    [[], [[0, 0]], [[2, 1]], [[0, 2], [1, 3]], [[3, 4], [0, 1]], [[-1, 1]], [[0, 10_001]], [[0]]],
)
def test_ranges_that_are_none_are_refused_and_change_nothing(
    api: Api, name: Name, offsets: list[list[int]]
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (share,) = taken(api, member)
    body = {"leases": [{"handle": share.header.leases[0].handle, "offsets": offsets}]}

    for route in ("ack", "nack", "reject", "release"):
        status, code = api.refusal("POST", f"/groups/{group}/leases/{route}", body)
        assert (status, code) == (400, "request_invalid")
    assert api.committed(group, topic) in {None, 0}


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"steps": []},
        {"steps": [0, 0]},
        {"steps": [-1]},
        {"steps": [1, -1]},
        {"steps": [2**63 - 1, 1]},
        {"steps": [0] + [1] * 10_000},
        {"steps": [0], "offsets": [[0, 1]]},
    ],
)
def test_steps_that_are_none_are_refused_and_change_nothing(
    api: Api, name: Name, named: Json
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    (share,) = taken(api, member)
    body = {"leases": [{"handle": share.header.leases[0].handle, **named}]}

    status, code = api.refusal("POST", f"/groups/{group}/leases/ack", body)
    assert (status, code) == (400, "request_invalid")
    assert api.committed(group, topic) in {None, 0}


def test_handles_of_others_are_refused_by_each_route(api: Api, name: Name) -> None:
    topic, group, other = api.create(name()), name(), name()
    api.publish(topic, "a")
    member, stranger = api.join(group, topic), api.join(other, topic)
    (share,) = taken(api, member)
    leases = [
        {"handle": handle, "offsets": [[0, 1]]}
        for handle in (share.header.leases[0].handle, "x", "", "a:b:c:d")
    ]

    for route, fields in (
        ("ack", {}),
        ("nack", {}),
        ("reject", {}),
        ("release", {}),
        ("extend", {"timeout": "1m"}),
    ):
        settled = settle(api, stranger, route, leases, **fields)
        assert settled["count"] == 0
        assert [each["code"] for each in settled["refused"]] == ["receipt_invalid"] * 4
    assert settle(api, member, "ack", leases[:1])["count"] == 1


def test_an_ack_by_lease_outlives_a_crash(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    topic = api.create("t")
    api.publish(topic, *(str(number) for number in range(500)))
    member = api.join("g", topic)
    (share,) = taken(api, member)
    handle = share.header.leases[0].handle
    settle(api, member, "ack", [{"handle": handle, "offsets": [[0, 200], [300, 400]]}])

    mortal.restart()
    api.close()

    assert api.committed("g", topic) == 200
    # Members are known after a crash, too; their leases are not.
    (again,) = taken(api, member)
    offsets = sorted(offset for of_lease in offsets_of(again) for offset in of_lease)
    assert offsets == [*range(200, 300), *range(400, 500)]
    late = settle(api, member, "ack", [{"handle": handle, "offsets": [[100, 202]]}])
    assert (late["count"], late["refused"][0]["offsets"]) == (100, [[200, 202]])
