"""What it costs that messages have five priorities: the same consumers with one lane and with five.

Both kinds take turns, since on a noisy machine only neighbours compare.
"""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator

import uvloop

from bench.broker.publish import BATCH
from bench.broker_process import BrokerProcess, Usage
from bench.delivery.traffic import LEASE, SHARES, Consumers, join, lane_batch, publish
from bench.figure import Figure, Rounds, Target
from bench.rounds import Round, prepare
from goqueue.broker import Node
from goqueue.model import LOCAL, runs
from goqueue.model.requests import (
    Ack,
    CreateTopic,
    Join,
    Joined,
    Leased,
    LeaseOffsets,
    Poll,
    Publish,
)
from goqueue.runtime import Disk, OsFileSystem, Pump

__all__ = ["measure_lanes"]

_ROUNDS = 5
_TARGET = Target(ratio_at_least=0.85)
_SINGLE = (0, 0, 1, 0, 0)
_KINDS = {"single": _SINGLE, "five": SHARES}


def measure_lanes(folder: str, scale: float) -> Iterator[Figure]:
    count = max(2, int(100 * scale)) * BATCH
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_over_http(broker, count))
    yield uvloop.run(_in_process(folder, count))


async def _over_http(broker: BrokerProcess, count: int) -> Figure:
    members = {}
    for kind in _KINDS:
        (await prepare(broker, kind)).close()
        members[kind] = Consumers(broker, kind, await join(broker.port, kind, kind))
    rounds: dict[str, list[Round]] = {kind: [] for kind in _KINDS}
    for _ in range(_ROUNDS):
        for kind, shares in _KINDS.items():
            await publish(broker.port, kind, [lane_batch(BATCH, shares)] * (count // BATCH))
            usage = broker.usage
            seconds = await members[kind].settle(count)
            assert members[kind].excess == 0, f"{-members[kind].excess} messages did not come"
            rounds[kind].append(Round(count=count, seconds=seconds, cpu_s=usage.cpu_s))
    return _figure("lanes_queue_http", rounds, broker.usage.rss_mib)


async def _in_process(folder: str, count: int) -> Figure:
    root = tempfile.mkdtemp(prefix="data-", dir=folder)
    pump = Pump(Node("bench", os.urandom(32)), _halted)
    disk = Disk(OsFileSystem(root), pump.take_from_disk)
    disk.start()
    pump.start(disk)
    await pump.wait_until_serving()
    polls: dict[str, Poll] = {}
    for kind in _KINDS:
        await pump.ask(CreateTopic(name=kind), LOCAL)
        joined = await pump.ask(Join(group=kind, client_id="c", topics=(kind,), token=kind), LOCAL)
        assert isinstance(joined, Joined)
        polls[kind] = Poll(group=kind, member_id=joined.member_id, messages_max=LEASE)
    rounds: dict[str, list[Round]] = {kind: [] for kind in _KINDS}
    for _ in range(_ROUNDS):
        for kind, shares in _KINDS.items():
            batch = lane_batch(BATCH, shares)
            for _ in range(count // BATCH):
                await pump.ask(Publish(topic=kind, batch=bytearray(batch)), LOCAL)
            rounds[kind].append(await _settle(pump, polls[kind], count))
    await pump.stop()
    disk.close()
    shutil.rmtree(root)
    return _figure("lanes_queue_in_process", rounds, Usage(os.getpid()).rss_mib)


async def _settle(pump: Pump, poll: Poll, count: int) -> Round:
    began, spent = time.perf_counter(), time.process_time()
    left = count
    while left > 0:
        leased = await pump.ask(poll, LOCAL)
        assert isinstance(leased, Leased)
        leases = [lease for share in leased.partitions for lease in share.leases]
        assert leases, f"nothing was delivered, and {left} messages are there"
        acked = tuple(LeaseOffsets(each.handle, runs(sorted(each.offsets))) for each in leases)
        await pump.ask(Ack(leases=acked), LOCAL)
        left -= sum(map(len, leased.partitions))
    seconds = time.perf_counter() - began
    return Round(count=count, seconds=seconds, cpu_s=time.process_time() - spent)


def _figure(name: str, rounds: dict[str, list[Round]], rss_mib: float) -> Figure:
    pairs = Rounds()
    for five, single in zip(rounds["five"], rounds["single"], strict=True):
        pairs.add(five.seconds, single.seconds)
    count = rounds["five"][0].count
    cpu = {kind: sum(each.cpu_s for each in of_kind) for kind, of_kind in rounds.items()}
    return Figure(
        figure=name,
        value=round(count / pairs.ours_s),
        unit="msg/s",
        raw=round(count / pairs.raw_s),
        ratio=pairs.ratio,
        target=_TARGET,
        details={
            "ratios": pairs.ratios,
            "five_cpu_s_per_million": round(cpu["five"] / count / _ROUNDS * 1e6, 2),
            "single_cpu_s_per_million": round(cpu["single"] / count / _ROUNDS * 1e6, 2),
            "cpu_ratio": round(cpu["single"] / max(cpu["five"], 0.01), 3),
            "rss_mib": rss_mib,
        },
    )


def _halted(reason: str) -> None:
    raise SystemExit(reason)
