"""Groups with how far they are behind, which is another question to the server for each of them.

As JSON and YAML the answer is that of the API, unchanged; only a person is shown the lag as well.
"""

import functools

import msgspec

from goqueue.cli.asking import Session, run_session, show
from goqueue.cli.group.tables import Groups, draw_group, draw_groups
from goqueue.cli.output import Output
from goqueue.client import GoQueueError
from goqueue.client.admin import GroupDescription, GroupLag
from goqueue.client.transport import get

__all__ = ["describe_group", "list_groups"]

# Of more groups than anybody reads the lag is left out: each costs a request.
_LAGS_MAX = 100


def list_groups(output: Output) -> None:
    """Show all groups."""

    async def scene(session: Session) -> None:
        body = await session.ask(get("groups"))
        lags: dict[str, int] = {}
        if output is Output.TABLE:
            for each in msgspec.json.decode(body, type=Groups).group_details[:_LAGS_MAX]:
                lag = await _lag(session, each.group_id)
                if lag is not None:
                    lags[each.group_id] = lag
        show(body, output, Groups, functools.partial(draw_groups, lags=lags))

    run_session(scene)


def describe_group(group: str, output: Output) -> None:
    """Show one group."""

    async def scene(session: Session) -> None:
        body = await session.ask(get("groups", group))
        lag = await _lag(session, group) if output is Output.TABLE else None
        show(body, output, GroupDescription, functools.partial(draw_group, lag=lag))

    run_session(scene)


async def _lag(session: Session, group: str) -> int | None:
    """How far a group is behind; None for one that is gone by now."""
    try:
        return (await session.read(get("groups", group, "lag"), GroupLag)).total_lag
    except GoQueueError as error:
        if error.code == "group_not_found":
            return None
        raise
