"""Probes and facts: what a node says about itself when its broker is well, away or silent."""

import pytest

from goqueue.gateways.http import ApiLimits
from goqueue.model import Code, LogId, Offset
from goqueue.model.requests import DamagedOffsets, NodeDescription, NodeHealth
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

    response = send(AnsweringBroker(node), "GET", "/readyz?verbose=true")
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
