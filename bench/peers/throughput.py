"""How many messages a second: publish, read, lease and acknowledge, and both at once."""

from collections.abc import Callable, Iterator
from functools import partial

import uvloop

from bench.delivery.traffic import SHARES, lane_batch
from bench.dialogue import Countdown, Script, converse
from bench.figure import Figure, Target
from bench.goqueue_node import PARTITIONS, GoQueueNode, Road
from bench.peers import sdk
from bench.peers.contest import Sample, Watch, compare, rates
from bench.peers.peer import QUEUES, Peer, arena, skip
from bench.peers.redis_streams import RedisServer

__all__ = [
    "measure_priorities",
    "measure_publish",
    "measure_publish_queue",
    "measure_queue",
    "measure_read",
]

BATCH = 1000
VALUE = b"x" * 100
_SINGLE = (0, 0, 1, 0, 0)
_ONE_LANE = lane_batch(BATCH, _SINGLE)
_FIVE_LANES = lane_batch(BATCH, SHARES)
_PUBLISHERS = 4
_CONSUMERS = 2
_QUEUE = "queue"
_WAIT = "200ms"
_NO_RAW_LEASES = "the node has no route /groups/{group}/poll/records"


def measure_publish(folder: str, scale: float) -> Iterator[Figure]:
    """Batches of 1,000 over four connections: raw records, XADD pipelined; Kafka by its client."""
    count = _count(600_000, scale)
    with arena(folder, *QUEUES, has_kafka=True) as servers:
        node, kafka = servers.node, servers.kafka
        node.create("orders")
        contenders: dict[str, Callable[[], Sample]] = {
            "raw": lambda: _publish_ours(node, "orders", count)
        }
        for peer in servers.peers:
            contenders[peer.name] = partial(_publish_theirs, peer, _share(peer, count))
        if kafka is not None:
            kafka.create("orders", PARTITIONS)
            contenders["kafka"] = partial(kafka.publish, "orders", VALUE, BATCH, count)
        samples = compare(contenders, scale)
    yield from rates("publish", samples, targets={"raw": Target(at_least=1_000_000)})


def _publish_ours(node: GoQueueNode, topic: str, count: int, batch: bytes = _ONE_LANE) -> Sample:
    left, watch = Countdown(count), Watch(node.usage)
    scripts = [(node.port, node.publish(topic, batch, BATCH, left)) for _ in range(_PUBLISHERS)]
    return watch.sample(count, converse(scripts))


def _publish_theirs(peer: Peer, count: int, queue: str = _QUEUE) -> Sample:
    peer.renew(queue)
    left, watch = Countdown(count), Watch(peer.usage)
    scripts = [(peer.port, peer.publish(queue, VALUE, BATCH, left)) for _ in range(_PUBLISHERS)]
    return watch.sample(count, converse(scripts))


def measure_read(folder: str, scale: float) -> Iterator[Figure]:
    """Everything from the start, three partitions or streams side by side."""
    count = _count(1_000_000, scale)
    with arena(folder, RedisServer, has_kafka=True) as servers:
        node, kafka = servers.node, servers.kafka
        node.create("orders")
        _publish_ours(node, "orders", count)
        contenders: dict[str, Callable[[], Sample]] = {
            "columns": lambda: _read(
                node, lambda number, counted: node.read("orders", number, counted), count
            ),
            "sdk": lambda: uvloop.run(sdk.consume(node, "orders", count)),
        }
        for peer in servers.peers:
            if not isinstance(peer, RedisServer):
                continue
            for number in range(PARTITIONS):
                share = count * (number + 1) // PARTITIONS - count * number // PARTITIONS
                _publish_theirs(peer, share, f"stream-{number}")
            contenders[peer.name] = partial(_read_theirs, peer)
        if kafka is not None:
            kafka.create("orders", PARTITIONS)
            kafka.publish("orders", VALUE, BATCH, count)
            contenders["kafka"] = partial(kafka.read, "orders", PARTITIONS, count)
        samples = compare(contenders, scale)
    yield from rates("read", samples)


def _read_theirs(peer: RedisServer) -> Sample:
    return _read(peer, lambda number, counted: peer.read(f"stream-{number}", counted))


def _read(
    server: RedisServer | GoQueueNode, script: Callable[[int, list[int]], Script], expected: int = 0
) -> Sample:
    counted: list[int] = []
    watch = Watch(server.usage)
    seconds = converse((server.port, script(number, counted)) for number in range(PARTITIONS))
    assert sum(counted) >= expected
    return watch.sample(sum(counted), seconds)


def measure_queue(folder: str, scale: float) -> Iterator[Figure]:
    """Lease and acknowledge what was published before: two consumers, up to 1,000 a poll."""
    count = _count(200_000, scale)
    targets = {
        "raw": Target(ratio_at_least=2.0),
        "json": Target(ratio_at_least=1.0),
        "sdk": Target(at_least=200_000),
    }
    with arena(folder, *QUEUES) as servers:
        node = servers.node
        contenders: dict[str, Callable[[], Sample]] = {
            name: partial(_queue_ours, node, road, name, count)
            for name, road in _roads(node).items()
        }
        node.create("sdk")
        contenders["sdk"] = lambda: _queue_sdk(node, count)
        for peer in servers.peers:
            contenders[peer.name] = partial(_queue_theirs, peer, _share(peer, count))
        samples = compare(contenders, scale)
    yield from rates("queue", samples, targets=targets)


def _roads(node: GoQueueNode) -> dict[str, Road]:
    """Every way to lease, each with a topic and a group of its own, named like it."""
    roads: dict[str, Road] = {}
    for name, road in node.roads().items():
        node.create(name)
        roads[name] = road(name, node.join(name), _WAIT)
    if "raw" not in roads:
        skip("the raw road of queues", _NO_RAW_LEASES)
    return roads


def _queue_ours(
    node: GoQueueNode, road: Road, topic: str, count: int, batch: bytes = _ONE_LANE
) -> Sample:
    _publish_ours(node, topic, count, batch)
    left, watch = Countdown(count), Watch(node.usage)
    converse((node.port, node.consume(road, left)) for _ in range(_CONSUMERS))
    assert left.left == 0, f"{-left.left} messages came that were not expected"
    return watch.sample(count, left.seconds)


def _queue_sdk(node: GoQueueNode, count: int) -> Sample:
    _publish_ours(node, "sdk", count)
    return uvloop.run(sdk.lease(node, "sdk", count))


def _queue_theirs(peer: Peer, count: int) -> Sample:
    _publish_theirs(peer, count)
    left, watch = Countdown(count), Watch(peer.usage)
    converse([(peer.port, peer.consume(_QUEUE, left)) for _ in range(_CONSUMERS)], left)
    return watch.sample(count, left.seconds)


def measure_publish_queue(folder: str, scale: float) -> Iterator[Figure]:
    """One publisher of batches and two consumers at the same time."""
    count = _count(200_000, scale)
    with arena(folder, *QUEUES) as servers:
        node = servers.node
        contenders: dict[str, Callable[[], Sample]] = {
            name: partial(_both_ours, node, road, name, count)
            for name, road in _roads(node).items()
        }
        node.create("sdk")
        contenders["sdk"] = lambda: uvloop.run(sdk.send_and_lease(node, "sdk", count))
        for peer in servers.peers:
            contenders[peer.name] = partial(_both_theirs, peer, _share(peer, count))
        samples = compare(contenders, scale)
    yield from rates("publish_queue", samples, targets={"raw": Target(ratio_at_least=1.5)})


def _both_ours(node: GoQueueNode, road: Road, topic: str, count: int) -> Sample:
    unsent, left, watch = Countdown(count), Countdown(count), Watch(node.usage)
    scripts = [node.publish(topic, _ONE_LANE, BATCH, unsent)]
    scripts += [node.consume(road, left) for _ in range(_CONSUMERS)]
    converse((node.port, script) for script in scripts)
    return watch.sample(count, left.seconds)


def _both_theirs(peer: Peer, count: int) -> Sample:
    peer.renew(_QUEUE)
    unsent, left, watch = Countdown(count), Countdown(count), Watch(peer.usage)
    scripts = [peer.publish(_QUEUE, VALUE, BATCH, unsent)]
    scripts += [peer.consume(_QUEUE, left) for _ in range(_CONSUMERS)]
    converse([(peer.port, script) for script in scripts], left)
    return watch.sample(count, left.seconds)


def measure_priorities(folder: str, scale: float) -> Iterator[Figure]:
    """Lease and acknowledge messages of five priorities beside messages of one."""
    count = _count(200_000, scale)
    with arena(folder) as servers:
        node = servers.node
        for name, road in node.roads().items():
            contenders = {}
            for lanes, batch in (("five", _FIVE_LANES), ("one", _ONE_LANE)):
                topic = f"{name}-{lanes}"
                node.create(topic)
                member = road(topic, node.join(topic), _WAIT)
                contenders[lanes] = partial(_queue_ours, node, member, topic, count, batch)
            targets = {"five": Target(ratio_at_least=0.9)}
            samples = compare(contenders, scale)
            yield from rates(f"priorities_{name}", samples, "one", targets=targets)


def _share(peer: Peer, count: int) -> int:
    """How many of the messages a peer gets."""
    return max(2 * BATCH, count * peer.per_mille // 1000 // BATCH * BATCH)


def _count(messages: int, scale: float) -> int:
    return max(2, int(messages * scale) // BATCH) * BATCH
