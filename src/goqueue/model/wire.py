"""Names on the wire: headers of records, keys of control records, HTTP headers and media types.

Every name that two sides must spell alike is written here and nowhere else in the package; a test
looks for copies. Only `records/layout.pxd` repeats some for the compiler, which another test
compares, and the oracles of the simulator have their own, so that a name that changes by mistake
is noticed. The address at which a client looks for a server is in `client/entry.py`, which must
not import this.

Invariant: a name never changes once it was released; it stands in logs and in clients.
"""

__all__ = [
    "ABORTED_HEADER",
    "BATCH_HEADER",
    "CANCEL_KEY",
    "CODEC_HEADER",
    "DEAD_LETTER_PREFIX",
    "DELAYED_FROM_HEADER",
    "DELIVER_HEADER",
    "EPOCH_KEY",
    "EVENT_STREAM_MEDIA",
    "GRPC_MEDIA",
    "HIGH_WATERMARK_HEADER",
    "HTML_MEDIA",
    "JSON_MEDIA",
    "LAST_STABLE_OFFSET_HEADER",
    "LEASED_RECORDS_MEDIA",
    "LOG_START_HEADER",
    "METRICS_MEDIA",
    "NEXT_OFFSET_HEADER",
    "NONCONFORMING",
    "PLACEHOLDER_KEY",
    "READ_HEADERS",
    "REBALANCE_HEADER",
    "RECORDS_MEDIA",
    "REDRIVEN_HEADER",
    "REGISTRY_MEDIA",
    "REPLY_BY_HEADER",
    "REPLY_TO_HEADER",
    "RESERVED_PREFIX",
    "RESTORED_KEY",
    "SCHEDULE_HEADER",
    "TICK_HEADER",
    "TRACEPARENT_HEADER",
    "TRACESTATE_HEADER",
    "TRACE_SEED_HEADER",
    "TRANSACTION_KEY",
]

# Keys and headers that begin like this are the broker's; producers may only give a codec and a
# time of delivery.
RESERVED_PREFIX = "gq."

# Headers of records. The codec by which the value is compressed:
CODEC_HEADER = "gq.codec"
# when a delayed message is due, in nanoseconds since 1970 as decimal digits;
DELIVER_HEADER = "gq.deliver-at"
# the offset of the delayed message that this record delivers;
DELAYED_FROM_HEADER = "gq.delayed-from"
# the schedule that published the message, and the tick for which it did;
SCHEDULE_HEADER = "gq.schedule"
TICK_HEADER = "gq.tick"
# who wrote a batch, on its first record, for the log alone;
BATCH_HEADER = "gq.batch"
# and the trace that the message belongs to (W3C), also a header of requests.
TRACEPARENT_HEADER = "traceparent"
TRACESTATE_HEADER = "tracestate"

# Keys of control records.
CANCEL_KEY = "gq.cancel"
EPOCH_KEY = "gq.epoch"
PLACEHOLDER_KEY = "gq.placeholder"
RESTORED_KEY = "gq.restored"
TRANSACTION_KEY = "gq.transaction"

# Headers that say where a dead letter came from and why begin like this.
DEAD_LETTER_PREFIX = "goqueue.dlq."
# On a message that was put back: the place of its dead letter.
REDRIVEN_HEADER = "goqueue.dlq.redriven-from"

# Headers of the answer with raw records.
NEXT_OFFSET_HEADER = "GoQueue-Next-Offset"
HIGH_WATERMARK_HEADER = "GoQueue-High-Watermark"
LAST_STABLE_OFFSET_HEADER = "GoQueue-Last-Stable-Offset"
LOG_START_HEADER = "GoQueue-Log-Start"
ABORTED_HEADER = "GoQueue-Aborted"
READ_HEADERS = (
    NEXT_OFFSET_HEADER,
    HIGH_WATERMARK_HEADER,
    LAST_STABLE_OFFSET_HEADER,
    LOG_START_HEADER,
    ABORTED_HEADER,
)
# From what the trace ids of records without a context follow; only while a node traces.
TRACE_SEED_HEADER = "GoQueue-Trace-Seed"
# On an empty poll in stored bytes: the member has to send a heartbeat.
REBALANCE_HEADER = "GoQueue-Rebalance-Required"

JSON_MEDIA = "application/json"
RECORDS_MEDIA = "application/vnd.goqueue.records"
# Where the partition of a record would stand: it does not conform to the schema of its topic.
NONCONFORMING = -8
REGISTRY_MEDIA = "application/vnd.schemaregistry.v1+json"
LEASED_RECORDS_MEDIA = "application/vnd.goqueue.leased-records"
METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
# Headers of a message that somebody waits for a reply to: where it is expected, and until when.
REPLY_TO_HEADER = "goqueue.reply_to"
REPLY_BY_HEADER = "goqueue.reply_by"
HTML_MEDIA = "text/html; charset=utf-8"
EVENT_STREAM_MEDIA = "text/event-stream"
GRPC_MEDIA = "application/grpc"
