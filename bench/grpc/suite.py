"""Measure gRPC: publish streams, subscriptions, single calls, idle subscriptions, beside HTTP.

The client sends prepared bytes and keeps only the windows, so that the figures are the node's; it
shares the machine with the node. Processor time per message is comparable where rates are not.
"""

from bench.grpc import calls
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words=__doc__,
    measures={
        "publish": calls.publish,
        "subscribe": calls.subscribe,
        "unary": calls.unary,
        "idle": calls.idle,
    },
    baseline="HTTP",
)
