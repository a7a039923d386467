"""The options of `format("goqueue")`, one row each: the only place that names them all.

Which options are known, where each is allowed and the reference page in docs/ follow from these
rows. `python -m goqueue.spark.option_table` prints the page.
"""

import msgspec

__all__ = [
    "BATCH_READ",
    "BATCH_WRITE",
    "OPTIONS",
    "STREAM_READ",
    "STREAM_WRITE",
    "USES",
    "Option",
    "reference",
]

BATCH_READ = "R"
STREAM_READ = "SR"
BATCH_WRITE = "W"
STREAM_WRITE = "SW"
USES = {
    BATCH_READ: "batch reads",
    STREAM_READ: "stream reads",
    BATCH_WRITE: "batch writes",
    STREAM_WRITE: "stream writes",
}

_ALL = tuple(USES)
_READS = (BATCH_READ, STREAM_READ)
_WRITES = (BATCH_WRITE, STREAM_WRITE)
_STREAMS = (STREAM_READ,)
_TABLES = (BATCH_READ,)


class Option(msgspec.Struct, frozen=True):
    """One option. `uses` are those of USES for which it may be given."""

    name: str
    uses: tuple[str, ...]
    default: str
    meaning: str


_CONNECTION = (
    Option(
        "goqueue.servers",
        _ALL,
        "required",
        "`host:port` or URL of a node, or several with commas: the first one that can be reached is"
        " used, and looked for again by the next task when it no longer can. `host:port` after an"
        " `https://` URL is `https://`, too.",
    ),
    Option(
        "goqueue.tokenFile",
        _ALL,
        "none",
        "File with the API key, on the driver and on every executor. The key itself never is an"
        " option: plans and logs show options.",
    ),
    Option(
        "goqueue.tls.caFile",
        _ALL,
        "the system's",
        "Authorities (PEM) that sign the certificate of an `https://` server.",
    ),
    Option(
        "goqueue.tls.certFile",
        _ALL,
        "none",
        "Certificate (PEM) to show to the server, on the driver and on every executor.",
    ),
    Option(
        "goqueue.tls.keyFile",
        _ALL,
        "in `goqueue.tls.certFile`",
        "Private key (PEM) of the certificate, in a file that only its user can read.",
    ),
    Option(
        "goqueue.allowPlaintext",
        _ALL,
        "false",
        "Send the API key over `http://` to another machine, where others may read it.",
    ),
    Option("goqueue.timeoutMs", _ALL, "30000", "How long one request may take."),
    Option(
        "goqueue.retries",
        _ALL,
        "by time",
        "How often a request that failed is sent again; 0 is never. In any case it is given up"
        " after one and a half times `goqueue.timeoutMs`.",
    ),
    Option(
        "goqueue.fetch.maxBytes",
        _READS,
        "8388608",
        "How much one request fetches: 1024 to 16777216. One larger record comes as a whole.",
    ),
)

_TOPICS = (
    Option(
        "subscribe",
        _READS,
        "",
        "Topics, with commas between. Exactly one of `subscribe`, `subscribePattern`, `assign`.",
    ),
    Option(
        "subscribePattern",
        _READS,
        "",
        "Regular expression that the whole name of a topic matches. A stream looks for new topics"
        " at every trigger, and reads them from their beginning.",
    ),
    Option("assign", _READS, "", 'Partitions of topics: `{"orders":[0,2]}`.'),
)

_BOUNDS = (
    Option(
        "startingOffsets",
        _READS,
        "earliest; of a stream latest",
        "`earliest`, `latest`, `committed` (needs `groupId`), `-N` (N records before the end), or"
        ' JSON `{"orders":{"0":23,"1":-1}}`, where -1 is the end and -2 the beginning, as for'
        " partitions that are not named. Of a stream it counts only without a checkpoint.",
    ),
    Option(
        "endingOffsets",
        _TABLES,
        "latest",
        "`latest` or JSON as above; a partition that is not named is read to its end.",
    ),
    Option(
        "startingTimestamp",
        _READS,
        "",
        "Instead of offsets: a time (`2026-11-15T12:00:00Z`, milliseconds since 1970, `-15m`).",
    ),
    Option("endingTimestamp", _TABLES, "", "The time before which a read ends."),
    Option(
        "startingOffsetsByTimestamp",
        _READS,
        "",
        'Milliseconds since 1970 by partition: `{"orders":{"0":1763208000000}}`; partitions that'
        " are not named are read from their beginning.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        _TABLES,
        "",
        "Likewise, where the read of each partition ends; those not named are read to their end.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        _READS,
        "latest",
        "What is done where no record is as late as the time to start at: `latest` starts at the"
        " end, `error` fails.",
    ),
    Option("groupId", _READS, "", "The group whose `committed` offsets are meant."),
    Option(
        "isolation",
        _READS,
        "committed",
        "`committed`: nothing of open or aborted transactions; `uncommitted`: open ones, too.",
    ),
    Option(
        "failOnDataLoss",
        _READS,
        "true",
        "Whether records that are gone (retention, a topic deleted or made anew) fail the query."
        " If `false`, a warning is logged, and reading continues at the first record that exists.",
    ),
)

_PORTIONS = (
    Option(
        "maxOffsetsPerTrigger",
        _STREAMS,
        "none",
        "Offsets per micro-batch, shared by what is left in each partition, one at least for each.",
    ),
    Option("maxRecordsPerTrigger", _STREAMS, "none", "Another name of `maxOffsetsPerTrigger`."),
    Option(
        "maxBytesPerTrigger",
        _STREAMS,
        "none",
        "Bytes per micro-batch, by the mean size of the records.",
    ),
    Option(
        "maxOffsetsPerPartition",
        _STREAMS,
        "none",
        "Offsets per micro-batch of any one partition of a topic.",
    ),
    Option(
        "minOffsetsPerTrigger",
        _STREAMS,
        "none",
        "Wait for this number of offsets before a micro-batch, though not longer than"
        " `maxTriggerDelay`. The first one of a run does not wait. Ignored under `availableNow` and"
        " `once`.",
    ),
    Option(
        "maxTriggerDelay",
        _STREAMS,
        "15m",
        "How long `minOffsetsPerTrigger` may hold back: `500ms`, `30s`, `15m`, `1h`.",
    ),
    Option(
        "minPartitions",
        _READS,
        "none",
        "Ranges are split until there are at least this many tasks.",
    ),
    Option("maxRecordsPerPartition", _READS, "none", "Offsets per task; larger ranges are split."),
    Option(
        "maxBytesPerPartition",
        _READS,
        "R 134217728, SR none",
        "Bytes per task, by the mean size of the records; larger ranges are split. A stream splits"
        " nothing unless asked to: tasks run side by side, and rows of a key that two of them bring"
        " to a topic are no longer in order.",
    ),
    Option("batchRows", _READS, "10000", "Rows of one Arrow batch that a task hands to Spark."),
    Option(
        "batchBytes",
        _READS,
        "4194304",
        "Bytes of one Arrow batch; one larger record is a batch of its own.",
    ),
)

_COLUMNS = (
    Option(
        "columns",
        _READS,
        "all",
        "Columns to read, with commas between, in this order. Others are not built and not sent to"
        " Spark, which cannot prune by itself; they still come from the broker.",
    ),
    Option("includeHeaders", _READS, "false", "Adds the column `headers`."),
    Option(
        "headersAs",
        _READS,
        "map",
        "`map` (MAP<STRING,BINARY>) or `array` (ARRAY<STRUCT<key STRING, value BINARY>>).",
    ),
    Option(
        "includeOrigin",
        _READS,
        "false",
        "For dead letters: adds the columns `origin_topic`, `origin_partition`, `origin_offset`,"
        " `origin_group`, `deliveries`, `cause`, `reason`, `died_at`, null where a record is none.",
    ),
    Option(
        "keyFilter",
        _READS,
        "",
        "Only records with this key: `user-1`, a prefix `user-*` (a last `\\*` is a star), or JSON"
        ' with several, any of which will do: `["user-1","user-2*"]`. Applied by the task that'
        " reads, before rows go to Spark; the broker sends all.",
    ),
    Option(
        "headerFilter",
        _READS,
        "",
        "Only records with this header: `type=order`, `type=order.*`, `type` (whatever its value),"
        ' or JSON with several, all of which must be there: `{"type":"order.*","tenant":"a"}`.'
        " Applied like `keyFilter`.",
    ),
)

_DECODING = (
    Option(
        "valueFormat",
        _ALL,
        "raw",
        "`raw`: `value` is BINARY. `json`: `value` is a struct of the fields of `valueSchema` or of"
        " the schema of `schemaSubject`. `avro` (extra `avro`), `protobuf` (extra `protobuf`):"
        " `value` has the type of the schema of `schemaSubject`, in registry framing. Writing any"
        " of them needs `schemaSubject`.",
    ),
    Option(
        "valueSchema",
        _READS,
        "",
        "The fields of the values, as DDL (`id BIGINT, tags ARRAY<STRING>`) or as Spark's JSON.",
    ),
    Option(
        "schemaSubject",
        _ALL,
        "",
        "The subject of the registry whose schema `value` has. Reading: values of every version are"
        " read into that schema, which is fixed when the DataFrame is loaded. Writing: `value` is"
        " encoded with it, and a row in which the column `raw_value` (BINARY) is not null is"
        " written as that says.",
    ),
    Option(
        "schemaVersion",
        _ALL,
        "latest",
        "Version of the subject: a number, or `latest`. Of a stream that writes, the latest one"
        " when a micro-batch begins.",
    ),
    Option(
        "messageName",
        _ALL,
        "the first",
        "The message of a Protobuf file with several. Other messages are values that are not as the"
        " schema says.",
    ),
    Option(
        "schemaEvolution",
        _STREAMS,
        "fixed",
        "`fixed`: new versions of the subject are read into the schema that the stream was loaded"
        " with. `latest`: the query fails with `SchemaChanged` before it reads rows of a newer"
        " version; load and start it again with the same checkpoint to have the columns of that.",
    ),
    Option(
        "registerSchema",
        _WRITES,
        "false",
        "`true`: the schema is made from the type of the column `value`, and registered as a"
        " version of the subject if it is new and compatible. `false`: the subject has one.",
    ),
    Option(
        "mode",
        _READS,
        "PERMISSIVE",
        "What becomes of a value that is not as the schema says. `PERMISSIVE`: `value` is null and"
        " `corruptColumn` has the bytes. `FAILFAST`: the query fails and names the record. `DLQ`:"
        " `value` is null and the column `_letter` has the dead letter for `dlqTopic`; see"
        " `goqueue.spark.split_bad`.",
    ),
    Option("corruptColumn", _READS, "_corrupt", "The column (BINARY) of mode `PERMISSIVE`."),
)

_WRITING = (
    Option("topic", _WRITES, "", "Where rows go; without it the column `topic` says so."),
    Option("topicPrefix", _WRITES, "", "Put before every name of a topic, also the dead letters'."),
    Option(
        "partitioner",
        _WRITES,
        "key-hash",
        "`key-hash`: the column `partition` if it is not null, else by the key, else in turn."
        " `round-robin`: in turn, whatever the key. `column`: by the column `partition`, which is"
        " required and never null.",
    ),
    Option(
        "exactlyOnce",
        _WRITES,
        "true",
        "`true`: rows are seen when, and only if, the driver commits the whole write. `false`: rows"
        " are published at once, and again when a task or a batch is repeated.",
    ),
    Option(
        "transactionalId",
        _WRITES,
        "the query's id",
        "Names what is written once. A batch write needs it to be repeatable, with"
        " `transactionalVersion`.",
    ),
    Option(
        "transactionalVersion",
        (BATCH_WRITE,),
        "",
        "Number of a batch write: the same id and version is written once.",
    ),
    Option(
        "transactionTimeoutMs",
        _WRITES,
        "600000",
        "How long the broker waits for a silent task before it aborts its transaction.",
    ),
    Option(
        "dlqTopic",
        _ALL,
        "",
        "Writing: rows that no topic takes (too large, a wrong priority, time, header, partition or"
        " a value that its schema does not allow)"
        " go there as dead letters in the same transaction, instead of failing the write. Reading:"
        " the topic of the dead letters of mode `DLQ`.",
    ),
)

OPTIONS: dict[str, tuple[Option, ...]] = {
    "Connection": _CONNECTION,
    "What is read": _TOPICS,
    "From where to where": _BOUNDS,
    "In which portions": _PORTIONS,
    "Columns and filters": _COLUMNS,
    "Decoding": _DECODING,
    "Writing": _WRITING,
}

_INTRODUCTION = """\
# Options of `format("goqueue")`

Made from the rows in `src/goqueue/spark/option_table.py` by `make spark-options`; a test compares
the two. Names are read in any case. An option that is unknown, wrong, given for another use, or
that contradicts another one is refused by one error that names it, before any job starts.
"""


def reference() -> str:
    """The page, ending with a newline."""
    uses = ", ".join(f"{short} = {words}" for short, words in USES.items())
    parts = [_INTRODUCTION, f"For: {uses}."]
    for title, options in OPTIONS.items():
        lines = [f"\n## {title}", "", "| Option | For | Default | Meaning |", "|---|---|---|---|"]
        parts += [*lines, *(_line(option) for option in options)]
    return "\n".join(parts) + "\n"


def _line(option: Option) -> str:
    default = option.default or "none"
    meaning = option.meaning.replace("|", "\\|")
    return f"| `{option.name}` | {' '.join(option.uses)} | {default} | {meaning} |"
