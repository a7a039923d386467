"""A node that has done much work beside a fresh one: what a message costs each of them.

The old node has seen topics and groups come and go, millions of messages, transactions, delayed
messages and their traces. All of that is settled or deleted when the measure begins, except groups,
which outlive their topics until their retention ends. A message should cost both nodes as much
processor time. They take turns in one run: on a shared machine the cost of the same work differs
between two minutes by more than what is looked for.

Both make the same calls (tests/unit/broker/test_age.py). What may differ is the heap: the free
places of an old one are scattered, and objects that are made together lie apart. A path with
several objects for each message is up to a fifth dearer there; one with a few for each batch is
not.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from bench.delivery.traffic import SHARES, delayed_batch, lane_batch
from bench.dialogue import Countdown, Script, converse
from bench.figure import Figure, Target, rounded
from bench.goqueue_node import GoQueueNode, JsonRoad, body
from bench.runner import FULL, QUICK

__all__ = ["measure_age"]

_BATCH = 1000
_VALUE = b"x" * 100
_PLAIN = lane_batch(_BATCH, (0, 0, 1, 0, 0))
_MIXED = lane_batch(_BATCH, SHARES)
_PUBLISHERS = 4
_CONSUMERS = 2
_DUE_NS = 500_000_000
_GROUPS = 50
_TRANSACTIONS = 50
_TARGET = Target(ratio_at_least=0.95)

Work = Callable[[GoQueueNode, str], None]


def measure_age(folder: str, scale: float) -> Iterator[Figure]:
    with GoQueueNode(folder) as old, GoQueueNode(folder) as fresh:
        for node in (old, fresh):
            node.ask("GET", "/readyz")
        lives = max(1, int(20 * scale))
        for number in range(lives):
            _live(old, f"life-{number}", max(1, int(100 * scale)))
        for name, work, count in (
            ("publish", _publish, max(2, int(600 * scale)) * _BATCH),
            ("one_a_request", _publish_singly, max(64, int(8000 * scale))),
            ("lease_and_ack", _publish_and_settle, max(2, int(60 * scale)) * _BATCH),
        ):
            nodes = {"old": old, "fresh": fresh}
            figure = _compare(f"age_{name}", nodes, partial(work, count=count), count, scale)
            figure.details["lives"] = lives
            yield figure


def _compare(
    name: str, nodes: dict[str, GoQueueNode], work: Work, count: int, scale: float
) -> Figure:
    costs: dict[str, list[float]] = {kind: [] for kind in nodes}
    for node in nodes.values():
        node.create(name)
    for number in range(1 + (9 if scale >= FULL else 3 if scale >= QUICK else 1)):
        # Each goes first in every other round: what the one leaves to the disk delays the other.
        for kind, node in list(nodes.items())[:: 1 if number % 2 else -1]:
            usage = node.usage
            work(node, name)
            if number:
                costs[kind].append(usage.cpu_s / count * 1e6)
    medians = {kind: statistics.median(taken) for kind, taken in costs.items()}
    # The clock of the system counts hundredths of a second: a tiny round may take none.
    pairs = zip(costs["fresh"], costs["old"], strict=True)
    ratios = [fresh / old for fresh, old in pairs if old]
    return Figure(
        figure=name,
        value=round(medians["old"], 3),
        unit="CPU us per message",
        raw=round(medians["fresh"], 3),
        ratio=round(statistics.median(ratios), 3) if ratios else None,
        target=_TARGET,
        details={
            "ratios": rounded(ratios, 2),
            **{f"{kind}_rss_mib": node.usage.rss_mib for kind, node in nodes.items()},
        },
    )


def _publish(node: GoQueueNode, topic: str, count: int, batch: bytes = _PLAIN) -> None:
    left = Countdown(count)
    converse((node.port, node.publish(topic, batch, _BATCH, left)) for _ in range(_PUBLISHERS))


def _publish_singly(node: GoQueueNode, topic: str, count: int) -> None:
    left = Countdown(count)
    prepared, end = node.publish_one(topic, _VALUE)

    def script() -> Script:
        while left.take(1):
            body((yield prepared, end))

    converse((node.port, script()) for _ in range(64))


def _publish_and_settle(node: GoQueueNode, topic: str, count: int) -> None:
    _publish(node, topic, count)
    _settle(node, topic, count)


def _settle(node: GoQueueNode, topic: str, count: int) -> None:
    member = node.join(topic)
    left = Countdown(count)
    road = JsonRoad(topic, member, "200ms")
    converse((node.port, node.consume(road, left)) for _ in range(_CONSUMERS))
    node.ask("POST", f"/groups/{topic}/leave", {"member_id": member})


def _live(node: GoQueueNode, topic: str, batches: int) -> None:
    """The life of a topic, and of what belongs to it."""
    node.create(topic)
    _publish(node, topic, batches * _BATCH)
    _publish(node, topic, 10 * _BATCH, _MIXED)
    _settle(node, topic, (batches + 10) * _BATCH)
    due = time.time_ns() + _DUE_NS
    _publish(node, topic, 5 * _BATCH, delayed_batch([due + each for each in range(_BATCH)]))
    for number in range(_GROUPS):
        _visit(node, topic, f"{topic}-{number}", is_deleted=number % 2 > 0)
    named = {"transactional_id": topic}
    identity = node.ask("POST", "/producers/init", named)
    for number in range(_TRANSACTIONS):
        node.ask("POST", "/transactions/begin", {**identity, **named})
        node.ask("POST", "/transactions/publish", {**identity, "topic": topic, "value": "x"})
        how = "commit" if number % 3 else "abort"
        node.ask("POST", f"/transactions/{how}", {**identity, **named})
    node.ask("GET", "/traces?limit=10")
    node.ask("DELETE", f"/topics/{topic}")


def _visit(node: GoQueueNode, topic: str, group: str, *, is_deleted: bool) -> None:
    """A group leases some messages, settles half of them, and is left."""
    joined = node.ask("POST", f"/groups/{group}/join", {"client_id": "c", "topics": [topic]})
    member = {"member_id": joined["member_id"]}
    polled = node.ask("POST", f"/groups/{group}/poll", {**member, "timeout": "1s"})
    receipts = [each["receipt_handle"] for each in polled["messages"]]
    node.ask("POST", "/messages/ack/batch", {"receipt_handles": receipts[::2]})
    node.ask("POST", f"/groups/{group}/leave", member)
    if is_deleted:
        node.ask("DELETE", f"/groups/{group}")
