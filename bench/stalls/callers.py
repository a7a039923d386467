"""Rows about keys, ACLs, tenants and the audit log, at their limits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bench.stalls.stage import Stage, Stall

__all__ = ["acls", "adoption", "api_keys", "denials", "tenants"]

_PAGE = 1000
# This part is created while others wait: it is enough for snapshots of the journal.
_LAST_PART = 10
_NAMES = 1000
_MESSAGES = {"messages": [{"value": "x"}]}
# Denials of one kind become one record after ten seconds.
_FOLD_S = 12.0


async def api_keys(stage: Stage, size: int) -> Stall:
    """The last keys are created, and all are listed."""
    bodies = [{"name": f"k{number}", "roles": ["producer"]} for number in range(size)]
    return await _fill(stage, "/admin/keys", bodies)


async def tenants(stage: Stage, size: int) -> Stall:
    """The last tenants are created, and all are listed. One is always there."""
    return await _fill(
        stage, "/admin/tenants", [{"name": f"tenant-{number}"} for number in range(size - 1)]
    )


async def acls(stage: Stage, size: int) -> Stall:
    """The last rules are created, all are listed, and a key asks for names that are new.

    As many patterns as a key may have are compared with each name.
    """
    made: Any = await stage.ask("POST", "/admin/keys", {"name": "k", "roles": ["producer"]})
    patterns = min(size // 2, _NAMES)
    names = [f"*a{number}*b{number}*" for number in range(patterns)]
    names += [f"topic-{number}" for number in range(size - patterns)]
    bodies = [_rule(made["id"], name) for name in names]
    targets = [f"/topics/{'a' * 200}{number}/messages" for number in range(_NAMES)]
    refused = [stage.request("POST", each, _MESSAGES, made["key"]) for each in targets]
    return await _fill(stage, "/admin/acls", bodies, lambda: _ask_refused(stage, refused))


async def adoption(stage: Stage, size: int) -> Stall:
    """A tenant takes over so many topics; they are listed, counted and let go."""
    await stage.send_all(
        stage.request("POST", "/topics", {"name": f"acme.t{number}", "num_partitions": 1})
        for number in range(size)
    )

    async def work() -> None:
        body = {"id": "acme", "name": "acme", "adopt": True}
        await stage.ask("POST", "/admin/tenants", body)
        listed: Any = await stage.ask("GET", "/admin/tenants/acme/topics")
        assert listed["count"] == size, listed["count"]
        await stage.ask("GET", "/admin/tenants/acme/stats")
        await stage.ask("POST", "/admin/tenants/acme/suspend", {"reason": "unpaid"})
        await stage.ask("POST", "/admin/tenants/acme/activate", {})

    return await stage.during(work, size)


async def denials(stage: Stage, size: int) -> Stall:
    """A key is denied so many different names, and all of them are written to the audit log."""
    made: Any = await stage.ask("POST", "/admin/keys", {"name": "k", "roles": ["consumer"]})
    targets = [f"/topics/t{number}/messages" for number in range(size)]
    refused = [stage.request("POST", each, _MESSAGES, made["key"]) for each in targets]

    async def work() -> None:
        await _ask_refused(stage, refused)
        await asyncio.sleep(_FOLD_S)

    stall = await stage.during(work, size)
    kept: Any = await stage.ask("GET", "/topics/__audit")
    assert kept["total_messages"] > 1, "nothing was written"
    return stall


async def _fill(
    stage: Stage,
    path: str,
    bodies: Sequence[object],
    also: Callable[[], Awaitable[None]] | None = None,
) -> Stall:
    """Create the last of many things while others wait, then list all of them."""
    prepared = [stage.request("POST", path, body) for body in bodies]
    last = max(1, len(prepared) // _LAST_PART)
    await stage.send_all(prepared[:-last])

    async def work() -> None:
        await stage.send_all(prepared[-last:])
        if also is not None:
            await also()
        seen, query = 0, f"?limit={_PAGE}"
        while query:
            page: Any = await stage.ask("GET", path + query)
            seen += page["count"]
            query = f"?limit={_PAGE}&after={page['next']}" if "next" in page else ""
        assert seen >= len(bodies), f"{seen} of {len(bodies)} are listed"

    return await stage.during(work, last)


async def _ask_refused(stage: Stage, prepared: Sequence[bytes]) -> None:
    """Send requests, each of which the node must refuse for lack of a permission."""
    for each in prepared:
        status = "200"
        try:
            await stage.wires[1].send(each)
        except RuntimeError as refused:
            status = str(refused)[9:12]
        assert status == "403", status


def _rule(key: str, name: str) -> dict[str, str]:
    return {
        "principal": key,
        "resource_type": "topic",
        "resource_name": name,
        "operation": "write",
        "effect": "allow",
    }
