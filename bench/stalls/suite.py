"""How long others wait while a node does something large: every operation at its size.

Each row starts a node, brings it into a state, and has the operation done while a process of its
own asks `/livez`. The cost per item is measured at several sizes: it should not grow with them.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.broker_process import BrokerProcess
from bench.figure import Detail, Figure, Target
from bench.runner import QUICK, TINY, Measure, Suite
from bench.stalls import backups, callers, groups, moves, reads, waits
from bench.stalls.stage import ROOT_KEY, Row, Stage, Stall
from goqueue.model.requests import ACLS_MAX, SCHEDULES_MAX, TENANTS_MAX

__all__ = ["SUITE"]

_WAIT_MS_MAX = 50
_SLOW_DISK = str(Path(__file__).parent / "slow_disk")
_WITH_KEYS = ("--log-level", "warning", "--auth-enabled", "true", "--acl-enabled", "true")
_FLAT = (1_000, 10_000, 100_000)

_ROWS = {
    "redrive": Row(run=moves.redrive, size=10_000, sizes=_FLAT),
    "abort": Row(run=moves.abort, size=4_000, sizes=(500, 5_000)),
    "last_deliveries": Row(run=moves.last_deliveries, size=20_000, sizes=_FLAT),
    "idle_polls": Row(run=groups.idle_polls, size=200),
    "more_idle_polls": Row(run=partial(groups.idle_polls, partitions=12), size=500),
    "many_partitions": Row(run=groups.many_partitions, size=10_000),
    "positions": Row(run=groups.positions, size=300_000, sizes=(10_000, 100_000)),
    "compaction": Row(run=reads.compaction, size=300_000_000, path=_SLOW_DISK),
    "backup": Row(run=backups.backup, size=300_000_000),
    "backup_partitions": Row(run=backups.backup_partitions, size=1_000),
    "restore_partitions": Row(run=backups.restore_partitions, size=1_000),
    "settled_above": Row(run=groups.settled_above, size=1_500_000),
    "delayed_poll": Row(run=reads.delayed_poll, size=400_000, sizes=_FLAT),
    "delays_snapshot": Row(run=reads.delays_snapshot, size=1_000_000),
    "producers_snapshot": Row(run=reads.producers_snapshot, size=5_000),
    "keys": Row(run=groups.keys, size=1_000_000),
    "find_by_time": Row(run=reads.find_by_time, size=200_000_000),
    "headers": Row(run=reads.headers, size=10 << 20),
    "shared_join": Row(run=groups.shared_join, size=300),
    "hidden_ack": Row(run=groups.hidden_ack, size=100_000),
    "markers": Row(run=groups.markers, size=20_000),
    "metrics": Row(run=reads.metrics, size=317_000),
    "traces": Row(run=reads.traces, size=100_000),
    "deep_page": Row(run=reads.deep_page, size=1_000_000),
    "ticks": Row(run=waits.ticks, size=SCHEDULES_MAX, sizes=(1_000, 10_000)),
    "requests": Row(run=waits.requests, size=2_000),
    "tails": Row(run=waits.tails, size=500),
    # Each takes a thread ten milliseconds, so not as many as there may be.
    "api_keys": Row(run=callers.api_keys, size=2_000),
    "acls": Row(run=callers.acls, size=ACLS_MAX, needs_keys=True),
    "tenants": Row(run=callers.tenants, size=TENANTS_MAX),
    "adoption": Row(run=callers.adoption, size=5_000),
    "denials": Row(run=callers.denials, size=20_000, needs_keys=True),
}


def _measure(name: str, row: Row) -> Measure:
    def measure(folder: str, scale: float) -> Iterator[Figure]:
        size = max(20, int(row.size * scale)) if scale <= TINY else row.size
        stall = _run(row, folder, size)
        costs: dict[str, int] = {}
        if scale > TINY:
            for each in row.sizes if scale > QUICK else row.sizes[:-1]:
                found = _run(row, folder, each)
                costs[f"{each:,}"] = round(found.seconds * 1e6 / found.items)
        yield _figure(name, size, stall, costs)

    return measure


def _run(row: Row, folder: str, size: int) -> Stall:
    with BrokerProcess(folder, row.path, _flags(row, folder)) as broker:

        async def stage_and_run() -> Stall:
            stage = await Stage.open(broker, ROOT_KEY if row.needs_keys else "")
            await stage.wires[0].ask("GET", "/readyz")
            try:
                return await row.run(stage, size)
            finally:
                stage.close()

        return asyncio.run(stage_and_run())


def _flags(row: Row, folder: str) -> tuple[str, ...]:
    if not row.needs_keys:
        return ()
    place = Path(folder) / "root-key"
    place.write_text(ROOT_KEY)
    place.chmod(0o600)
    return (*_WITH_KEYS, "--api-root-key-file", str(place))


def _figure(name: str, size: int, stall: Stall, costs: dict[str, int]) -> Figure:
    waits = stall.waits
    details: dict[str, Detail] = {
        "size": size,
        "p50_ms": waits.p50,
        "p99_ms": waits.p99,
        "max_run_ms": waits.max_run,
        "max_loop_ms": waits.max_loop,
        "probes": waits.count,
        "prober_late_ms": waits.late,
        "seconds": round(stall.seconds, 2),
    }
    if stall.longest_ms is not None:
        details["operation_ms"] = stall.longest_ms
    if costs:
        details["us_per_item_at"] = costs
    return Figure(
        figure=f"livez_during_{name}",
        value=waits.max,
        unit="ms max",
        target=Target(below=_WAIT_MS_MAX),
        details=details,
    )


SUITE = Suite(
    words="Measure the longest wait of others during each large operation, and its cost per item.",
    measures={name: _measure(name, row) for name, row in _ROWS.items()},
)
