"""The figures of a broker process over HTTP."""

from bench.broker.age import measure_age
from bench.broker.consume import measure_consume
from bench.broker.in_process import measure_in_process
from bench.broker.one_by_one import measure_latency, measure_single
from bench.broker.publish import measure_publish
from bench.broker.request_reply import measure_request_reply
from bench.broker.scale import measure_scale
from bench.broker.sdk import measure_sdk
from bench.broker.worker import measure_worker
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words="Measure a broker process over HTTP; client and broker share the machine.",
    measures={
        "in_process": measure_in_process,
        "publish": measure_publish,
        "single": measure_single,
        "latency": measure_latency,
        "consume": measure_consume,
        "sdk": measure_sdk,
        "request_reply": measure_request_reply,
        "scale": measure_scale,
        "age": measure_age,
        "worker": measure_worker,
    },
)
