"""Serializers of confluent-kafka, unmodified, against our registry: all three languages.

`make test-registry` installs the client; without it these tests are skipped, and
`tests/integration/test_http_schemas.py` replays what it sends.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from tests.integration.server_process import serving

registry = pytest.importorskip(
    "confluent_kafka.schema_registry", reason="`make test-registry` installs confluent-kafka"
)
avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
serialization = pytest.importorskip("confluent_kafka.serialization")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("registry") / "data") as server:
        yield f"{server.url}/schema-registry"


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with registry.SchemaRegistryClient({"url": url}) as made:
        yield made


def _context(topic: str) -> Any:  # noqa: ANN401 - as above
    return serialization.SerializationContext(topic, serialization.MessageField.VALUE)


def _record(*fields: str, default: object = None) -> str:
    more = {} if default is None else {"default": default}
    named: list[dict[str, object]] = [{"name": "id", "type": "long"}]
    named += [{"name": each, "type": "string", **more} for each in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": named})


def test_avro_is_registered_found_evolved_and_refused(client: Any) -> None:  # noqa: ANN401 - as above
    context = _context("avro")
    first = avro.AvroSerializer(client, _record())({"id": 3}, context)
    second = avro.AvroSerializer(client, _record("note", default=""))
    written = second({"id": 4, "note": "x"}, context)
    read = avro.AvroDeserializer(client, _record("note", default=""))

    assert read(first, context) == {"id": 3, "note": ""}
    assert read(written, context) == {"id": 4, "note": "x"}
    with pytest.raises(registry.SchemaRegistryError) as refused:
        avro.AvroSerializer(client, _record("must"))({"id": 5, "must": "x"}, context)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    latest = avro.AvroSerializer(
        client, None, conf={"auto.register.schemas": False, "use.latest.version": True}
    )
    assert latest({"id": 4, "note": "x"}, context) == written


def test_json_is_registered_found_evolved_and_refused(client: Any) -> None:  # noqa: ANN401 - as above
    def text(**properties: str) -> str:
        named = {name: {"type": type_} for name, type_ in properties.items()}
        whole = {"type": "object", "properties": named, "additionalProperties": False}
        return json.dumps({"title": "Order", **whole})

    context = _context("json")
    first = json_schema.JSONSerializer(text(id="integer"), client)({"id": 3}, context)
    wider = text(id="integer", note="string")
    written = json_schema.JSONSerializer(wider, client)({"id": 4, "note": "x"}, context)
    read = json_schema.JSONDeserializer(wider, schema_registry_client=client)

    assert read(first, context) == {"id": 3}
    assert read(written, context) == {"id": 4, "note": "x"}
    with pytest.raises(registry.SchemaRegistryError) as refused:
        json_schema.JSONSerializer(text(id="string"), client)({"id": "x"}, context)
    assert refused.value.http_status_code == 409


def _order(**types: int) -> type[Message]:
    """A generated class with an import, a map, a oneof, an enum and a nested message."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    optional, repeated = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    for number, (name, type_) in enumerate(types.items(), 10):
        order.field.add(name=name, number=number, type=type_, label=optional)
    time = ".google.protobuf.Timestamp"
    message, enum = kinds.TYPE_MESSAGE, kinds.TYPE_ENUM
    order.field.add(name="at", number=1, type=message, type_name=time, label=optional)
    state = file.enum_type.add(name="State")
    state.value.add(name="STATE_UNKNOWN", number=0)
    state.value.add(name="STATE_PAID", number=1)
    order.field.add(name="state", number=2, type=enum, type_name=".shop.State", label=optional)
    item = order.nested_type.add(name="Item")
    item.field.add(name="sku", number=1, type=kinds.TYPE_STRING, label=optional)
    inner = ".shop.Order.Item"
    order.field.add(name="items", number=3, type=message, type_name=inner, label=repeated)
    order.oneof_decl.add(name="paid_by")
    for number, name in ((4, "card"), (5, "cash")):
        field = order.field.add(name=name, number=number, type=kinds.TYPE_INT64, label=optional)
        field.oneof_index = 0
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=optional)
    entry.field.add(name="value", number=2, type=kinds.TYPE_STRING, label=optional)
    pairs = ".shop.Order.TagsEntry"
    order.field.add(name="tags", number=6, type=message, type_name=pairs, label=repeated)
    pool = descriptor_pool.DescriptorPool()
    time_file = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName("google/protobuf/timestamp.proto").CopyToProto(
        time_file
    )
    pool.Add(time_file)
    pool.Add(file)
    made: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return made


def test_protobuf_is_registered_found_evolved_and_refused(client: Any) -> None:  # noqa: ANN401 - as above
    kinds = descriptor_pb2.FieldDescriptorProto
    context = _context("protobuf")
    old, new = _order(note=kinds.TYPE_STRING), _order(note=kinds.TYPE_STRING, sum=kinds.TYPE_INT64)
    value = old(state=1, items=[{"sku": "a"}], card=7, tags={"k": "v"}, note="x")
    first = protobuf.ProtobufSerializer(old, client)(value, context)
    wider = new(state=1, cash=7, sum=9)
    written = protobuf.ProtobufSerializer(new, client)(wider, context)
    read = protobuf.ProtobufDeserializer(new, schema_registry_client=client)

    assert read(first, context).tags == {"k": "v"}
    assert read(first, context).items[0].sku == "a"
    assert read(written, context) == wider
    other = _order(note=kinds.TYPE_INT32)
    with pytest.raises(registry.SchemaRegistryError) as refused:
        protobuf.ProtobufSerializer(other, client)(other(note=1), context)
    assert refused.value.http_status_code == 409
    # As with the original: text for people, the descriptor for those who ask for it.
    assert "message Order" in client.get_version("protobuf-value", 1).schema.schema_str
    serialized = client.get_version("protobuf-value", 1, fmt="serialized").schema
    again = client.register_schema("again-value", serialized)
    assert again == client.get_version("protobuf-value", 1).schema_id


def test_lookups_levels_and_deletions_answer_as_the_original(client: Any) -> None:  # noqa: ANN401 - as above
    schema = registry.Schema(_record(), "AVRO")
    id_ = client.register_schema("orders-value", schema)

    assert client.get_schema(id_).schema_str == _record()
    assert client.lookup_schema("orders-value", schema).version == 1
    assert client.get_versions("orders-value") == [1]
    assert client.test_compatibility("orders-value", registry.Schema(_record("must"))) is False
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility("orders-value", "FULL")
    assert client.get_compatibility("orders-value") == "FULL"
    cases: tuple[tuple[Callable[[], object], int], ...] = (
        (lambda: client.get_latest_version("none"), 40401),
        (lambda: client.get_version("orders-value", 9), 40402),
        (lambda: client.lookup_schema("orders-value", registry.Schema('"int"')), 40403),
        (lambda: client.get_schema(99_999), 40403),
        (lambda: client.get_compatibility("none"), 40408),
    )
    for missing, code in cases:
        with pytest.raises(registry.SchemaRegistryError) as refused:
            missing()
        assert (refused.value.http_status_code, refused.value.error_code) == (404, code)
    with pytest.raises(registry.SchemaRegistryError) as refused:
        client.register_schema("bad-value", registry.Schema('{"type": "recor"}', "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42201)
    assert client.delete_subject("orders-value") == [1]
    assert client.delete_subject("orders-value", permanent=True) == [1]


def test_the_client_for_java_finds_what_it_registered(url: str) -> None:
    jars = Path("build/registry")
    if shutil.which("java") is None or not any(jars.glob("kafka-schema-registry-client-*.jar")):
        pytest.skip("needs Java, and kafka-schema-registry-client with its jars in build/registry")
    source = Path(__file__).with_name("RegistryClient.java")
    subprocess.run(
        ["java", "-cp", f"{jars}/*", str(source), url], check=True, timeout=60, capture_output=True
    )
