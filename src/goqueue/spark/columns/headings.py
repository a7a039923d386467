"""Headers of many rows at once: found by name, matched, and read as facts about dead letters."""

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.records.arrow import Frame, Strings
from goqueue.spark.decoding import PREFIX
from goqueue.spark.options import Match

__all__ = ["Headings", "is_match", "strings"]

_PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TIME = pa.timestamp("us", tz="UTC")
_FACTS: dict[str, tuple[str, pa.DataType]] = {
    "origin_topic": ("topic", pa.string()),
    "origin_partition": ("partition", pa.int32()),
    "origin_offset": ("offset", pa.int64()),
    "origin_group": ("group", pa.string()),
    "deliveries": ("deliveries", pa.int32()),
    "cause": ("cause", pa.string()),
    "reason": ("reason", pa.string()),
    "died_at": ("time", _TIME),
}


def strings(kind: pa.DataType, count: int, column: Strings) -> pa.Array:
    """The column as pyarrow has it, in the same memory."""
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, count, buffers)


def is_match(texts: pa.Array, match: Match) -> pa.Array:
    """Which texts are equal to, or begin with; a null is no match."""
    if match.is_prefix:
        found = pc.starts_with(texts, pattern=match.text)
    else:
        found = pc.equal(texts, pa.scalar(match.text, texts.type))
    return pc.fill_null(found, False)


class Headings:
    """A column of lists of names and values; `rows` are the rows from the first on."""

    def __init__(self, lists: pa.ListArray) -> None:
        self.lists = lists
        # Not flattened: whoever made the lists sees to it that they begin at their first value.
        pairs = lists.values
        self._names = pairs.field(0)
        self._values = pairs.field(1)

    @classmethod
    def of(cls, frame: Frame) -> "Headings":
        count = frame.header_rows[-1]
        names = strings(pa.string(), count, frame.header_names)
        values = strings(pa.binary(), count, frame.header_values)
        rows = pa.Array.from_buffers(
            pa.int32(), frame.count + 1, [None, pa.py_buffer(frame.header_rows)]
        )
        pairs = pa.StructArray.from_arrays([names, values], fields=list(_PAIR))
        return cls(pa.ListArray.from_arrays(rows, pairs))

    def kept(self, mask: pa.Array) -> "Headings":
        """Those of some rows."""
        return Headings(self.lists.filter(mask))

    def column(self, form: str) -> pa.Array:
        """The column as Spark is to see it."""
        if form == "array":
            return self.lists
        return pa.MapArray.from_arrays(self.lists.offsets, self._names, self._values)

    def has(self, name: str, match: Match, rows: pa.Array) -> pa.Array:
        """Which of the rows have a header of this name with such a value."""
        found = pc.and_(pc.equal(self._names, name), is_match(self._values, match))
        parents = pc.list_parent_indices(self.lists)
        return pc.is_in(rows, value_set=parents.filter(found).cast(rows.type))

    def fact(self, column: str, rows: pa.Array) -> pa.Array:
        """A column about dead letters; null in rows that are none, or that say it wrongly."""
        name, kind = _FACTS[column]
        found = pc.equal(self._names, PREFIX + name)
        values = self._values.filter(found)
        if not len(values):
            return pa.nulls(len(rows), kind)
        parents = pc.list_parent_indices(self.lists).filter(found).cast(rows.type)
        return _typed(_texts(values), kind).take(pc.index_in(rows, value_set=parents))


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(texts, pa.string())


def _typed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return texts
    if kind == _TIME:
        return pa.array([_time(text) for text in texts.to_pylist()], _TIME)
    digits = 9 if kind == pa.int32() else 18
    is_number = pc.match_substring_regex(texts, rf"^\d{{1,{digits}}}$")
    return pc.if_else(is_number, texts, pa.scalar(None, pa.string())).cast(kind)


def _time(text: str) -> dt.datetime | None:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
