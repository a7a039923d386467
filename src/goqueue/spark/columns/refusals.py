"""Rows that no topic takes, as dead letters: what can be kept of them, and why they were refused.

A letter fits the dead-letter topic whatever the row was: a value is cut, a key or headers that no
record can have are left out, and headers say so. It names no partition and no offset, because the
row never had any; so nobody redrives it by mistake.
"""

import datetime as dt

import pyarrow as pa

from goqueue.model import GIVEN_HEADERS_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX
from goqueue.spark.decoding import PREFIX

__all__ = ["refused_row"]

_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_RESERVED = b"gq."
_REASON_MAX = 1000
# Kept free for the headers of a letter.
_FACTS_BYTES_MAX = 4096

HeaderPairs = list[tuple[str, bytes]]


def refused_row(
    row: pa.RecordBatch, topic: str, reason: str, now: dt.datetime, bytes_max: int
) -> pa.RecordBatch:
    """The letter of a single row that `topic` did not take, in at most `bytes_max`."""
    given = row.to_pylist()[0]
    facts = {
        "topic": topic,
        "group": "spark",
        "time": now.astimezone(dt.UTC).isoformat().replace("+00:00", "Z"),
        "cause": "rejected",
        "reason": reason[:_REASON_MAX],
    }
    key = _bytes(given.get("key"))
    if key and (len(key) > KEY_BYTES_MAX or key.startswith(_RESERVED)):
        facts["key-dropped"] = str(len(key))
        key = None
    headers = _pairs(given.get("headers"))
    kept = [
        each for each in headers if each[0] and not each[0].startswith((_RESERVED.decode(), PREFIX))
    ]
    if _size(kept) > GIVEN_HEADERS_BYTES_MAX - _FACTS_BYTES_MAX:
        kept = []
    if len(kept) < len(headers):
        facts["headers-dropped"] = str(len(headers) - len(kept))
    value = _bytes(given.get("value"))
    room = min(VALUE_BYTES_MAX, bytes_max - len(key or b"") - _size(kept) - _FACTS_BYTES_MAX)
    if value is not None and len(value) > room:
        facts["value-bytes"] = str(len(value))
        value = value[: max(0, room)]
    pairs = kept + [(PREFIX + name, fact.encode()) for name, fact in facts.items()]
    columns = {
        "key": pa.array([key], pa.binary()),
        "value": pa.array([value], pa.binary()),
        "headers": pa.array([[{"key": name, "value": fact} for name, fact in pairs]], _PAIRS),
    }
    return pa.RecordBatch.from_pydict(columns)


def _bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    assert value is None or isinstance(value, bytes)
    return value


def _pairs(headers: object) -> HeaderPairs:
    """Of a map as pairs, of an array as structs."""
    found: HeaderPairs = []
    for each in headers if isinstance(headers, list) else ():
        name, value = each.values() if isinstance(each, dict) else each
        found.append((name or "", _bytes(value) or b""))
    return found


def _size(pairs: HeaderPairs) -> int:
    return sum(4 + len(name.encode()) + len(value) for name, value in pairs)
