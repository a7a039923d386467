"""GoQueue beside other brokers that promise the same: an answer comes after the sync."""

from bench.peers.latency import measure_latency, measure_singles
from bench.peers.sdk import measure_sdk
from bench.peers.throughput import (
    measure_priorities,
    measure_publish,
    measure_publish_queue,
    measure_queue,
    measure_read,
)
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words="Measure a node beside other brokers in turns; brokers and client share the cores.",
    baseline="baseline",
    measures={
        "publish": measure_publish,
        "read": measure_read,
        "queue": measure_queue,
        "publish_queue": measure_publish_queue,
        "one_a_request": measure_singles,
        "latency": measure_latency,
        "sdk": measure_sdk,
        "priorities": measure_priorities,
    },
)
