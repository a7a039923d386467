"""Frames as record batches for Spark: the columns asked for, of the rows asked for.

Copies nothing but rows of which a filter left some out. Filters come first, so that nothing is
decoded in vain.

Invariant: every batch has the schema that Spark was told, to the last type.
"""

import datetime as dt
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.records.arrow import Frame
from goqueue.spark.columns.headings import Headings, is_match, strings
from goqueue.spark.columns.kinds import arrow_schema
from goqueue.spark.decoding import LETTER, Decoded, JsonValues, Origin, letter_headers
from goqueue.spark.options import ORIGIN, Filters, Shape

__all__ = ["Batches", "Undecodable"]

_TIME = pa.timestamp("us", tz="UTC")
_LIFTED = ("offset", "timestamp", "key", "value", "priority")


class Undecodable(ValueError):
    """A value that is not as `valueSchema` says, read with mode `FAILFAST`."""


class Batches:
    """Makes batches of one partition's frames."""

    def __init__(
        self,
        shape: Shape,
        filters: Filters,
        topic: str,
        partition: int,
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._shape = shape
        self._filters = filters
        self._topic = topic
        self._partition = partition
        self._clock = clock
        self._schema = arrow_schema(shape)
        decoding = shape.decoding
        self._values = None if decoding is None else JsonValues(decoding.schema)
        self._has_letters = decoding is not None and decoding.mode == "DLQ"
        wanted = {*shape.columns, *(("key", "priority") if self._has_letters else ())}
        self._lifted = [name for name in _LIFTED if name in wanted or name == "offset"]
        self._same: dict[str, pa.Array] = {}

    @property
    def needs_keys(self) -> bool:
        return "key" in self._lifted or bool(self._filters.keys)

    @property
    def needs_values(self) -> bool:
        return "value" in self._lifted

    @property
    def needs_headers(self) -> bool:
        is_shown = "headers" in self._shape.columns or self._shape.has_origin
        return is_shown or self._has_letters or bool(self._filters.headers)

    def batch(self, frame: Frame) -> pa.RecordBatch:
        """The rows of a frame that are wanted, which may be none."""
        columns = {name: _lifted(frame, name) for name in self._lifted}
        headings = Headings.of(frame) if self.needs_headers else None
        count = frame.count
        mask = self._mask(frame, headings)
        if mask is not None:
            columns = {name: column.filter(mask) for name, column in columns.items()}
            headings = None if headings is None else headings.kept(mask)
            count = len(columns["offset"])
        if headings is not None:
            columns |= self._of_headers(headings, count)
        if self._values is not None:
            columns |= self._decoded(self._values.decode(columns["value"]), columns, headings)
        columns["topic"] = self._constant("topic", self._topic, pa.string(), count)
        columns["partition"] = self._constant("partition", self._partition, pa.int32(), count)
        arrays = [columns[name] for name in self._shape.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _mask(self, frame: Frame, headings: Headings | None) -> pa.Array | None:
        """Which rows are wanted; None if all are."""
        masks: list[pa.Array] = []
        if self._filters.keys:
            keys = _lifted(frame, "key")
            found = is_match(keys, self._filters.keys[0])
            for match in self._filters.keys[1:]:
                found = pc.or_(found, is_match(keys, match))
            masks.append(found)
        if headings is not None:
            rows = self._rows(frame.count) if self._filters.headers else None
            masks += [headings.has(*wanted, rows) for wanted in self._filters.headers]
        if not masks:
            return None
        mask = masks[0]
        for each in masks[1:]:
            mask = pc.and_(mask, each)
        return mask

    def _of_headers(self, headings: Headings, count: int) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for name in self._shape.columns:
            if name == "headers":
                columns[name] = headings.column(self._shape.headers_as)
            elif name in ORIGIN:
                columns[name] = headings.fact(name, self._rows(count))
        return columns

    def _decoded(
        self, decoded: Decoded, columns: dict[str, pa.Array], headings: Headings | None
    ) -> dict[str, pa.Array]:
        """The value, and what mode wants besides for those that are none."""
        decoding = self._shape.decoding
        assert decoding is not None
        if decoded.faults and decoding.mode == "FAILFAST":
            index, reason = next(iter(decoded.faults.items()))
            where = f"{self._topic}/{self._partition} offset {columns['offset'][index]}"
            raise Undecodable(f"the value at {where} is not as `valueSchema` says: {reason}")
        made = {"value": decoded.column}
        if decoding.corrupt_column is not None:
            made[decoding.corrupt_column] = _only(columns["value"], decoded.faults)
        if self._has_letters:
            made[LETTER] = self._letters(decoded.faults, columns, headings)
        return made

    def _letters(
        self, faults: dict[int, str], columns: dict[str, pa.Array], headings: Headings | None
    ) -> pa.Array:
        decoding = self._shape.decoding
        assert decoding is not None
        assert headings is not None
        kind = self._schema.field(LETTER).type
        count = len(columns["value"])
        if not faults:
            return pa.nulls(count, kind)
        now = self._clock()
        letters: list[dict[str, Any] | None] = [None] * count
        for index, reason in faults.items():
            origin = Origin(
                topic=self._topic,
                partition=self._partition,
                offset=columns["offset"][index].as_py(),
                group=decoding.reader,
                reason=reason,
            )
            given = [(each["key"], each["value"]) for each in headings.lists[index].as_py()]
            pairs = letter_headers(origin, given, now)
            # A map in Spark has each name once.
            is_map = self._shape.headers_as == "map"
            letters[index] = {
                "topic": decoding.dlq_topic,
                "key": columns["key"][index].as_py(),
                "value": columns["value"][index].as_py(),
                "headers": list(dict(pairs).items())
                if is_map
                else [{"key": name, "value": value} for name, value in pairs],
                "priority": columns["priority"][index].as_py(),
            }
        return pa.array(letters, kind)

    def _constant(self, name: str, value: object, kind: pa.DataType, count: int) -> pa.Array:
        """The same in each row; made once for the longest batch so far."""
        made = self._same.get(name)
        if made is None or len(made) < count:
            made = self._same[name] = pa.repeat(pa.scalar(value, kind), count)
        return made.slice(0, count)

    def _rows(self, count: int) -> pa.Array:
        made = self._same.get("")
        if made is None or len(made) < count:
            made = self._same[""] = pa.array(range(count), pa.int64())
        return made.slice(0, count)


def _only(values: pa.Array, rows: Collection[int]) -> pa.Array:
    """The values of some rows, null in all others."""
    if not rows:
        return pa.nulls(len(values), values.type)
    texts: list[bytes | None] = [None] * len(values)
    for row in rows:
        texts[row] = values[row].as_py()
    return pa.array(texts, values.type)


def _lifted(frame: Frame, name: str) -> pa.Array:
    count = frame.count
    if name == "offset":
        return _numbers(pa.int64(), count, frame.offsets)
    if name == "timestamp":
        return _numbers(_TIME, count, frame.timestamps)
    if name == "priority":
        return _numbers(pa.int32(), count, frame.priorities)
    column = frame.keys if name == "key" else frame.values
    assert column is not None, f"{name} was asked for"
    return strings(pa.binary(), count, column)


def _numbers(kind: pa.DataType, count: int, numbers: object) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)])
