"""One message a request: how many a second over 64 connections, and how long one takes.

The latency is taken at a fixed rate: a message is sent when it is due, whatever the answers take.
In one run nobody consumes, and what counts is the time until the answer. In the other a consumer
waits in a long poll, and acknowledges on other connections while it polls again. A message carries
the time at which it was handed to a connection, or began to wait for one: the same pattern finds it
in every format. How late the generator itself was is reported as `sent_late`.
"""

import re
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from bench.broker_process import Usage
from bench.dialogue import AnswerEnd, Dialogue, Laps, converse
from bench.figure import Figure, Target
from bench.goqueue_node import GoQueueNode, JsonRoad, Road, http_end
from bench.peers.contest import Latencies, Sample, Samples, Watch, compare, details, rates
from bench.peers.peer import QUEUES, Peer, arena
from bench.peers.redis_streams import ACK_END, RedisServer, entries_end, poll_request, settle

__all__ = ["measure_latency", "measure_singles"]

_CONNECTIONS = 64
_VALUE = b"x" * 100
_STAMPED = re.compile(rb"(\d{19})x{81}")
_QUEUE = "queue"
# Nobody consumes it: a consumer would find what earlier rounds left.
_UNCONSUMED = "unconsumed"
_DRAIN_S = 10.0
_ACK_CONNECTIONS = 16


def measure_singles(folder: str, scale: float) -> Iterator[Figure]:
    """64 connections, each with one request of one message on it."""
    seconds = max(0.1, 3 * scale)
    with arena(folder, *QUEUES) as servers:
        servers.node.create(_QUEUE)
        contenders = {"json": partial(_singles, servers.node, seconds)}
        for peer in servers.peers:
            peer.renew(_QUEUE)
            contenders[peer.name] = partial(_singles, peer, seconds)
        samples = compare(contenders, scale)
    bounds = {"answer_p99_ms": 8.0, "cpu_s_per_million": 60.0}
    targets = {"json": Target(at_least=15_000, details_at_most=bounds)}
    yield from rates("one_a_request", samples, unit="req/s", targets=targets)


def _singles(server: GoQueueNode | Peer, seconds: float) -> Sample:
    watch, laps = Watch(server.usage), Laps(seconds)
    scripts = [
        (server.port, server.publish_singly(_QUEUE, _VALUE, laps)) for _ in range(_CONNECTIONS)
    ]
    spent = converse(scripts)
    return watch.sample(len(laps.taken), spent, {"answer": Latencies.of(laps.taken)})


class _Line(NamedTuple):
    """How one server is spoken to: what is sent for a message, a poll, and what a poll returned."""

    port: int
    usage: Usage
    publish: Callable[[bytes], bytes]
    publish_end: AnswerEnd
    poll: bytes
    poll_end: AnswerEnd
    settle: Callable[[bytes], tuple[int, bytes]]
    settle_end: AnswerEnd


def measure_latency(folder: str, scale: float) -> Iterator[Figure]:
    """From when a message is sent until it is answered, and until a waiting consumer has it."""
    with arena(folder, RedisServer) as servers:
        node = servers.node
        lines: dict[str, Callable[[], _Line]] = {}
        for name, road in node.roads().items():
            node.create(name)
            lines[name] = partial(_ours, node, name, road(name, node.join(name), "200ms"))
        node.create(_UNCONSUMED)
        publishers: dict[str, Callable[[], _Line]] = {
            "json": partial(_ours, node, _UNCONSUMED, JsonRoad(_UNCONSUMED, "nobody", "0s"))
        }
        for peer in servers.peers:
            if isinstance(peer, RedisServer):
                lines[peer.name] = publishers[peer.name] = partial(_redis, peer)
        for rate, p50_ms in ((1000, 0.55), (5000, 1.0)):
            count = max(100, int(5 * rate * scale))
            # The p99 is at most one and a half times that of the baseline.
            target = Target(below=p50_ms, details_at_most={"p99_to_baseline": 1.5})
            published = {
                name: partial(_published, line, rate, count) for name, line in publishers.items()
            }
            yield from _latency_figures("answer", rate, compare(published, scale), target)
            consumed = {name: partial(_consumed, line, rate, count) for name, line in lines.items()}
            yield from _latency_figures("consumed", rate, compare(consumed, scale), target)


def _ours(node: GoQueueNode, topic: str, road: Road) -> _Line:
    return _Line(
        port=node.port,
        usage=node.usage,
        publish=lambda value: node.publish_one(topic, value)[0],
        publish_end=http_end,
        poll=road.poll,
        poll_end=http_end,
        settle=road.settle,
        settle_end=http_end,
    )


def _redis(server: RedisServer) -> _Line:
    server.renew(_QUEUE)
    return _Line(
        port=server.port,
        usage=server.usage,
        publish=lambda value: server.publish_one(_QUEUE, value)[0],
        publish_end=server.publish_one(_QUEUE, _VALUE)[1],
        poll=poll_request(_QUEUE),
        poll_end=entries_end,
        settle=partial(settle, _QUEUE),
        settle_end=ACK_END,
    )


class _Pool:
    """Connections of which an idle one sends what comes next."""

    def __init__(self, dialogue: Dialogue, port: int, size: int) -> None:
        self._idle = [dialogue.connect(port) for _ in range(size)]
        self._waiting: deque[tuple[bytes, AnswerEnd, Callable[[], None]]] = deque()

    def ask(self, data: bytes, end: AnswerEnd, on_answer: Callable[[], None]) -> None:
        self._waiting.append((data, end, on_answer))
        self._send()

    def _send(self) -> None:
        if not self._idle or not self._waiting:
            return
        connection = self._idle.pop()
        data, end, on_answer = self._waiting.popleft()

        def finish(_answer: bytes) -> None:
            on_answer()
            self._idle.append(connection)
            self._send()

        connection.ask(data, end, finish)


class _Traffic:
    """A publisher at a fixed rate, and where asked a consumer that waits for what it sends."""

    def __init__(self, dialogue: Dialogue, line: _Line, *, is_consumed: bool) -> None:
        self._is_consumed = is_consumed
        self._dialogue = dialogue
        self._line = line
        self._publishers = _Pool(dialogue, line.port, _CONNECTIONS)
        self._acks = _Pool(dialogue, line.port, _ACK_CONNECTIONS)
        self._polls = dialogue.connect(line.port)
        self._is_polling = False
        self._is_ending = False
        self._acked = 0
        self.late: list[float] = []
        self.answered: list[float] = []
        self.consumed: list[float] = []

    def run(self, rate: int, count: int) -> None:
        if self._is_consumed:
            self._poll()
        began = time.perf_counter()
        for number in range(count):
            due = began + number / rate
            # Answers are looked at before every message, also by a generator that is late.
            self._dialogue.step(due - time.perf_counter())
            while (early := due - time.perf_counter()) > 0:
                self._dialogue.step(early)
            self.late.append(-early)
            self._publish(time.perf_counter_ns())
        deadline = time.perf_counter() + _DRAIN_S
        while not self._has_ended(count):
            assert time.perf_counter() < deadline, f"{self._acked} of {count} messages came"
            self._is_ending = self._acked >= count
            self._dialogue.step(0.1)

    def _has_ended(self, count: int) -> bool:
        is_drained = self._acked >= count and not self._is_polling
        return len(self.answered) >= count and (is_drained or not self._is_consumed)

    def _publish(self, now: int) -> None:
        def finish() -> None:
            self.answered.append((time.perf_counter_ns() - now) / 1e9)

        value = b"%019d" % now + b"x" * 81
        self._publishers.ask(self._line.publish(value), self._line.publish_end, finish)

    def _poll(self) -> None:
        self._is_polling = not self._is_ending
        if self._is_polling:
            self._polls.ask(self._line.poll, self._line.poll_end, self._receive)

    def _receive(self, answer: bytes) -> None:
        now = time.perf_counter_ns()
        self.consumed.extend((now - int(stamp)) / 1e9 for stamp in _STAMPED.findall(answer))
        self._poll()
        count, ack = self._line.settle(answer)
        if count:
            self._acks.ask(ack, self._line.settle_end, partial(self._count, count))

    def _count(self, count: int) -> None:
        self._acked += count


def _consumed(open_line: Callable[[], _Line], rate: int, count: int) -> Sample:
    return _paced(open_line(), rate, count, is_consumed=True)


def _published(open_line: Callable[[], _Line], rate: int, count: int) -> Sample:
    return _paced(open_line(), rate, count, is_consumed=False)


def _paced(line: _Line, rate: int, count: int, *, is_consumed: bool) -> Sample:
    with Dialogue() as dialogue:
        traffic = _Traffic(dialogue, line, is_consumed=is_consumed)
        watch = Watch(line.usage)
        traffic.run(rate, count)
        latencies = {
            "answer": Latencies.of(traffic.answered),
            "sent_late": Latencies.of(traffic.late),
        }
        if is_consumed:
            latencies["consumed"] = Latencies.of(traffic.consumed)
        return watch.sample(count, latencies=latencies)


def _latency_figures(what: str, rate: int, samples: Samples, target: Target) -> Iterator[Figure]:
    """The median over the rounds; a ratio is the peer's to ours, so that higher is better."""
    taken_of = {name: [each.latencies[what] for each in taken] for name, taken in samples.items()}
    theirs = taken_of.get("redis")
    for name, taken in samples.items():
        is_beside = theirs is not None and name != "redis"
        found, ours = details(taken), taken_of[name]
        ratio = None
        if theirs is not None and is_beside:
            pairs = list(zip(ours, theirs, strict=True))
            ratio = round(statistics.median(their.p50 / our.p50 for our, their in pairs), 3)
            p99s = [our.p99 / their.p99 for our, their in pairs]
            found["p99_to_baseline"] = round(statistics.median(p99s), 3)
        yield Figure(
            figure=f"latency_{what}_at_{rate}_per_s_{name}",
            value=round(statistics.median(each.p50 for each in ours), 3),
            unit="ms p50",
            raw=round(statistics.median(each.p50 for each in theirs or ()), 3)
            if is_beside
            else None,
            ratio=ratio,
            target=target if is_beside else None,
            details=found,
        )
