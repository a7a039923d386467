"""Probes and facts: what a node says about itself when its broker is well, away or silent."""

import asyncio

import pytest

from goqueue.gateways import Authenticator, NodeFacts
from goqueue.gateways.http import ApiLimits, HttpApi
from goqueue.gateways.http.authentication import HttpAuthentication
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.model import Code, LogId, Offset, Timestamp
from goqueue.model.requests import (
    CheckHealth,
    ClusterHealth,
    ClusterNode,
    DamagedOffsets,
    NodeDescription,
    NodeHealth,
)
from tests.unit.gateways.http.answering_broker import AnsweringBroker, send
from tests.unit.gateways.http.refusing_broker import (
    Client,
    RefusingBroker,
    SilentBroker,
    header,
    read,
)

PROBES = ("/health", "/healthz", "/livez", "/readyz")


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_fails_with_its_own_body_when_the_broker_refuses(probe: str) -> None:
    response = Client(RefusingBroker(Code.BROKER_UNAVAILABLE)).get(probe)
    assert response.status == 503
    assert header(response, b"Retry-After") == b"1"
    body = read(response)
    assert body["status"] == "fail"
    assert body["timestamp"] == "2023-11-14T22:13:20Z"
    assert "code" not in body


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_fails_when_the_broker_does_not_answer(probe: str) -> None:
    response = Client(SilentBroker(), limits=ApiLimits(probe_seconds=0.001)).get(probe)
    assert response.status == 503


def test_a_verbose_probe_lists_what_was_checked() -> None:
    body = read(Client().get("/readyz?verbose=true"))
    checks = body["checks"]
    assert isinstance(checks, dict)
    assert set(checks) == {"broker", "storage", "cluster"}
    assert checks["broker"]["status"] == "fail"
    assert body["uptime"] == "1.5s"
    assert "checks" not in read(Client().get("/readyz"))


def troubled(**facts: object) -> NodeDescription:
    known = {"node_id": "n", "not_ready": None, "failed_logs": (), **facts}
    health = NodeHealth(**known)  # type: ignore[arg-type]  # by name
    return NodeDescription(node_id="n", not_ready=None, failed_logs=(), topics=(), health=health)


def cluster_of(count: int, **facts: object) -> ClusterHealth:
    nodes = tuple(ClusterNode(id=f"n{number}", status="alive") for number in range(count))
    known: dict[str, object] = {
        "status": "ok",
        "node_id": "n0",
        "role": "controller",
        "controller_id": "n0",
        "controller_epoch": 1,
        "healthy": count,
        "unhealthy": 0,
        "under_replicated_partitions": 0,
        "offline_partitions": 0,
        "nodes": nodes,
        "checked_at": Timestamp(0),
        **facts,
    }
    return ClusterHealth(**known)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("health", "check"),
    [
        (cluster_of(1), {"status": "pass", "message": "this node stands alone"}),
        (
            cluster_of(3),
            {"status": "pass", "message": "3 of 3 nodes are healthy, the controller is n0"},
        ),
        (
            cluster_of(3, status="fail", controller_id="", healthy=1),
            {"status": "warn", "message": "1 of 3 nodes are healthy, no quorum"},
        ),
        (
            cluster_of(0, status="fail", controller_id="", problem="waiting for b:7000"),
            {"status": "warn", "message": "waiting for b:7000"},
        ),
    ],
)
def test_the_checks_say_what_a_node_knows_of_its_cluster(
    health: ClusterHealth, check: dict[str, str]
) -> None:
    answer = read(send(AnsweringBroker(troubled(), health), "GET", "/readyz?verbose=true"))

    checks = answer["checks"]
    assert isinstance(checks, dict)
    assert checks["cluster"] == check


def ask_without_a_key(broker: AnsweringBroker, target: str, *, is_loopback: bool) -> HttpResponse:
    authentication = HttpAuthentication(
        Authenticator(lambda _, __: None), is_loopback=is_loopback, allows_health=True
    )
    facts = NodeFacts(version="1.2.3", started_at=Timestamp(0))
    api = HttpApi(broker, facts, authentication=authentication)
    path, _, query = target.encode().partition(b"?")
    found = api.resolve("GET", path)
    request = HttpRequest("GET", path, query, {}, bytearray(), "127.0.0.1", found)
    return asyncio.run(api.answer(request))


def test_without_a_key_readiness_beyond_loopback_counts_nothing() -> None:
    health = NodeHealth(node_id="n", not_ready=None, failed_logs=())
    broker = AnsweringBroker(health)
    body = read(ask_without_a_key(broker, "/readyz", is_loopback=False))
    assert body["status"] == "pass"
    assert "broker" not in body
    assert broker.asked == [CheckHealth()]


@pytest.mark.parametrize("is_loopback", [False, True])
def test_without_a_key_a_verbose_probe_asks_nothing_about_the_cluster(is_loopback: bool) -> None:
    node = troubled()
    broker = AnsweringBroker(node if is_loopback else node.health)
    body = read(ask_without_a_key(broker, "/readyz?verbose=true", is_loopback=is_loopback))
    checks = body["checks"]
    assert isinstance(checks, dict)
    assert {name: each["status"] for name, each in checks.items()} == {
        "broker": "pass",
        "storage": "pass",
    }
    assert len(broker.asked) == 1


DAMAGE = DamagedOffsets(log=LogId("orders", 0), first=Offset(5), below=Offset(7), reason="crc")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"full_logs": (LogId("orders", 1),)}, "the disk is full"),
        ({"damaged": (DAMAGE,), "damaged_ranges": 1}, "offsets 5 to 6"),
        ({"failed_logs": (LogId("orders", 1),)}, "take no writes"),
    ],
)
def test_a_node_whose_disk_is_full_or_damaged_is_degraded_and_says_why(
    facts: dict[str, object], words: str
) -> None:
    node = troubled(**facts)

    response = send(AnsweringBroker(node, cluster_of(1)), "GET", "/readyz?verbose=true")
    body = read(response)

    assert response.status == 200
    assert body["status"] == "degraded"
    assert words in str(body["message"])
    checks = body["checks"]
    assert isinstance(checks, dict)
    assert checks["storage"] == {"status": "warn", "message": body["message"]}
    health = read(send(AnsweringBroker(node.health), "GET", "/health"))
    assert health["status"] == "degraded"


def test_the_version_needs_no_broker() -> None:
    response = Client().get("/version")
    assert response.status == 200
    assert read(response)["version"] == "1.2.3"
    assert set(read(response)) == {"version", "git_commit", "build_time", "python_version"}


def test_totals_are_refused_while_the_broker_is_away() -> None:
    assert Client().get("/stats").status == 503
