"""Asks a node, or all nodes of a cluster, for one sample: totals, and details that the model wants.

Owns the requests of one round: a fixed number, and some for each name that is wanted. Decides
nothing and keeps no answer.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Self, TypeVar

from goqueue.cli.client import first_failure, open_connection
from goqueue.cli.cluster_nodes import settings_of
from goqueue.cli.scraped_metrics import parse_metrics
from goqueue.cli.top.model import Sample, Wants
from goqueue.cli.top.nodes import ClusterSample, NodeAnswer, NodeLook, joined_stats
from goqueue.cli.top.tracks import MachineFacts
from goqueue.client import GoQueueError, NotFound
from goqueue.client.dead_letter import DeadLetter, is_dead_letter
from goqueue.client.retries import Retries

if TYPE_CHECKING:
    from goqueue.cli.client_settings import ClientSettings
    from goqueue.client.cluster import ClusterNode
    from goqueue.client.connection import Connection

__all__ = ["Source", "one_failure", "reason_of"]

T = TypeVar("T")

# A node that hangs must not hold up the picture of the others.
_NODE_TIMEOUT_S = 1.5
_ONCE = Retries(attempts_max=1)
# Letters are read whole, so only as many as a screen shows.
_LETTERS_MAX = 50
_LETTER_PARTITIONS_MAX = 16

# Counters of what went wrong on the node: refused publishes and commits, and a disk that failed.
_ERRORS = (
    "goqueue_broker_messages_failed_total",
    "goqueue_consumer_offset_commit_errors_total",
    "goqueue_storage_fsync_errors_total",
)


def reason_of(error: GoQueueError) -> str:
    """Why there is no picture, in one word."""
    known = {"server_unreachable": "not reached", "broker_unavailable": "not ready"}
    return known.get(error.code, f"refused ({error.code})")


class Source:
    """A node to take samples of, or a cluster, to be entered.

    With the `settings` of the command the nodes of a cluster are asked one by one, each over a
    connection of its own that stays open.
    """

    def __init__(self, connection: "Connection", settings: "ClientSettings | None" = None) -> None:
        self._connection = connection
        self._settings = settings
        self._opened = contextlib.AsyncExitStack()
        # By the address of the node.
        self._others: dict[str, Connection] = {}
        self._is_alone = settings is None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def take(self, wants: Wants) -> Sample:
        """One round of questions, the totals side by side."""
        q = self._connection
        clock = asyncio.get_running_loop().time
        asked_s = clock()
        readiness = await q.readiness()
        round_trip_s = clock() - asked_s
        async with one_failure(), asyncio.TaskGroup() as group:
            version = group.create_task(q.version())
            stats = group.create_task(q.stats())
            reliability = group.create_task(q.reliability())
            delays = group.create_task(q.delayed.stats())
            transactions = group.create_task(q.transactions.stats())
            groups = group.create_task(q.groups.list())
            lags = group.create_task(_each(wants.lags, q.groups.lag))
            dues = group.create_task(_each(wants.dues, self._next_due))
            lanes = group.create_task(q.priorities()) if wants.has_lanes else None
            is_wanted = wants.has_transactions
            listed = group.create_task(q.transactions.list()) if is_wanted else None
            partitions = group.create_task(_each(wants.topics, q.topics.partitions))
            described = group.create_task(_each(wants.groups, q.groups.describe))
            letters = group.create_task(_each(wants.letters, self._letters))
            machine = group.create_task(_machine(q)) if wants.has_metrics else None
            cluster = group.create_task(self._cluster(wants))
        found = cluster.result()
        return Sample(
            at_s=clock(),
            time=dt.datetime.now(dt.UTC),
            round_trip_s=round_trip_s,
            version=version.result(),
            readiness=readiness,
            stats=stats.result() if found is None else joined_stats(stats.result(), found.nodes),
            reliability=reliability.result(),
            delays=delays.result(),
            transactions=transactions.result(),
            groups=groups.result(),
            lags=lags.result(),
            dues={topic: due for topic, due in dues.result().items() if due is not None},
            priorities=lanes.result() if lanes else None,
            open_transactions=listed.result() if listed else None,
            partitions=partitions.result(),
            described=described.result(),
            machine=machine.result() if machine else None,
            letters=letters.result(),
            cluster=found,
        )

    async def _cluster(self, wants: Wants) -> ClusterSample | None:
        """The cluster and what each of its nodes says; None of a node that stands alone."""
        if self._is_alone:
            return None
        try:
            state = await self._connection.cluster.state()
            health = await self._connection.cluster.health()
        except GoQueueError:
            # An older server, or a key that may not ask.
            return None
        self._is_alone = len(state.nodes) <= 1
        if self._is_alone:
            return None
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(self._look(node, wants)) for node in state.nodes]
        return ClusterSample(health=health, nodes=tuple(each.result() for each in looks))

    async def _look(self, node: "ClusterNode", wants: Wants) -> NodeLook:
        """What a node says of itself, or in one word why it does not."""
        clock = asyncio.get_running_loop().time
        if not node.client_address:
            return NodeLook(node=node, failure="no address")
        try:
            q = await self._connection_to(node)
            started = clock()
            readiness = await q.readiness()
            answer = NodeAnswer(
                round_trip_s=clock() - started,
                readiness=readiness,
                stats=await q.stats(),
                machine=await _machine(q) if wants.has_metrics else None,
            )
        except GoQueueError as error:
            return NodeLook(node=node, failure=reason_of(error))
        return NodeLook(node=node, answer=answer)

    async def _connection_to(self, node: "ClusterNode") -> "Connection":
        known = self._others.get(node.client_address)
        if known is None:
            assert self._settings is not None
            connection = open_connection(
                settings_of(self._settings, node), timeout_s=_NODE_TIMEOUT_S, retries=_ONCE
            )
            known = await self._opened.enter_async_context(connection)
            self._others[node.client_address] = known
        return known

    async def _letters(self, topic: str) -> tuple[DeadLetter, ...]:
        """The newest letters of a dead-letter topic, newest first."""
        found: list[DeadLetter] = []
        for each in (await self._connection.topics.partitions(topic))[:_LETTER_PARTITIONS_MAX]:
            offset = max(each.earliest_offset, each.end_offset - _LETTERS_MAX)
            if offset >= each.end_offset:
                continue
            page = await self._connection.page(
                topic, each.partition, offset=offset, limit=_LETTERS_MAX
            )
            messages = (one.message for one in page.messages)
            found += [DeadLetter.read(message) for message in messages if is_dead_letter(message)]
        found.sort(key=lambda letter: -letter.timestamp)
        return tuple(found[:_LETTERS_MAX])

    async def _next_due(self, topic: str) -> dt.datetime | None:
        waiting = await self._connection.delayed.list(topic, limit=1)
        return waiting[0].deliver_at if waiting else None


async def _machine(q: "Connection") -> MachineFacts | None:
    """Disk space and errors; None from a node that does not say."""
    metrics = parse_metrics(await q.metrics())
    free = metrics.value("goqueue_storage_volume_free_bytes")
    size = metrics.value("goqueue_storage_volume_size_bytes")
    if free is None or size is None:
        return None
    errors = sum(metrics.value(name) or 0 for name in _ERRORS)
    return MachineFacts(free_bytes=int(free), size_bytes=int(size), errors=int(errors))


async def _each(names: tuple[str, ...], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """The answer about each name; those that are gone meanwhile are left out."""

    async def look(name: str) -> None:
        try:
            found[name] = await ask(name)
        except NotFound:
            return

    found: dict[str, T] = {}
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(look(name))
    return found


@contextlib.asynccontextmanager
async def one_failure() -> AsyncIterator[None]:
    """Tasks that run side by side fail as a group; one failure says enough."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_failure(group) from group
