"""What tools need of the SDK: pages, stored records, polls on request, drafts, raw replies."""

import asyncio
import base64
import datetime as dt
from collections.abc import Awaitable, Callable

import msgspec
import pytest

import goqueue
from goqueue.client import GoQueueError, NotFound, TopicNotFound
from goqueue.client.batch import Identity
from goqueue.client.connection import Connection
from goqueue.client.message_drafts import MessageDraft, encode_draft
from goqueue.client.pages import DamageSkipped, PageMessage, decode_page
from goqueue.client.retries import Retries
from goqueue.client.stored_records import RecordBatch
from tests.unit.client.peer import Answer, Asked, json_answer, peer, refusal_answer

ONCE = Retries(attempts_max=1)
TOPIC = {
    "name": "orders",
    "partitions": 2,
    "partition_offsets": {
        "0": {"earliest": 3, "latest": 9},
        "1": {"earliest": 0, "latest": -1},
    },
}


class Script:
    """Answers by method and path without the query, in the order given; keeps what was asked."""

    def __init__(self, **answers: list[Answer]) -> None:
        self.answers = {name.replace("_", "/"): answer for name, answer in answers.items()}
        self.asked: list[Asked] = []

    async def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        route = asked.target.split("?")[0].rsplit("/", 1)[-1]
        if route == "cooperative":
            # The group of this server has eager members: its client joins as they did.
            return refusal_answer(409, "group_mismatch", protocol="eager")
        left = self.answers[route]
        return left.pop(0) if len(left) > 1 else left[0]

    def queries(self, route: str) -> list[str]:
        return [
            each.target.partition("?")[2]
            for each in self.asked
            if each.target.split("?")[0].endswith(f"/{route}")
        ]


def play(
    script: Script,
    scene: Callable[[Connection], Awaitable[None]],
    on_reply: Callable[[bytes], None] | None = None,
) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(20),
            peer(script) as url,
            goqueue.connect(url, retries=ONCE, on_reply=on_reply) as q,
        ):
            await scene(q)

    asyncio.run(run())


def message(offset: int, **fields: object) -> dict[str, object]:
    return {
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "timestamp": "2026-01-01T12:00:00Z",
        "value": f"v{offset}",
        **fields,
    }


def page(*messages: dict[str, object], next_offset: int = 0) -> Answer:
    return json_answer({"messages": messages, "next_offset": next_offset})


# Replies word for word


def test_the_body_of_every_reply_is_handed_over_as_it_came() -> None:
    raw = b'{ "topics": ["a"], "new": 1 }'
    heard: list[bytes] = []
    script = Script(topics=[Answer(body=raw)])

    async def scene(q: Connection) -> None:
        assert await q.topics.list() == ("a",)

    play(script, scene, heard.append)
    assert heard == [raw]


def test_a_refusal_is_no_reply() -> None:
    heard: list[bytes] = []

    async def scene(q: Connection) -> None:
        with pytest.raises(TopicNotFound):
            await q.topics.list()

    play(Script(topics=[refusal_answer(404, "topic_not_found")]), scene, heard.append)
    assert not heard


# Pages


def test_a_message_of_a_page_keeps_its_json_as_it_came() -> None:
    place = b'"topic":"t","partition":0,"offset":0,"timestamp":"2026-01-01T00:00:00Z"'
    raw = b"{" + place + b',"value":"v","new":1}'
    found = decode_page(b'{"messages":[' + raw + b'],"next_offset":1,"more":[]}')
    assert (found.messages[0].json, found.next_offset) == (raw, 1)
    assert found.messages[0].message.value == b"v"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"messages":[{}]}',
        b'{"messages":[{"topic":"t"}],"next_offset":1}',
        msgspec.json.encode({"messages": [message(0, value="?", encoding="base64")]}),
        msgspec.json.encode({"messages": [message(0, priority="urgent")]}),
    ],
)
def test_a_page_that_is_not_of_the_contract_is_refused(body: bytes) -> None:
    with pytest.raises(GoQueueError, match="not what the contract says"):
        decode_page(body)


def test_readers_begin_where_they_are_told_and_know_where_their_partition_ended() -> None:
    script = Script(orders=[json_answer(TOPIC)], messages=[page(next_offset=10)])

    async def scene(q: Connection) -> None:
        starts: list[tuple[str | int | dt.datetime, list[int]]] = [
            ("earliest", [3, 0]),
            ("latest", [10, 0]),
            (5, [5, 5]),
        ]
        for start, offsets in starts:
            readers = await q.pages("orders", from_=start)
            assert [each.offset for each in readers] == offsets
            assert [each.end for each in readers] == [10, 0]
        noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
        for start in (noon, "2026-01-01T12:00:00.000000001Z"):
            (reader,) = await q.pages("orders", partition=0, from_=start)
            assert not reader.is_at_end
            await reader.read(limit=10)
            assert reader.offset == 10
            assert reader.is_at_end

    play(script, scene)
    assert [query.partition("&")[0] for query in script.queries("messages")] == [
        "timestamp=2026-01-01T12%3A00%3A00Z",
        "timestamp=2026-01-01T12%3A00%3A00.000000001Z",
    ]


def test_a_partition_that_is_not_there_is_refused_before_anything_is_read() -> None:
    async def scene(q: Connection) -> None:
        with pytest.raises(NotFound, match="no partition 7"):
            await q.pages("orders", partition=7)

    play(Script(orders=[json_answer(TOPIC)]), scene)


def test_a_reader_reads_on_and_takes_back_what_was_not_used() -> None:
    script = Script(
        orders=[json_answer(TOPIC)],
        messages=[page(message(3), message(4), next_offset=5), page(next_offset=4)],
    )

    async def scene(q: Connection) -> None:
        (reader,) = await q.pages("orders", partition=0)
        messages = await reader.read(limit=5000)
        assert [each.message.offset for each in messages] == [3, 4]
        assert reader.offset == 5
        reader.step_back(messages[1:])
        assert await reader.read(limit=2, wait_s=1.5) == []
        # A page that leads nowhere moves nobody back.
        assert reader.offset == 4

    play(script, scene)
    assert script.queries("messages") == [
        "offset=3&limit=1000",
        "offset=4&limit=2&wait=1500ms",
    ]


def test_damaged_records_are_skipped_and_reported() -> None:
    damage = refusal_answer(500, "records_damaged", next_offset=8)
    script = Script(orders=[json_answer(TOPIC)], messages=[damage, page(next_offset=9)])
    skipped: list[DamageSkipped] = []

    async def scene(q: Connection) -> None:
        (reader,) = await q.pages("orders", partition=0, on_damage=skipped.append)
        assert await reader.read(limit=10) == []
        assert reader.offset == 8

    play(script, scene)
    assert [(each.first, each.next_offset) for each in skipped] == [(3, 8)]


def test_the_offset_at_a_time_is_that_of_the_first_message_from_then_on() -> None:
    script = Script(messages=[page(message(6), next_offset=7), page(next_offset=10)])

    async def scene(q: Connection) -> None:
        noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
        assert await q.offset_at("orders", 0, noon) == 6
        assert await q.offset_at("orders", 0, noon) is None

    play(script, scene)


# Stored records


def test_stored_records_come_undecoded_with_what_their_headers_say() -> None:
    headers = {
        "GoQueue-Next-Offset": "7",
        "GoQueue-Log-Start": "2",
        "GoQueue-Last-Stable-Offset": "6",
        "GoQueue-Aborted": "3-4",
    }
    script = Script(records=[Answer(body=b"bytes", headers=headers), Answer(body=b"")])

    async def scene(q: Connection) -> None:
        found = await q.records.fetch("orders", 0, 5, max_bytes=100, isolation="read_uncommitted")
        assert (found.data, found.next_offset, found.log_start) == (b"bytes", 7, 2)
        assert (found.last_stable_offset, found.aborted) == (6, ((3, 4),))
        with pytest.raises(GoQueueError, match="goqueue-next-offset"):
            await q.records.fetch("orders", 0, 5, max_bytes=100)

    play(script, scene)
    assert script.queries("records")[0] == "offset=5&max_bytes=100&isolation=read_uncommitted"


def test_encoded_records_are_published_by_a_known_producer() -> None:
    placed = {"partition": 1, "base_offset": 40, "count": 2}
    taken = {"results": [placed], "timestamp": "1970-01-01T00:00:01Z"}
    script = Script(records=[json_answer(taken)])
    batch = RecordBatch(topic="orders", partition=1, data=bytearray(b"ab"), count=2, sequence=9)

    async def scene(q: Connection) -> None:
        sent = await q.records.publish(batch, Identity(5, 3))
        assert (sent.first, sent.timestamp) == (40, 1_000_000_000)
        short = msgspec.structs.replace(batch, count=3)
        with pytest.raises(GoQueueError, match="another number"):
            await q.records.publish(short, Identity(5, 3))

    play(script, scene)
    assert script.queries("records")[0] == "partition=1&producer_id=5&epoch=3&sequence=9"
    assert script.asked[0].body == b"ab"


# Polls on request


def joined(member_id: str) -> Answer:
    return json_answer({"member_id": member_id, "generation": 1, "assigned_partitions": []})


def test_a_poll_leases_what_is_asked_for_and_an_ack_tells_about_each() -> None:
    leased = message(0, receipt_handle="r0", delivery_count=2, deadline="2026-01-01T12:00:30Z")
    acked = {"results": [{"success": False, "error": "too late", "code": "receipt_stale"}]}
    script = Script(
        join=[joined("m1")], poll=[page(leased)], batch=[json_answer(acked)], leave=[Answer()]
    )

    async def scene(q: Connection) -> None:
        async with q.poll_consumer("orders", group="g", mode="shared") as consumer:
            (found,) = await consumer.poll(limit=3, wait_s=2)
            assert (found.receipt_handle, found.delivery_count) == ("r0", 2)
            (result,) = await consumer.ack([found])
            assert (result.success, result.code) == (False, "receipt_stale")
        assert consumer.is_closed

    play(script, scene)
    polled = msgspec.json.decode(script.asked[2].body)
    assert (polled["max_messages"], polled["timeout"]) == (3, "2000ms")
    assert script.asked[-1].target.endswith("/leave")


class _Order(msgspec.Struct):
    id: int


def test_a_poll_and_a_page_read_values_with_a_serializer_as_consumers_do() -> None:
    good, bad = message(3, value='{"id": 7}'), message(4, value="{}")
    script = Script(
        join=[joined("m1")],
        poll=[page(good, bad)],
        leave=[Answer()],
        orders=[json_answer(TOPIC)],
        messages=[page(good, bad, next_offset=5)],
    )

    async def scene(q: Connection) -> None:
        serializer = goqueue.Json(_Order, framed=False)
        async with q.poll_consumer("orders", group="g", serializer=serializer) as consumer:
            check(await consumer.poll())
        (reader,) = await q.pages("orders", partition=0, serializer=serializer)
        check(await reader.read(limit=9))
        check((await q.page("orders", 0, offset=3, serializer=serializer)).messages)
        (plain, _) = (await q.page("orders", 0, offset=3)).messages
        with pytest.raises(GoQueueError, match="without a serializer"):
            _ = plain.message.payload

    def check(read: list[PageMessage]) -> None:
        assert read[0].message.payload == _Order(7)
        with pytest.raises(goqueue.DecodeError):
            _ = read[1].message.payload

    play(script, scene)


def test_a_reader_stays_where_it_is_while_the_registry_is_away() -> None:
    framed = message(3, value=base64.b64encode(b"\0\0\0\0\1{}").decode(), encoding="base64")
    script = Script(orders=[json_answer(TOPIC)], messages=[page(framed, next_offset=4)])
    script.answers["1"] = [refusal_answer(403, "permission_denied")]

    async def scene(q: Connection) -> None:
        serializer = goqueue.Avro("orders", schema='"string"')
        (reader,) = await q.pages("orders", partition=0, serializer=serializer)
        with pytest.raises(GoQueueError, match="permission_denied"):
            await reader.read(limit=9)
        assert reader.offset == 3

    play(script, scene)


def test_messages_of_several_topics_are_received_by_one_request() -> None:
    script = Script(records=[Answer(body=b"")])

    async def scene(q: Connection) -> None:
        assert await q.receive(["orders", "jobs"], group="g", max=5) == []
        with pytest.raises(ValueError, match="topics is empty"):
            await q.receive([], group="g")

    play(script, scene)
    asked = msgspec.json.decode(script.asked[-1].body)
    assert (asked["topics"], asked["max_messages"]) == (["orders", "jobs"], 5)


def test_a_poller_that_was_forgotten_joins_again() -> None:
    script = Script(
        join=[joined("m1"), joined("m2")],
        poll=[refusal_answer(404, "member_not_found"), page(message(0, receipt_handle="r"))],
        leave=[refusal_answer(404, "member_not_found")],
    )

    async def scene(q: Connection) -> None:
        async with q.poll_consumer("orders", group="g") as consumer:
            assert len(await consumer.poll()) == 1
            # Gone is gone: that nobody knows the member any more is what leaving is for.
            await consumer.leave()

    play(script, scene)
    polls = [each for each in script.asked if each.target.endswith("/poll")]
    assert [msgspec.json.decode(each.body)["member_id"] for each in polls] == ["m1", "m2"]


def test_a_group_that_could_not_be_left_is_told_once() -> None:
    script = Script(join=[joined("m1")], leave=[refusal_answer(403, "permission_denied")])

    async def scene(q: Connection) -> None:
        async with q.poll_consumer("orders", group="g") as consumer:
            with pytest.raises(GoQueueError, match="permission_denied"):
                await consumer.leave()

    play(script, scene)
    assert sum(each.target.endswith("/leave") for each in script.asked) == 1


# Drafts


def test_drafts_travel_in_one_request_and_each_has_its_result() -> None:
    results = [
        {"partition": 1, "offset": 4, "deliverAt": "2030-01-01T00:00:00Z"},
        {"error": "too large", "code": "message_too_large"},
    ]
    script = Script(messages=[json_answer({"results": results})])
    drafts: list[MessageDraft | bytes] = [
        MessageDraft(value=b"v", key=b"k", delay="1m"),
        encode_draft(MessageDraft(value=b"\xff", headers={"a": "b"})),
    ]

    async def scene(q: Connection) -> None:
        first, second = await q.publish_drafts("orders", drafts)
        assert (first.partition, first.offset, first.code) == (1, 4, "")
        assert first.deliver_at == "2030-01-01T00:00:00Z"
        assert msgspec.json.decode(first.json) == results[0]
        assert (second.code, second.error) == ("message_too_large", "too large")

    play(script, scene)
    assert msgspec.json.decode(script.asked[0].body) == {
        "messages": [
            {"value": "v", "key": "k", "delay": "1m"},
            {"value": "/w==", "encoding": "base64", "headers": {"a": "b"}},
        ]
    }


def test_drafts_that_were_all_refused_have_results_too() -> None:
    refused = {"error": "no", "code": "message_invalid", "results": [{"code": "message_invalid"}]}
    script = Script(messages=[json_answer(refused, 422)])

    async def scene(q: Connection) -> None:
        (result,) = await q.publish_drafts("orders", [MessageDraft(value=None)])
        assert result.code == "message_invalid"

    play(script, scene)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refusal_answer(404, "topic_not_found"), "topic_not_found"),
        (json_answer({"results": []}), "response_invalid"),
        (json_answer({}), "response_invalid"),
        (Answer(body=b"no"), "response_invalid"),
    ],
)
def test_a_request_without_results_is_a_failure(answer: Answer, code: str) -> None:
    async def scene(q: Connection) -> None:
        with pytest.raises(GoQueueError) as failed:
            await q.publish_drafts("orders", [MessageDraft(value=b"v")])
        assert failed.value.code == code

    play(Script(messages=[answer]), scene)


# Administration page by page


def test_a_page_of_a_list_tells_how_many_there_are_in_all() -> None:
    due = {
        "topic": "orders",
        "partition": 0,
        "offset": 1,
        "deliver_at": "2030-01-01T00:00:00Z",
        "time_remaining": "1s",
        "priority": "normal",
        "state": "pending",
    }
    delayed = {"topic": "orders", "messages": [due], "total": 9, "skip": 3}
    script = Script(
        delayed=[json_answer(delayed)],
        transactions=[json_answer({"transactions": [], "total": 4, "skip": 4})],
    )

    async def scene(q: Connection) -> None:
        first = await q.delayed.page("orders", limit=1, skip=3)
        assert (first.topic, len(first.messages), first.total, first.skip) == ("orders", 1, 9, 3)
        second = await q.transactions.page(skip=4)
        assert (second.transactions, second.total) == ((), 4)

    play(script, scene)


def test_a_time_given_as_text_keeps_its_nanoseconds() -> None:
    moment = "2026-01-01T12:00:00.123456789Z"
    reset = {"group_id": "g", "reset_count": 0, "new_offsets": []}
    script = Script(reset=[json_answer(reset)], search=[json_answer({"traces": [], "total": 0})])

    async def scene(q: Connection) -> None:
        await q.groups.reset("g", "orders", moment)
        await q.traces.search(start=moment)

    play(script, scene)
    asked = msgspec.json.decode(script.asked[0].body)
    assert (asked["strategy"], asked["timestamp"]) == ("timestamp", moment)
    assert "start=2026-01-01T12%3A00%3A00.123456789Z" in script.queries("search")[0]
