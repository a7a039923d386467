"""Messages between JSON and records: publish requests in, results and stored messages out."""

from goqueue.gateways.http.messages.aborted import AbortedRanges, Portion, portion_of
from goqueue.gateways.http.messages.chunks import finished
from goqueue.gateways.http.messages.clock import TimeWriter
from goqueue.gateways.http.messages.dues import DELIVER_HEADER, Horizon
from goqueue.gateways.http.messages.incoming import (
    PRIORITY_NAMES,
    Intake,
    intake_steps,
    item_error,
    take_in,
    take_in_one,
)
from goqueue.gateways.http.messages.outgoing import ANSWER_BYTES_MAX, Shown, deliver, show
from goqueue.gateways.http.messages.results import answer_results
from goqueue.gateways.http.messages.traces import TraceNames, request_trace

__all__ = [
    "ANSWER_BYTES_MAX",
    "DELIVER_HEADER",
    "PRIORITY_NAMES",
    "AbortedRanges",
    "Horizon",
    "Intake",
    "Portion",
    "Shown",
    "TimeWriter",
    "TraceNames",
    "answer_results",
    "deliver",
    "finished",
    "intake_steps",
    "item_error",
    "portion_of",
    "request_trace",
    "show",
    "take_in",
    "take_in_one",
]
