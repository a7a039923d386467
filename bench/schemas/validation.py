"""What it costs to validate what is published: raw records of 100 bytes in batches of 1,000."""

import asyncio
from collections.abc import Iterator

import msgspec

from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.wire import Wire, request
from goqueue.model import Message
from goqueue.records import build

__all__ = ["publish"]

_BATCH = 1000
_ROUNDS = 5
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "total", "type": "double"},
        {"name": "note", "type": ["null", "string"]},
    ],
}
_JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "total": {"type": "number"},
        "note": {"type": ["null", "string"]},
    },
    "required": ["id", "customer"],
    "additionalProperties": False,
}
_PROTOBUF = """syntax = "proto3";
message Order { int64 id = 1; string customer = 2; double total = 3; string note = 4; }
"""
_TEXT = b"x" * 35
# A record of 95 bytes behind five bytes of framing, in each language.
_VALUES = {
    "avro": b"\x0e" + b"\x46" + _TEXT + b"\0" * 8 + b"\x02" + b"\x60" + b"y" * 48,
    "protobuf": b"\0\x08\x07\x12\x23" + _TEXT + b"\x19" + b"\0" * 8 + b"\x22\x2b" + b"y" * 43,
    "json": b'{"id":7,"customer":"' + _TEXT[:24] + b'","total":1.5,"note":"' + b"y" * 25 + b'"}',
}
_TARGETS = {
    "avro": Target(ratio_at_least=0.35),
    "json": Target(ratio_at_least=0.25),
    "protobuf": None,
}
_SCHEMAS = {
    "avro": (msgspec.json.encode(_AVRO).decode(), "AVRO"),
    "json": (msgspec.json.encode(_JSON).decode(), "JSON"),
    "protobuf": (_PROTOBUF, "PROTOBUF"),
}


def publish(folder: str, scale: float) -> Iterator[Figure]:
    batches = max(2, int(60 * scale))
    with BrokerProcess(folder) as broker:
        spent = asyncio.run(_measure(broker, batches))
    count = batches * _BATCH * _ROUNDS
    for name, (plain, validated) in spent.items():
        raw, ours = sum(plain), sum(validated)
        yield Figure(
            figure=f"publish_{name}",
            value=round(count / ours) if ours else 0,
            unit="messages/cpu s",
            raw=round(count / raw) if raw else 0,
            ratio=round(raw / ours, 3) if ours else None,
            target=_TARGETS[name],
            details={"us_per_message": round((ours - raw) / count * 1e6, 2)},
        )


async def _measure(
    broker: BrokerProcess, batches: int
) -> dict[str, tuple[list[float], list[float]]]:
    wire = await Wire.open(broker.port)
    await wire.ask("GET", "/readyz")
    spent: dict[str, tuple[list[float], list[float]]] = {}
    for name, (text, type_) in _SCHEMAS.items():
        for topic, is_validating in ((f"{name}-plain", False), (name, True)):
            settings = {"num_partitions": 1, "schema_validation": is_validating}
            await wire.ask("POST", "/topics", {"name": topic, **settings})
        at = f"/schemas/subjects/{name}-value/versions"
        registered = await wire.ask("POST", at, {"schema": text, "schemaType": type_})
        value = b"\0" + registered["id"].to_bytes(4) + _VALUES[name]
        batch = bytes(build([Message(value=value)] * _BATCH))
        plain, validated = spent[name] = ([], [])
        for _ in range(_ROUNDS):
            for topic, times in ((f"{name}-plain", plain), (name, validated)):
                prepared = request("POST", f"/topics/{topic}/records", batch)
                usage = broker.usage
                for _ in range(batches):
                    await wire.send(prepared)
                times.append(usage.cpu_s)
    wire.close()
    return spent
