"""A pipeline as its file tells it: where rows come from, what becomes of them, where they go.

Values only. The words on each field are its line in the reference, so they are written for the
people who write such files. Never imports Spark: what can be judged without it is judged in
`checks`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

__all__ = [
    "SOURCE",
    "Decode",
    "Expectation",
    "Pipeline",
    "Sink",
    "Source",
    "Step",
    "Watermark",
]

# The view that `source:` is read as.
SOURCE = "source"

_Topics = Annotated[
    list[str] | str,
    msgspec.Meta(
        description="A topic, or a list of topics, to read; or give the option `assign` or "
        "`subscribePattern`."
    ),
]
_Options = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="Options of the connector, see spark-options.md. Lists and mappings become "
        "JSON. The server is that of the command line unless `goqueue.servers` is given."
    ),
]


class Decode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What values are; without it `value` is bytes, with it a struct: `value.id`."""

    schema: Annotated[
        str,
        msgspec.Meta(description="The fields as Spark writes them: `id BIGINT, at TIMESTAMP`."),
    ]
    format: Annotated[Literal["json"], msgspec.Meta(description="The form of values.")] = "json"
    mode: Annotated[
        Literal["permissive", "failfast", "dlq"],
        msgspec.Meta(
            description="Values that are not so: `value` is null and `_corrupt` has the bytes "
            "(`permissive`), the pipeline fails (`failfast`), or they go to `dead_letters` in the "
            "same transaction as the result (`dlq`, for the sink `topic`)."
        ),
    ] = "permissive"
    dead_letters: Annotated[
        str | None, msgspec.Meta(description="The topic of records that cannot be decoded.")
    ] = None


class Watermark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How late rows may come; aggregates by time are final when it has passed."""

    column: Annotated[
        str,
        msgspec.Meta(
            description="The column with the time of the event; a field `value.at` becomes the "
            "column `at`."
        ),
    ]
    delay: Annotated[str, msgspec.Meta(description="How long to wait: `10 minutes`.")]


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Topics that are read as one view."""

    topics: _Topics | None = None
    options: _Options = {}
    decode: Annotated[Decode | None, msgspec.Meta(description="What values are, see below.")] = None
    watermark: Annotated[
        Watermark | None, msgspec.Meta(description="How late rows may come, see below.")
    ] = None

    @property
    def topic_names(self) -> list[str]:
        """The topics that are named; none where a pattern or partitions are."""
        given = self.topics.split(",") if isinstance(self.topics, str) else self.topics or []
        return [name.strip() for name in given]


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One transformation; its result is a view by its name, and the last one goes to the sink."""

    name: Annotated[str, msgspec.Meta(description="The name by which later steps select from it.")]
    sql: Annotated[
        str | None,
        msgspec.Meta(description="A SELECT over the view `source` and the steps before."),
    ] = None
    python: Annotated[
        str | None,
        msgspec.Meta(
            description="`module:function`, which is given the DataFrame of the step before and "
            "gives one back. The module is found in the folder of the file, too."
        ),
    ] = None


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that should be true of every row of a step."""

    name: Annotated[str, msgspec.Meta(description="The name under which violations are counted.")]
    that: Annotated[
        str, msgspec.Meta(description="A condition in SQL. A row for which it is null violates it.")
    ]
    on_violation: Annotated[
        Literal["warn", "drop", "fail"],
        msgspec.Meta(
            description="`warn` counts, `drop` leaves the row out as well, `fail` ends the "
            "pipeline before anything of the batch is seen."
        ),
    ] = "warn"
    step: Annotated[
        str | None,
        msgspec.Meta(description="Whose rows; the result of the last step if not given."),
    ] = None


class Sink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the result goes: exactly one of `topic`, `parquet` and `console`."""

    topic: Annotated[
        str | None,
        msgspec.Meta(
            description="A topic, written exactly once; `*` if the rows name it in a column "
            "`topic`. Other columns: `value`, `key`, `headers`, `partition`, `priority`, …"
        ),
    ] = None
    encode: Annotated[
        Literal["raw", "json"],
        msgspec.Meta(
            description="`raw` writes the column `value`; `json` makes it of all columns that the "
            "connector does not know."
        ),
    ] = "raw"
    key: Annotated[
        str | None, msgspec.Meta(description="The key of a row as an expression in SQL.")
    ] = None
    options: Annotated[
        dict[str, Any],
        msgspec.Meta(description="Options of the connector, or of Spark's Parquet writer."),
    ] = {}
    parquet: Annotated[
        str | None,
        msgspec.Meta(
            description="A folder of Parquet files, one file per batch and partition value; "
            "relative to the file. Exactly once for those who read it with Spark."
        ),
    ] = None
    partition_by: Annotated[
        list[str], msgspec.Meta(description="Columns that become folders; for `parquet`.")
    ] = []
    console: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=1000)] | None,
        msgspec.Meta(description="Show so many rows of every batch as a table."),
    ] = None


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file: sources, steps, one sink."""

    name: Annotated[
        str, msgspec.Meta(description="The name of the pipeline: letters, digits, `.`, `_`, `-`.")
    ]
    description: Annotated[str, msgspec.Meta(description="A line for `pipeline list`.")] = ""
    source: Annotated[
        Source | None, msgspec.Meta(description="What is read, as the view `source`.")
    ] = None
    sources: Annotated[
        dict[str, Source],
        msgspec.Meta(description="Instead of `source`: several, each a view by its name."),
    ] = {}
    steps: Annotated[
        list[Step], msgspec.Meta(description="What is made of it, one after another.")
    ] = []
    expectations: Annotated[
        list[Expectation], msgspec.Meta(description="What should be true of rows.")
    ] = []
    sink: Annotated[Sink, msgspec.Meta(description="Where the result goes.")]
    output_mode: Annotated[
        Literal["append", "update", "complete"],
        msgspec.Meta(
            description="Which rows of an aggregate are written: final ones, changed ones, all."
        ),
    ] = "append"
    trigger: Annotated[
        str | None,
        msgspec.Meta(
            description="When a batch begins: an interval such as `5 seconds`, `available_now` "
            "(all that is there in portions, then end), `once` (in one batch, then end). By "
            "default when the last one is done; for `parquet` every minute, so that files do "
            "not become many."
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        msgspec.Meta(
            description="The folder that remembers what is done, relative to the file; by default "
            "`_pipelines/NAME` beside it. Without it the pipeline begins anew."
        ),
    ] = None
    group: Annotated[
        str | None,
        msgspec.Meta(
            description="A group of the broker that is told how far the pipeline is, so that its "
            "lag is seen there. Only shown: the checkpoint decides."
        ),
    ] = None
    observe: Annotated[
        dict[str, str],
        msgspec.Meta(description="Aggregates of every batch of the result, by name: `sum(x)`."),
    ] = {}
    configuration: Annotated[
        dict[str, str | int | float | bool],
        msgspec.Meta(description="Settings of Spark: `spark.…`."),
    ] = {}

    @property
    def views(self) -> Mapping[str, Source]:
        """The sources by the names of their views."""
        return self.sources if self.source is None else {SOURCE: self.source}

    @property
    def topic_names(self) -> list[str]:
        """Every topic that is read, in order."""
        found = {name for source in self.views.values() for name in source.topic_names}
        return sorted(found)
