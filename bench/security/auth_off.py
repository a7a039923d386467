"""What a node without authentication pays for what it does not use: this tree beside another one.

`--against TREE` names the other, for example a worktree of the commit before. Both nodes run at the
same time and are measured in turns, so that the load of the machine is the same for both.
"""

import contextlib
import statistics
from collections.abc import Iterator

from bench.broker_process import BrokerProcess, other_tree
from bench.figure import Figure, Target, rounded
from bench.security.pair import Side
from bench.security.throughput import Pairs, compare, publish_all, read_all
from bench.wire import request
from goqueue.model import Message
from goqueue.records import build

__all__ = ["off"]

# Many and short: whatever else the machine does is spread over both.
_ROUNDS = 41
_WANTED = 0.99
_BATCH = bytes(build([Message(value=b"x" * 100)] * 1000))
_LEASED = 100


@contextlib.contextmanager
def _versions(folder: str, tree: str) -> Iterator[tuple[Side, Side]]:
    with BrokerProcess(folder, tree=tree) as before, BrokerProcess(folder) as now:
        yield Side("before", before, None, None), Side("now", now, None, None)


def off(folder: str, scale: float) -> Iterator[Figure]:
    """Publishing, reading, and leasing with acks, without keys; nothing without `--against`."""
    tree = other_tree()
    if tree is None:
        return
    count = max(4000, int(100_000 * scale))
    leases = max(_LEASED, int(4_000 * scale)) // _LEASED * _LEASED

    async def publish(side: Side, topic: str) -> None:
        await publish_all(side, topic, _BATCH, count)

    async def read(side: Side, topic: str) -> None:
        for _ in range(4):
            await read_all(side, topic)

    async def lease(side: Side, topic: str) -> None:
        await publish_all(side, topic, _BATCH, max(4000, leases))
        wire = await side.open()
        for _ in range(leases // _LEASED):
            body = {"topic": topic, "max": _LEASED}
            received = await wire.ask("POST", "/queues/bench/receive", body)
            handles = [each["receipt_handle"] for each in received["messages"]]
            assert len(handles) == _LEASED
            await wire.ask("POST", "/messages/ack/batch", {"receipt_handles": handles})
        wire.close()

    async def single(side: Side, topic: str) -> None:
        wire = await side.open()
        prepared = request("POST", f"/topics/{topic}/messages", b'{"messages":[{"value":"x"}]}')
        for _ in range(leases // 10):
            await wire.send(prepared)
        wire.close()

    for name, work, prepare, done in (
        ("publish_raw_1000", publish, None, count),
        ("read_raw", read, publish, 4 * count),
        ("lease_and_ack", lease, None, leases),
        ("publish_one_by_one", single, None, leases // 10),
    ):
        pairs = compare(_versions(folder, tree), work, prepare, rounds=_ROUNDS)
        yield _figure(f"off_{name}", done, pairs)


def _figure(name: str, count: int, pairs: Pairs) -> Figure:
    """Judged by the processor time of the node: on a shared machine rates say little."""
    waited, worked = pairs
    return Figure(
        figure=name,
        value=round(worked.ours_s / count * 1e6, 3),
        unit="us of the node/message",
        raw=round(worked.raw_s / count * 1e6, 3),
        ratio=worked.ratio,
        target=Target(ratio_at_least=_WANTED),
        details={
            "quartiles": rounded(statistics.quantiles(worked.ratios, n=4), 3),
            "messages_per_s": round(count / waited.ours_s),
            "of_rate": waited.ratio,
            "rounds": len(worked.ratios),
        },
    )
