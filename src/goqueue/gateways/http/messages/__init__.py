"""Messages between JSON and records: publish requests in, results and stored messages out."""

from goqueue.gateways.http.bodies.messages import PRIORITY_NAMES
from goqueue.gateways.http.messages.aborted import AbortedRanges, Portion, portion_of
from goqueue.gateways.http.messages.chunks import finished
from goqueue.gateways.http.messages.clock import TimeWriter
from goqueue.gateways.http.messages.dues import DELIVER_HEADER, DelayLimits
from goqueue.gateways.http.messages.incoming import (
    PublishBatch,
    decode_publish,
    decode_publish_one,
    intake_steps,
    item_error,
)
from goqueue.gateways.http.messages.outgoing import (
    ANSWER_BYTES_MAX,
    EncodedRead,
    encode_poll,
    encode_read,
)
from goqueue.gateways.http.messages.results import answer_results
from goqueue.gateways.http.messages.traces import TraceNames, request_trace

__all__ = [
    "ANSWER_BYTES_MAX",
    "DELIVER_HEADER",
    "PRIORITY_NAMES",
    "AbortedRanges",
    "DelayLimits",
    "EncodedRead",
    "Portion",
    "PublishBatch",
    "TimeWriter",
    "TraceNames",
    "answer_results",
    "decode_publish",
    "decode_publish_one",
    "encode_poll",
    "encode_read",
    "finished",
    "intake_steps",
    "item_error",
    "portion_of",
    "request_trace",
]
