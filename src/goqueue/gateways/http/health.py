"""The service routes: probes, version, totals, metrics, and the API's own document."""

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from goqueue.gateways.http.authentication import Gate
from goqueue.gateways.http.bodies import Count, DurationText, TimeText, encode_json
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import boolean
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import HTML_MEDIA, METRICS_MEDIA, LogId, Refused, format_duration, format_time
from goqueue.model.requests import (
    AuthorizeScrape,
    CheckClusterHealth,
    CheckHealth,
    ClusterHealth,
    DescribeNode,
    Done,
    NodeDescription,
    NodeHealth,
    TopicFlow,
)

__all__ = [
    "SERVICE_ROUTES",
    "BrokerOut",
    "Check",
    "Health",
    "Probe",
    "Readiness",
    "Stats",
    "TopicStats",
    "Version",
]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the node works."""

    status: Literal["ok", "degraded", "fail"]
    timestamp: TimeText


class Probe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the process is alive."""

    status: Literal["pass", "fail"]
    timestamp: TimeText
    uptime: DurationText
    message: str | None = None


class BrokerOut(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of the node."""

    node_id: str
    topic_count: Count
    total_size: Count


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one check."""

    status: Literal["pass", "warn", "fail"]
    message: str | None = None
    latency: DurationText | None = None


class Readiness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the node accepts requests; `degraded` does, and `message` says what is wrong."""

    status: Literal["pass", "degraded", "fail"]
    timestamp: TimeText
    uptime: DurationText
    broker: BrokerOut | None = None
    message: str | None = None
    checks: dict[str, Check] | None = None


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """The version that is running."""

    version: str
    git_commit: str
    build_time: str
    python_version: str


class TopicStats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of one topic; published and consumed messages are counted from the node's start."""

    partitions: Count
    total_messages: Count
    total_size_bytes: Count
    published_total: Count
    consumed_total: Count


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of the node."""

    node_id: str
    uptime: DurationText
    topics: Count
    total_size_bytes: Count
    topic_stats: dict[str, TopicStats]


R = TypeVar("R", NodeDescription, NodeHealth)

_SECTION = "Service"
_VERBOSE = boolean("verbose", "whether to list the checks")
_FAILED = 503
_UNKNOWN = "not known: the broker did not answer"
_NAMED_MAX = 10
_STILL = TopicFlow()


async def _health(call: Call) -> HttpResponse:
    node = await _checked(call)
    if isinstance(node, str) or node.not_ready is not None:
        return _answered(_FAILED, Health(status="fail", timestamp=_now(call)))
    is_whole = not _storage_problems(node)
    return _answered(200, Health(status="ok" if is_whole else "degraded", timestamp=_now(call)))


async def _alive(call: Call) -> HttpResponse:
    """Alive is who still answers; a node that is starting or stopping does."""
    node = await _checked(call)
    message = node if isinstance(node, str) else None
    probe = Probe(
        status="pass" if message is None else "fail",
        timestamp=_now(call),
        uptime=_uptime(call),
        message=message,
    )
    return _answered(200 if message is None else _FAILED, probe)


async def _ready(call: Call) -> HttpResponse:
    began = call.context.ticks()
    # A caller without a key is told no more than whether the node serves, and the node does not
    # count what it does not tell.
    shows_broker = call.request.key is not None or call.context.authentication.shows_totals
    broker = BrokerOut(node_id="", topic_count=0, total_size=0) if shows_broker else None
    health: NodeHealth | str
    if shows_broker:
        node = await _asked(call, DescribeNode(is_summary=True), NodeDescription)
        if isinstance(node, str):
            health = node
        else:
            health = node.health
            broker = BrokerOut(
                node_id=node.node_id,
                topic_count=node.topic_count,
                total_size=node.total_size_bytes,
            )
    else:
        health = await _checked(call)
    latency = format_duration(call.context.ticks() - began)
    problems = "" if isinstance(health, str) else _storage_problems(health)
    message = health if isinstance(health, str) else health.not_ready or ""
    readiness = Readiness(
        status="fail" if message else "degraded" if problems else "pass",
        timestamp=_now(call),
        uptime=_uptime(call),
        broker=broker,
        message=message or problems or None,
        checks=await _checks(call, health, message, latency) if call[_VERBOSE] else None,
    )
    return _answered(_FAILED if message else 200, readiness)


async def _cluster(call: Call) -> Check:
    """What this node knows of its cluster; whether it is ready without one is said elsewhere."""
    try:
        found = await call.ask(CheckClusterHealth(), ClusterHealth)
    except Refused:
        return Check(status="warn", message=_UNKNOWN)
    if not found.nodes and not found.controller_id:
        return Check(status="warn", message=found.problem or "no cluster has formed")
    if len(found.nodes) == 1 and found.controller_id == found.nodes[0].id:
        return Check(status="pass", message="this node stands alone")
    count = f"{found.healthy} of {len(found.nodes)} nodes are healthy"
    controller = f"the controller is {found.controller_id}" if found.controller_id else "no quorum"
    words = [count, controller, *([found.problem] if found.problem else [])]
    return Check(status="pass" if found.status == "ok" else "warn", message=", ".join(words))


async def _checks(
    call: Call, health: NodeHealth | str, message: str, latency: str
) -> dict[str, Check]:
    broker = Check(status="fail" if message else "pass", message=message or None, latency=latency)
    storage = Check(status="pass")
    if isinstance(health, str):
        storage = Check(status="fail", message=_UNKNOWN)
    elif problems := _storage_problems(health):
        storage = Check(status="warn", message=problems)
    checks = {"broker": broker, "storage": storage}
    if isinstance(health, str):
        checks["cluster"] = Check(status="fail", message=_UNKNOWN)
    elif call.request.key is not None or not call.context.authentication.is_on:
        # Others may not ask: that would be recorded as denied, and tells nothing of the cluster.
        checks["cluster"] = await _cluster(call)
    return checks


def _storage_problems(node: NodeHealth) -> str:
    """What the disk does not do as it should, for a person; empty if there is nothing."""
    problems: list[str] = []
    if node.failed_logs:
        count = len(node.failed_logs)
        problems.append(f"{count} logs take no writes: {_named(node.failed_logs)}")
    if node.full_logs:
        count = len(node.full_logs)
        problems.append(f"the disk is full, {count} logs found no space: {_named(node.full_logs)}")
    if node.damaged:
        ranges = (f"{each.log} offsets {each.first} to {each.below - 1}" for each in node.damaged)
        named = ", ".join(list(ranges)[:_NAMED_MAX])
        problems.append(f"{node.damaged_ranges} ranges of records are damaged: {named}")
    if not problems and node.has_problems:
        # Whoever asks may not see which logs these are.
        problems.append("some logs take no writes, or have damaged records")
    return "; ".join(problems)


def _named(logs: Sequence[LogId]) -> str:
    return ", ".join(map(str, logs[:_NAMED_MAX]))


async def _version(call: Call) -> Version:
    facts = call.context.facts
    return Version(
        version=facts.version,
        git_commit=facts.git_commit,
        build_time=facts.build_time,
        python_version=facts.python_version,
    )


async def _stats(call: Call) -> Stats:
    node = await call.ask(DescribeNode(), NodeDescription)
    return Stats(
        node_id=node.node_id,
        uptime=_uptime(call),
        topics=node.topic_count,
        total_size_bytes=node.total_size_bytes,
        topic_stats={
            each.name: TopicStats(
                partitions=len(each.offsets),
                total_messages=each.total_messages,
                total_size_bytes=each.total_size_bytes,
                published_total=flow.published,
                consumed_total=flow.consumed,
            )
            for each in node.topics
            for flow in (node.flows.get(each.name, _STILL),)
        },
    )


async def _metrics(call: Call) -> HttpResponse:
    if not call.context.authentication.is_open(Gate.METRICS):
        # They name all tenants.
        await call.ask(AuthorizeScrape(), Done)
    return HttpResponse(200, await call.context.metrics(), content_type=METRICS_MEDIA.encode())


async def _openapi(call: Call) -> HttpResponse:
    return HttpResponse(200, call.context.document())


async def _root(_: Call) -> HttpResponse:
    body = b'{"docs":"/docs","openapi":"/openapi.json"}'
    return HttpResponse(302, body, headers=((b"Location", b"/docs"),))


async def _docs(call: Call) -> HttpResponse:
    return call.context.page


async def _checked(call: Call) -> NodeHealth | str:
    """Whether the node serves, or why it does not answer."""
    return await _asked(call, CheckHealth(), NodeHealth)


async def _asked(call: Call, command: DescribeNode | CheckHealth, expected: type[R]) -> R | str:
    # A handler runs without a task, and a timeout needs one.
    return await asyncio.get_running_loop().create_task(_ask_in_time(call, command, expected))


async def _ask_in_time(
    call: Call, command: DescribeNode | CheckHealth, expected: type[R]
) -> R | str:
    try:
        async with asyncio.timeout(call.context.limits.probe_seconds):
            return await call.ask(command, expected)
    except TimeoutError:
        return "the broker does not answer"
    except Refused as refused:
        return str(refused.code)


def _answered(status: int, body: Health | Probe | Readiness) -> HttpResponse:
    return HttpResponse(status, encode_json(body))


def _now(call: Call) -> str:
    return format_time(call.context.clock())


def _uptime(call: Call) -> str:
    return format_duration(max(0, call.context.clock() - call.context.facts.started_at))


SERVICE_ROUTES = (
    Route(
        method="GET",
        path="/health",
        section=_SECTION,
        summary="Report whether the node works",
        run=_health,
        answer=Health,
        failing=Health,
        is_service=True,
        gate=Gate.HEALTH,
    ),
    Route(
        method="GET",
        path="/healthz",
        section=_SECTION,
        summary="Report whether the process is alive",
        run=_alive,
        answer=Probe,
        failing=Probe,
        is_service=True,
        gate=Gate.HEALTH,
    ),
    Route(
        method="GET",
        path="/livez",
        section=_SECTION,
        summary="Report whether the process is alive",
        run=_alive,
        answer=Probe,
        failing=Probe,
        is_service=True,
        gate=Gate.HEALTH,
    ),
    Route(
        method="GET",
        path="/readyz",
        section=_SECTION,
        summary="Report whether the node accepts requests",
        run=_ready,
        parameters=(_VERBOSE,),
        answer=Readiness,
        failing=Readiness,
        is_service=True,
        gate=Gate.HEALTH,
    ),
    Route(
        method="GET",
        path="/version",
        section=_SECTION,
        summary="Show the version that is running",
        run=_version,
        answer=Version,
        is_service=True,
        gate=Gate.HEALTH,
    ),
    Route(
        method="GET",
        path="/stats",
        section=_SECTION,
        summary="Show totals of the node and of each topic",
        run=_stats,
        answer=Stats,
        is_service=True,
    ),
    Route(
        method="GET",
        path="/metrics",
        section=_SECTION,
        summary="Show the metrics of the node in the text format of Prometheus",
        run=_metrics,
        answer_media=METRICS_MEDIA,
        is_service=True,
        gate=Gate.METRICS,
    ),
    Route(
        method="GET",
        path="/openapi.json",
        section=_SECTION,
        summary="Show the OpenAPI document",
        run=_openapi,
        is_service=True,
        gate=Gate.OPEN,
    ),
    Route(
        method="GET",
        path="/",
        section=_SECTION,
        summary="Lead to the documentation of the API",
        run=_root,
        answer_headers=("Location",),
        answer_example={"docs": "/docs", "openapi": "/openapi.json"},
        status=302,
        is_service=True,
        gate=Gate.OPEN,
    ),
    Route(
        method="GET",
        path="/docs",
        section=_SECTION,
        summary="Show the API as a page with forms",
        run=_docs,
        answer_media=HTML_MEDIA,
        is_service=True,
        gate=Gate.OPEN,
    ),
)
