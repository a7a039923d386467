"""Measure links between brokers, how soon a cluster has a controller, and replicated topics.

Links are measured on loopback: frames, bytes, round trips, and what idle ones cost.

Each broker is a process of its own with nothing but its links, so the figures are those of the
links. Both ends share the cores of the machine with the bench itself.
"""

from bench.cluster import (
    catch_up,
    failover,
    link,
    many_partitions,
    planned_restarts,
    reassignment,
    replicated_queue,
    replicated_topics,
    replicated_transactions,
    replication_cpu,
    waiting_delays,
)
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words=__doc__,
    measures={
        "link": link.link,
        "formation": failover.formation,
        "failover": failover.failover,
        "lost_nodes": replicated_topics.lost_nodes,
        "restarts": planned_restarts.planned_restarts,
        "reassignment": reassignment.reassignment,
        "latency": replicated_topics.replication_latency,
        "transactions": replicated_transactions.replicated_transactions,
        "queue": replicated_queue.replicated_queue,
        "coordinator": replicated_queue.coordinator_failover,
        "catch_up": catch_up.catch_up,
        "delays": waiting_delays.waiting_delays,
        "cpu": replication_cpu.replication_cpu,
        "image": many_partitions.image_of_many,
        "many": many_partitions.many_partitions,
    },
    has_broker=False,
)
