"""Topics that validate refuse bad values, whichever way they come."""

import io

import fastavro
import msgspec
import pytest

from goqueue.metrics import Histogram
from goqueue.model import (
    NONCONFORMING,
    Code,
    DeleteSchema,
    Message,
    Refused,
    RegisterSchema,
    SchemaDescription,
    SchemaText,
    SchemaType,
    VersionList,
)
from goqueue.model.requests import (
    CreateTopic,
    ProducerStamp,
    Publish,
    Published,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
JSON = {
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}


def _node(schema: object = AVRO, kind: SchemaType = SchemaType.AVRO) -> DrivenNode:
    node = DrivenNode()
    topic = CreateTopic(name="orders", partitions=1, config=TopicConfig(schema_validation=True))
    node.ask(topic, TopicDescription)
    if schema is not None:
        _register(node, schema, kind)
    return node


def _register(node: DrivenNode, schema: object, kind: SchemaType, subject: str = "orders") -> int:
    text = SchemaText(type=kind, text=msgspec.json.encode(schema).decode())
    return node.ask(RegisterSchema(subject=subject, schema=text), SchemaDescription).id


def _framed(id_: int, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), value)
    return b"\0" + id_.to_bytes(4) + out.getvalue()


def _publish(node: DrivenNode, *values: bytes | None, **more: object) -> Published:
    batch = build([Message(value=value) for value in values])
    command = msgspec.structs.replace(Publish(topic="orders", batch=batch), **more)
    return node.ask(command, Published)


def _code(node: DrivenNode, *values: bytes | None, **more: object) -> Refused:
    with pytest.raises(Refused) as refused:
        _publish(node, *values, **more)
    return refused.value


def test_values_in_registry_framing_are_checked_against_their_id() -> None:
    node = _node()
    good, bad = _framed(1, {"id": 1, "note": "x"}), _framed(1, {"id": 1, "note": "x"})[:-1]
    published = _publish(node, good, bad, good)
    assert published.targets == [0, NONCONFORMING, 0]
    assert [(each.first, each.count) for each in published.placed] == [(0, 2)]
    assert published.violations[1].code is Code.SCHEMA_VIOLATION
    assert published.violations[1].path == "/note"
    assert "beyond its end" in published.violations[1].reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id": 1}', "not in registry framing"),
        (b"\0\0\0\0\x09\0", "schema id 9"),
        (b"\0\0\0", "not in registry framing"),
        (b"\0\0\0\0\x01", "ends too early"),
        (b"\0\0\0\0\x01\x02\x04", "branch 2, of 2"),
        (b"\0\0\0\0\x01\x02\x00\x00", "1 bytes more"),
    ],
)
def test_a_value_that_does_not_conform_is_refused_with_a_reason(value: bytes, reason: str) -> None:
    node = _node()
    published = _publish(node, value)
    assert published.targets == [NONCONFORMING]
    assert reason in published.violations[0].reason


def test_null_values_pass() -> None:
    assert _publish(_node(), None).targets == [0]


def test_without_a_subject_every_value_is_refused() -> None:
    node = _node(None)
    published = _publish(node, b"x", None)
    assert published.targets == [NONCONFORMING, 0]
    assert published.violations[0].code is Code.SUBJECT_NOT_FOUND


def test_json_without_framing_is_checked_against_the_latest_version() -> None:
    node = _node(JSON, SchemaType.JSON)
    published = _publish(node, b'{"id": 1}', b'{"id": "x"}', b"{", b"\0\0\0\0\x01" + b'{"id": 2}')
    assert published.targets == [0, NONCONFORMING, NONCONFORMING, 0]
    assert published.violations[1].path == "/id"
    assert "not JSON" in published.violations[2].reason


def test_the_subject_of_values_is_used_if_there_is_none_of_the_topic() -> None:
    node = _node(None)
    _register(node, JSON, SchemaType.JSON, "orders-value")
    assert _publish(node, b'{"id": 1}').targets == [0]
    _register(node, {"type": "string"}, SchemaType.JSON, "orders")
    assert _publish(node, b'{"id": 1}').targets == [NONCONFORMING]


def test_an_id_whose_version_was_deleted_is_no_longer_taken() -> None:
    node = _node()
    _register(node, {**AVRO, "doc": "second"}, SchemaType.AVRO)
    value = _framed(1, {"id": 1})
    assert _publish(node, value).targets == [0]
    node.ask(DeleteSchema(subject="orders", version=1), VersionList)
    assert _publish(node, value).targets == [NONCONFORMING]


def test_what_is_stored_as_a_whole_is_refused_as_a_whole() -> None:
    """Raw records and numbered batches: as `POST /topics/{topic}/records` sends them."""
    node = _node(JSON, SchemaType.JSON)
    refused = _code(node, b'{"id": 1}', b"[]", is_whole=True)
    assert refused.code is Code.SCHEMA_VIOLATION
    assert refused.facts["index"] == 1
    assert _publish(node, b'{"id": 1}', is_whole=True).placed[0].first == 0


def test_a_foreign_producer_is_refused_before_its_values_are_checked() -> None:
    node = _node(JSON, SchemaType.JSON)
    stamp = ProducerStamp(producer_id=77, epoch=0, sequence=0)
    assert _code(node, b'{"id": 1}', producer=stamp, targets=[0]).code is Code.PRODUCER_NOT_FOUND


def test_order_stays_while_a_validator_is_compiled() -> None:
    node = _node(JSON, SchemaType.JSON)
    requests = [
        node.begin(Publish(topic="orders", batch=build([Message(value=b'{"id": %d}' % number)])))
        for number in range(5)
    ]
    offsets = [node.reply(each, Published).placed[0].first for each in requests]
    assert offsets == list(range(5))


def test_a_large_batch_takes_several_turns_and_is_answered_once() -> None:
    node = _node(JSON, SchemaType.JSON)
    node.turn_units_max = 0
    values = [b'{"id": %d}' % number for number in range(3000)]
    values[2999] = b"[]"
    published = _publish(node, *values)
    assert published.targets.count(0) == 2999
    assert list(published.violations) == [2999]


def test_a_topic_without_validation_takes_anything() -> None:
    node = DrivenNode()
    node.ask(CreateTopic(name="orders", partitions=1), TopicDescription)
    _register(node, AVRO, SchemaType.AVRO)
    assert _publish(node, b"anything").targets == [0]


def test_validation_is_the_same_after_a_restart() -> None:
    node = _node(JSON, SchemaType.JSON)
    node.restart()
    assert _publish(node, b'{"id": 1}', b"[]").targets == [0, NONCONFORMING]


def test_what_was_checked_is_counted_by_result_with_the_time_it_took() -> None:
    node = _node()
    id_ = _register(node, AVRO, SchemaType.AVRO)
    _publish(node, _framed(id_, {"id": 1}), _framed(id_, {"id": 2}), None)
    assert _publish(node, _framed(id_, {"id": 3}), b"no").targets == [0, NONCONFORMING]

    families = {
        each.name: list(filter(None, each.samples))
        for each in node.node.metrics()
        if "schema_validation" in each.name
    }
    counted = families["goqueue_broker_schema_validations_total"]
    assert sorted(counted) == [(("orders", "invalid"), 1), (("orders", "valid"), 4)]
    ((labels, latency),) = families["goqueue_broker_schema_validation_latency_seconds"]
    assert labels == ("orders",)
    assert isinstance(latency, Histogram)
    assert latency.count == 2


def test_values_with_and_without_a_frame_are_checked_in_one_batch() -> None:
    node = _node(JSON, SchemaType.JSON)
    id_ = _register(node, JSON, SchemaType.JSON)
    frame = b"\0" + id_.to_bytes(4)
    values = [
        *(b'{"id": 1}', frame + b'{"id": 1}', None),
        *(b'{"id": ""}', frame + b"{}", b"", b"[]", b"\0", b"\0\0\0\0\x63{}"),
    ]

    assert _publish(node, *values).targets == [0] * 3 + [NONCONFORMING] * 6
