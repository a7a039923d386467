"""The columns of a read: which, in which order, and what `value` is made of.

Owns the names of columns. What is contradictory is refused here: a column that is asked for and
left out, or a way of decoding for a value that is not read.
"""

import msgspec
from pyspark.sql.types import StructType

from goqueue.spark.decoding import LETTER, SchemaInvalid, schema_of
from goqueue.spark.options.given import Given, OptionInvalid

__all__ = ["BASE", "ORIGIN", "Decoding", "Shape", "shape_of"]

BASE = ("topic", "partition", "offset", "timestamp", "key", "value", "priority")
HEADERS = "headers"
ORIGIN = (
    "origin_topic",
    "origin_partition",
    "origin_offset",
    "origin_group",
    "deliveries",
    "cause",
    "reason",
    "died_at",
)
_LATER = ("avro", "protobuf")
_ONLY_DECODED = ("valueSchema", "mode", "corruptColumn")


class Decoding(msgspec.Struct, frozen=True, kw_only=True):
    """What values are, and what becomes of one that is something else.

    Letters name `reader` as the group that could not read them.
    """

    schema: StructType
    mode: str = "PERMISSIVE"
    corrupt_column: str | None = None
    dlq_topic: str | None = None
    reader: str = "spark"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of what is read, in order."""

    columns: tuple[str, ...] = BASE
    headers_as: str = "map"
    decoding: Decoding | None = None

    @property
    def has_origin(self) -> bool:
        return any(name in self.columns for name in ORIGIN)


def shape_of(given: Given) -> Shape:
    decoding = _decoding(given)
    columns = _columns(given, decoding)
    if given.text("headersAs") is not None and HEADERS not in columns:
        raise OptionInvalid("headersAs", "needs `includeHeaders`")
    return Shape(
        columns=columns,
        headers_as=given.choice("headersAs", ("map", "array")),
        decoding=decoding,
    )


def _columns(given: Given, decoding: Decoding | None) -> tuple[str, ...]:
    has_headers = given.flag("includeHeaders", False)
    has_origin = given.flag("includeOrigin", False)
    extra = None
    if decoding is not None:
        extra = LETTER if decoding.mode == "DLQ" else decoding.corrupt_column
    most = (*BASE, HEADERS, *ORIGIN, *(() if extra is None else (extra,)))
    text = given.text("columns")
    if text is None:
        wanted = {*BASE, extra}
        wanted |= {HEADERS} if has_headers else set()
        wanted |= set(ORIGIN) if has_origin else set()
        return tuple(name for name in most if name in wanted)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in most:
            raise OptionInvalid("columns", f"{name!r} is none of {', '.join(most)}")
    if len(set(names)) < len(names):
        raise OptionInvalid("columns", "names a column twice")
    if has_headers and HEADERS not in names:
        raise OptionInvalid("includeHeaders", "contradicts `columns`, which leaves `headers` out")
    if has_origin and not set(ORIGIN) & set(names):
        raise OptionInvalid("includeOrigin", "contradicts `columns`, which leaves its columns out")
    if decoding is not None and "value" not in names:
        raise OptionInvalid("valueFormat", "contradicts `columns`, which leaves `value` out")
    if extra == LETTER and LETTER not in names:
        raise OptionInvalid("columns", f"leaves out `{LETTER}`, which mode `DLQ` is for")
    return names


def _decoding(given: Given) -> Decoding | None:
    kind = given.choice("valueFormat", ("raw", "json", *_LATER))
    if kind in _LATER:
        raise OptionInvalid("valueFormat", f"{kind} comes with the schema registry")
    if given.text("schemaSubject") is not None:
        raise OptionInvalid("schemaSubject", "comes with the schema registry")
    mode = given.choice("mode", ("PERMISSIVE", "FAILFAST", "DLQ"))
    dlq_topic = given.name("dlqTopic")
    if (mode == "DLQ") is not (dlq_topic is not None):
        wrong = "dlqTopic" if mode == "DLQ" else "mode"
        raise OptionInvalid(wrong, "mode `DLQ` and `dlqTopic` go together")
    if kind == "raw":
        for name in _ONLY_DECODED:
            if given.text(name) is not None:
                raise OptionInvalid(name, "needs `valueFormat=json`")
        return None
    text = given.text("valueSchema")
    if text is None:
        raise OptionInvalid("valueSchema", "is missing: `valueFormat` is json")
    try:
        schema = schema_of(text)
    except SchemaInvalid as error:
        raise OptionInvalid("valueSchema", str(error)) from error
    return Decoding(
        schema=schema,
        mode=mode,
        corrupt_column=_corrupt_column(given, mode),
        dlq_topic=dlq_topic,
        reader=given.name("groupId") or "spark",
    )


def _corrupt_column(given: Given, mode: str) -> str | None:
    name = given.text("corruptColumn")
    if mode != "PERMISSIVE":
        if name is not None:
            raise OptionInvalid("corruptColumn", f"contradicts mode `{mode}`")
        return None
    name = name or "_corrupt"
    if name in (*BASE, HEADERS, *ORIGIN) or "," in name:
        raise OptionInvalid("corruptColumn", f"{name!r} is the name of another column")
    return name
