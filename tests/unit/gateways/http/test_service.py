"""Probes and facts: what a node says about itself when its broker is well, away or silent."""

import pytest

from goqueue.gateways.http import ApiLimits
from goqueue.model import Code
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


def test_the_version_needs_no_broker() -> None:
    response = Client().get("/version")
    assert response.status == 200
    assert read(response)["version"] == "1.2.3"
    assert set(read(response)) == {"version", "git_commit", "build_time", "python_version"}


def test_totals_are_refused_while_the_broker_is_away() -> None:
    assert Client().get("/stats").status == 503
