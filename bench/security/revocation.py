"""How long a key is of use after its revocation was answered, on one node and on three.

Each round creates a key, lets a read of it wait at every node, and revokes it through one of them.
Of interest is when the last of these reads has ended, and whether any node accepts the key then.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence

import uvloop

from bench.figure import Figure, Target
from bench.security.keyed import KeyedNode, keyed, keyed_cluster, keyed_node
from bench.wire import Wire

__all__ = ["revoke", "revoke_on_three"]

_READ = "/topics/own.orders/partitions/0/messages?offset=1000000&wait=25s"
_FORMATION_S = 30.0


def revoke(folder: str, scale: float) -> Iterator[Figure]:
    """A key of one node: a waiting read, and a new request."""
    with keyed_node(folder) as node:
        yield _figure("revoked_key_refused", [node], scale, below_ms=10)


def revoke_on_three(folder: str, scale: float) -> Iterator[Figure]:
    """A key of three nodes: waiting reads at each, and a new request to each."""
    with keyed_cluster(folder) as nodes:
        yield _figure("revoked_key_refused_by_three_nodes", nodes, scale, below_ms=1_000)


def _figure(name: str, nodes: Sequence[KeyedNode], scale: float, *, below_ms: float) -> Figure:
    rounds = max(3, int(50 * scale))
    late, answered, accepted = uvloop.run(_run(nodes, rounds))
    return Figure(
        figure=name,
        value=round(max(late), 2),
        unit="ms",
        target=Target(below=below_ms, details_at_most={"accepted_afterwards": 0}),
        details={
            "rounds": rounds,
            "accepted_afterwards": accepted,
            "median_answer_ms": round(sorted(answered)[rounds // 2], 2),
            "longest_answer_ms": round(max(answered), 2),
        },
    )


async def _run(nodes: Sequence[KeyedNode], rounds: int) -> tuple[list[float], list[float], int]:
    """How late the last read ended, how long each revocation took, and what was accepted."""
    await _wait_until_formed(nodes)
    await nodes[0].tenant("own")
    late: list[float] = []
    answered: list[float] = []
    accepted = 0
    for asked in itertools.islice(itertools.cycle(nodes), rounds):
        key = await asked.key("admin", "own")
        secret = str(key["key"])
        others = [await node.open() for node in nodes]
        waiting = [await node.open() for node in nodes]
        for wire in others:
            await wire.send(keyed("GET", "/whoami", secret))
        reads = [asyncio.ensure_future(wire.send(keyed("GET", _READ, secret))) for wire in waiting]
        # They have reached the nodes that serve them.
        await asyncio.sleep(0.05)
        assert not any(read.done() for read in reads), "they wait"
        began = time.perf_counter()
        revoked = await asked.ask("DELETE", f"/admin/keys/{key['id']}")
        ended = time.perf_counter()
        assert "pending_nodes" not in revoked, revoked
        answered.append((ended - began) * 1000)
        await asyncio.gather(*reads, return_exceptions=True)
        late.append(max(0.0, time.perf_counter() - ended) * 1000)
        accepted += sum(await asyncio.gather(*(_is_accepted(wire, secret) for wire in others)))
        for wire in (*others, *waiting):
            wire.close()
    return late, answered, accepted


async def _is_accepted(wire: Wire, secret: str) -> bool:
    """A refusal comes late on purpose; what is accepted comes at once."""
    with contextlib.suppress(RuntimeError, ConnectionError, TimeoutError):
        async with asyncio.timeout(0.05):
            await wire.send(keyed("GET", "/whoami", secret))
            return True
    return False


async def _wait_until_formed(nodes: Sequence[KeyedNode]) -> None:
    """Wait until every node knows of all."""
    until = time.perf_counter() + _FORMATION_S
    for node in nodes:
        while True:
            with contextlib.suppress(RuntimeError):
                health = await node.ask("GET", "/cluster/health")
                if health["healthy"] == len(nodes):
                    break
            assert time.perf_counter() < until, f"no cluster within {_FORMATION_S} s"
            await asyncio.sleep(0.1)
