"""Schemas by the SDK, with await and without, and by the command line, against a real node."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import goqueue
from goqueue.client import ArgumentInvalid, DecodeError, GoQueueError, NotFound
from goqueue.client.connection import Connection
from goqueue.client.message import Message
from goqueue.client.schemas import SchemaLink, SchemaSet, framed_id
from goqueue.client.serializers import Serializer
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess, serving

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string", "default": ""}],
}
WIDER = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}


class Order(msgspec.Struct):
    id: int
    item: str = ""


@dataclasses.dataclass
class Payment:
    id: int
    cents: int


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("node")) as process:
        yield process


async def _register(q: Connection) -> None:
    subject = "life-value"
    first = await q.schemas.register(subject, ORDER, type="AVRO")
    assert await q.schemas.register(subject, ORDER, type="AVRO") == first
    assert await q.schemas.find(subject, ORDER, type="AVRO") == first
    report = await q.schemas.check(subject, {**ORDER, "name": "Other"}, type="AVRO")
    assert not report.is_compatible
    assert "version 1" in report.messages[0]
    second = await q.schemas.register(subject, WIDER, type="AVRO")
    assert await q.schemas.versions(subject) == (1, 2)
    assert (await q.schemas.get(subject)).id == second.id
    assert msgspec.json.decode((await q.schemas.get(subject, 1)).schema) == ORDER
    assert (await q.schemas.get_by_id(first.id)).schema_type == "AVRO"
    assert subject in await q.schemas.list()
    assert await q.schemas.compatibility(subject) == "BACKWARD"
    assert await q.schemas.set_compatibility("FULL", subject) == "FULL"
    assert await q.schemas.compatibility() == "BACKWARD"
    with pytest.raises(GoQueueError) as refused:
        await q.schemas.register(subject, "{", type="AVRO")
    assert refused.value.code == "schema_invalid"
    assert await q.schemas.delete(subject, 1) == (1,)
    assert await q.schemas.delete(subject) == (2,)
    assert (await q.schemas.get_by_id(first.id)).id == first.id
    assert await q.schemas.delete(subject, permanent=True) == (1, 2)
    with pytest.raises(NotFound):
        await q.schemas.get_by_id(first.id)
    assert (await q.schemas.stats()).compatibility_level == "BACKWARD"


def test_schemas_are_administered_by_the_sdk(server: ServerProcess) -> None:
    async def run() -> None:
        async with goqueue.connect(server.url) as q:
            await _register(q)

    asyncio.run(run())


async def _exchange(q: Connection) -> None:
    await q.topics.create("orders", partitions=1, schema_validation=True)
    old, new = goqueue.Avro("orders-value", ORDER), goqueue.Avro("orders-value", WIDER)
    async with q.producer(serializer=old) as producer:
        await (await producer.send("orders", {"id": 1, "item": "tea"}))
        await (await producer.send("orders", None))
        with pytest.raises(GoQueueError) as wrong:
            await producer.send("orders", {"id": "x"})
    assert wrong.value.code == "message_invalid"
    framed = await q.schemas.encode(new, {"id": 2, "item": "", "note": "n"})
    await q.publish("orders", framed)
    with pytest.raises(GoQueueError) as refused:
        await q.publish("orders", b"\0\0\0\0\1\xff")
    assert refused.value.code == "schema_violation"
    reading = q.stream("orders")
    values = [(await anext(reading)).value for _ in range(3)]
    await reading.close()
    assert [await q.schemas.decode(new, value) for value in values] == [
        {"id": 1, "item": "tea", "note": None},
        None,
        {"id": 2, "item": "", "note": "n"},
    ]
    # With the schema that each was written with.
    as_written = goqueue.Avro("orders-value")
    assert await q.schemas.decode(as_written, values[0]) == {"id": 1, "item": "tea"}
    with pytest.raises(DecodeError):
        await q.schemas.decode(new, b"{}")
    with pytest.raises(DecodeError):
        await q.schemas.decode(new, values[0] + b"\0" if values[0] else b"")


def test_avro_values_are_read_into_the_schema_of_the_reader(server: ServerProcess) -> None:
    async def run() -> None:
        async with goqueue.connect(server.url) as q:
            await _exchange(q)

    asyncio.run(run())


def test_models_are_written_and_read_as_json_without_await(server: ServerProcess) -> None:
    with goqueue.connect_sync(server.url) as q:
        q.topics.create("payments", partitions=1, schema_validation=True)
        serializer = goqueue.Json(Payment)
        with q.producer(serializer=serializer) as producer:
            producer.send("payments", Payment(1, 250)).wait()
            with pytest.raises(GoQueueError, match="does not conform"):
                producer.send("payments", {"id": 1, "cents": "many"})
        (version,) = q.schemas.versions("payments-value")
        assert q.schemas.get("payments-value", version).schema_type == "JSON"
        framed = q.schemas.encode(goqueue.Json(Order, "other"), Order(3))
        assert framed is not None
        assert framed_id(framed) == q.schemas.get("other").id
        assert q.schemas.decode(goqueue.Json(Order), framed) == Order(3)
        assert q.schemas.decode(goqueue.Json(Order), b'{"id": 4}') == Order(4)
        plain = q.schemas.encode(
            goqueue.Json(Payment, framed=False), Payment(2, 5), topic="payments"
        )
        assert plain == b'{"id":2,"cents":5}'
        q.publish("payments", plain)
        with pytest.raises(GoQueueError) as nameless:
            q.schemas.encode(goqueue.Json(Order), Order(3))
        assert nameless.value.code == "request_invalid"


def test_messages_of_protobuf_are_registered_validated_and_read(server: ServerProcess) -> None:
    from google.protobuf.struct_pb2 import ListValue, Struct, Value
    from google.protobuf.timestamp_pb2 import Timestamp

    with goqueue.connect_sync(server.url) as q:
        q.topics.create("times", partitions=1, schema_validation=True)
        serializer = goqueue.Protobuf(Timestamp)
        with q.producer(serializer=serializer) as producer:
            producer.send("times", Timestamp(seconds=5)).wait()
            with pytest.raises(GoQueueError, match="is dict, not Timestamp"):
                producer.send("times", {"seconds": 5})
        assert q.schemas.get("times-value").schema_type == "PROTOBUF"
        framed = q.schemas.encode(serializer, Timestamp(seconds=6), topic="times")
        assert framed is not None
        assert q.schemas.decode(serializer, framed) == Timestamp(seconds=6)
        with pytest.raises(GoQueueError) as refused:
            q.publish("times", framed[:6] + b"\x0a\x01a")
        assert refused.value.code == "schema_violation"
        # Maps, oneofs, recursion, and a message that is not the first of its file.
        many = ListValue(values=[Value(struct_value=Struct(fields={"a": Value(bool_value=True)}))])
        nested = goqueue.Protobuf(ListValue, "lists")
        assert q.schemas.decode(nested, q.schemas.encode(nested, many)) == many


def test_payloads_are_read_from_a_queue_a_stream_and_a_receive_alike(
    server: ServerProcess,
) -> None:
    from google.protobuf.timestamp_pb2 import Timestamp

    cases: list[tuple[str, Serializer[object], object]] = [
        ("read-avro", goqueue.Avro("read-avro-value", ORDER), {"id": 1, "item": "tea"}),
        ("read-json", goqueue.Json(Payment), Payment(1, 250)),
        ("read-protobuf", goqueue.Protobuf(Timestamp), Timestamp(seconds=5)),
    ]

    async def run() -> None:
        async with goqueue.connect(server.url) as q:
            for topic, serializer, value in cases:
                await q.topics.create(topic, partitions=1)
                async with q.producer(serializer=serializer) as producer:
                    await (await producer.send(topic, value))
                    await (await producer.send(topic, None))
                await _read_everywhere(q, topic, serializer, value)

    asyncio.run(run())


async def _read_everywhere(
    q: Connection, topic: str, serializer: Serializer[object], value: object
) -> None:
    async with (
        q.consume(topic, group="queue", serializer=serializer) as queue,
        q.consume(topic, group="commits", auto_commit=True, serializer=serializer) as member,
        q.stream(topic, serializer=serializer) as stream,
    ):
        for consumer in (queue, member, stream):
            assert [(await anext(consumer)).payload for _ in range(2)] == [value, None]
    received: list[Message] = []
    while len(received) < 2:
        received += await q.receive(topic, group="few", max=2, wait=5, serializer=serializer)
    assert [message.payload for message in received] == [value, None]


def test_payloads_of_older_writers_are_read_into_the_schema_of_the_reader(
    server: ServerProcess,
) -> None:
    subject = "evolved-value"
    with goqueue.connect_sync(server.url) as q:
        q.topics.create("evolved", partitions=1)
        for schema, value in ((ORDER, {"id": 1}), (WIDER, {"id": 2, "note": "n"})):
            q.publish("evolved", q.schemas.encode(goqueue.Avro(subject, schema), value))
        newer, older = goqueue.Avro(subject, WIDER), goqueue.Avro(subject, ORDER)
        with q.consume("evolved", group="new", serializer=newer) as messages:
            assert [next(messages).payload for _ in range(2)] == [
                {"id": 1, "item": "", "note": None},
                {"id": 2, "item": "", "note": "n"},
            ]
        with q.stream("evolved", serializer=older) as stream:
            assert [next(stream).payload for _ in range(2)] == [
                {"id": 1, "item": ""},
                {"id": 2, "item": ""},
            ]


def test_a_value_that_cannot_be_read_is_rejected_and_the_loop_goes_on(
    server: ServerProcess,
) -> None:
    serializer = goqueue.Json(Payment)
    with goqueue.connect_sync(server.url) as q:
        q.topics.create("unread", partitions=1)
        for value in (b'{"id": 1, "cents": "many"}', b"\0\0\0\0\1{", b'{"id": 2, "cents": 5}'):
            q.publish("unread", value)
        read: list[object] = []
        with q.consume("unread", group="billing", serializer=serializer) as messages:
            for message in messages:
                try:
                    read.append(message.payload)
                except DecodeError as error:
                    read.append(error.path)
                    message.reject(error.reason)
                else:
                    message.ack()
                    break
        assert read == ["/cents", "", Payment(2, 5)]
        reasons = [letter.reason for letter in q.dead_letters.list("unread")]
        assert "Expected `int`, got `str`" in reasons


def test_an_unknown_schema_is_the_error_of_its_message(server: ServerProcess) -> None:
    serializer = goqueue.Avro("unknown-value", ORDER)
    with goqueue.connect_sync(server.url) as q:
        q.topics.create("unknown", partitions=1)
        q.publish("unknown", b"\0\x7f\0\0\0\2\0")
        q.publish("unknown", q.schemas.encode(serializer, {"id": 1}))
        with q.stream("unknown", serializer=serializer) as stream:
            with pytest.raises(DecodeError, match="of the value cannot be used"):
                _ = next(stream).payload
            assert next(stream).payload == {"id": 1, "item": ""}


class _Unusable(goqueue.Avro):
    def decoder(self, schema: SchemaSet | None) -> Callable[[bytes], object]:
        raise ArgumentInvalid(f"a library is missing for {schema}")


def test_messages_of_a_consumer_that_cannot_read_at_all_are_given_back_uncounted(
    server: ServerProcess,
) -> None:
    serializer = _Unusable("returned-value", ORDER)
    with goqueue.connect_sync(server.url) as q:
        q.topics.create("returned", partitions=1)
        q.publish("returned", q.schemas.encode(serializer, {"id": 1}))
        with pytest.raises(ArgumentInvalid, match="a library is missing"):
            q.receive("returned", group="few", wait=5, serializer=serializer)
        (message,) = q.receive("returned", group="few", wait=5)
        assert message.delivery_count == 1
        with (
            q.consume("returned", group="queue", mode="shared", serializer=serializer) as messages,
            pytest.raises(ArgumentInvalid, match="a library is missing"),
        ):
            next(messages)
        (message,) = q.receive("returned", group="queue", wait=5)
        assert message.delivery_count == 1
        with (
            q.stream("returned", serializer=serializer) as stream,
            pytest.raises(ArgumentInvalid, match="a library is missing"),
        ):
            next(stream)


def test_a_handler_with_a_serializer_gets_payloads_and_bad_values_are_rejected(
    server: ServerProcess,
) -> None:
    serializer = goqueue.Avro("handled-value", ORDER)
    worker = goqueue.Worker("billing", server=server.url)
    handled: list[object] = []

    @worker.handler("handled", serializer=serializer)
    async def handle(order: dict[str, object]) -> None:
        handled.append(order)

    async def run() -> None:
        async with goqueue.connect(server.url) as q:
            await q.topics.create("handled", partitions=1)
            await q.publish("handled", b"plain")
            await q.publish("handled", None)
            await q.publish("handled", await q.schemas.encode(serializer, {"id": 1}))
            await worker.serve(q, until_idle=True)
            first, second = [letter.reason for letter in await q.dead_letters.list("handled")]
            assert "not in registry framing" in first + second
            assert "the message is a tombstone" in first + second

    asyncio.run(run())
    assert handled == [{"id": 1, "item": ""}]


def test_references_are_fetched_with_a_schema(server: ServerProcess) -> None:
    money = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
    bill = {"type": "record", "name": "Bill", "fields": [{"name": "sum", "type": "Money"}]}
    link = SchemaLink(name="Money", subject="money", version=1)
    with goqueue.connect_sync(server.url) as q:
        q.schemas.register("money", money, type="AVRO")
        serializer = goqueue.Avro("bills", bill, references=(link,))
        framed = q.schemas.encode(serializer, {"sum": {"cents": 7}})
        assert q.schemas.decode(goqueue.Avro("bills"), framed) == {"sum": {"cents": 7}}
        # Also by a program that writes nothing, into its own schema.
        reader = goqueue.Avro("bills", bill, references=(link,))
        assert q.schemas.decode(reader, framed) == {"sum": {"cents": 7}}


def test_the_command_line_registers_checks_writes_and_reads(
    server: ServerProcess, tmp_path: Path
) -> None:
    program = Program(server.url, tmp_path)
    order, wrong = tmp_path / "order.avsc", tmp_path / "wrong.avsc"
    order.write_bytes(msgspec.json.encode(ORDER))
    wrong.write_bytes(msgspec.json.encode({**ORDER, "name": "Other"}))
    assert "version 1, id" in program.run("schema", "register", "cli-value", str(order)).text
    assert "cli-value" in program.run("schema", "list").text
    assert '"name":"Order"' in program.run("schema", "get", "cli-value").text
    check = program.run("schema", "check", "cli-value", str(wrong))
    assert check.code == 1
    assert "not compatible" in check.text
    assert (
        program.run("schema", "compatibility", "cli-value", "--set", "full").text.strip() == "FULL"
    )
    program.run("topic", "create", "cli", "--partitions", "1")
    program.run("produce", "cli", "--schema", "cli-value", "-m", '{"id": 5}')
    bad = program.run("produce", "cli", "--schema", "cli-value", "-m", '{"id": "x"}')
    assert bad.code != 0
    shown = program.run("consume", "cli", "--decode", "--values").text
    assert msgspec.json.decode(shown) == {"id": 5, "item": ""}
    document = msgspec.json.decode(program.run("consume", "cli", "--decode", "-o", "jsonl").text)
    assert msgspec.json.decode(document["value"]) == {"id": 5, "item": ""}
    deleted = program.run("schema", "delete", "cli-value", "--force").text
    assert deleted.strip() == "deleted cli-value 1"


def test_the_command_line_takes_versions_files_and_levels_in_every_form(
    server: ServerProcess, tmp_path: Path
) -> None:
    program = Program(server.url, tmp_path)
    order, wider = tmp_path / "order.avsc", tmp_path / "wider.avsc"
    order.write_bytes(msgspec.json.encode(ORDER))
    more = {"name": "more", "type": "int", "default": 0}
    wider.write_bytes(msgspec.json.encode({**ORDER, "fields": [*ORDER["fields"], more]}))
    assert "version 1" in program.run("schema", "register", "forms", "--file", str(order)).text
    assert "version 2" in program.run("schema", "register", "forms", str(wider)).text
    assert program.run("schema", "check", "forms", "--file", str(order)).code == 0
    listed = program.run("schema", "versions", "forms", "-o", "json").text
    assert msgspec.json.decode(listed) == [1, 2]
    for form in (("1",), ("--version", "1")):
        shown = program.run("schema", "get", "forms", *form, "-o", "json").json()
        assert shown["version"] == 1
    for twice in (
        ("get", "forms", "1", "--version", "1"),
        ("register", "forms", str(order), "--file", str(order)),
        ("register", "forms"),
    ):
        assert program.run("schema", *twice).code == 2
    assert program.run("schema", "config", "set", "full", "forms").text.strip() == "FULL"
    assert program.run("schema", "config", "get", "forms").text.strip() == "FULL"
    assert program.run("schema", "config", "get").text.strip() == "BACKWARD"
    assert program.run("schema", "delete", "forms", "1", "--force").text == "deleted forms 1\n"


_PARCEL = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "place.proto";
message Parcel { map<string, int32> weights = 1; google.protobuf.Timestamp sent_at = 2;
  repeated Stop stops = 3; message Stop { post.Place place = 1; } }
"""


def test_the_command_line_writes_and_reads_protobuf_as_json(
    server: ServerProcess, tmp_path: Path
) -> None:
    program = Program(server.url, tmp_path)
    place, parcel = tmp_path / "place.proto", tmp_path / "parcel.proto"
    place.write_text('syntax = "proto3"; package post; message Place { string city = 1; }')
    parcel.write_text(_PARCEL)
    program.run("schema", "register", "place", str(place))
    using = ("--reference", "place.proto=place:1")
    program.run("schema", "register", "parcels-value", str(parcel), *using)
    program.run("topic", "create", "parcels", "-p", "1", "--set", "schema_validation=true")
    value = {
        "weights": {"box": 3},
        "sentAt": "2026-11-18T09:00:00Z",
        "stops": [{"place": {"city": "Bern"}}],
    }
    text = msgspec.json.encode(value).decode()
    assert program.run("produce", "parcels", "--schema", "parcels-value", "-m", text).code == 0
    bad = program.run("produce", "parcels", "--schema", "parcels-value", "-m", '{"none": 1}')
    assert bad.code != 0
    shown = program.run("consume", "parcels", "--decode", "--values").text
    assert msgspec.json.decode(shown) == value
