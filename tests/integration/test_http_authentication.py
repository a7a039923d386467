"""A node with authentication, as clients of three tenants meet it over HTTP."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.http_api import Api, Json
from tests.integration.keyed_callers import Callers, keyed_node
from tests.integration.server_process import ServerProcess


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    with keyed_node(tmp_path_factory.mktemp("authentication")) as callers:
        for tenant in ("acme", "globex"):
            callers.do("POST", "/admin/tenants", {"id": tenant, "name": tenant})
            topic = f"{tenant}.orders"
            callers.do("POST", "/topics", {"name": topic, "num_partitions": 1})
            body = {"messages": [{"value": f"secret of {tenant}"}]}
            callers.do("POST", f"/topics/{topic}/messages", body)
        yield callers


def test_without_a_valid_key_there_is_one_answer_for_everything(node: Callers) -> None:
    answers = [
        node.ask("GET", "/topics", key=None),
        node.ask("GET", "/topics", key="wrong"),
        node.ask("GET", "/no/such/route", key=None),
        node.ask("POST", "/topics", {"name": "x"}, key="gq_" + "0" * 64),
    ]
    bodies = {each.content for each in answers}
    assert {each.status for each in answers} == {401}
    assert len(bodies) == 1
    assert all(each.headers["www-authenticate"] == "Bearer" for each in answers)
    assert all(each.headers["connection"] == "close" for each in answers)


def test_probes_need_no_key(node: Callers) -> None:
    for path in ("/health", "/healthz", "/livez", "/readyz", "/version", "/metrics", "/docs"):
        assert node.ask("GET", path, key=None).status == 200
    assert node.ask("GET", "/stats", key=None).status == 401


def test_a_key_does_what_its_role_allows_in_its_tenant(node: Callers) -> None:
    producer, consumer = (node.key(role, "acme")["key"] for role in ("producer", "consumer"))
    message = {"messages": [{"value": "x"}]}
    publish = ("POST", "/topics/acme.orders/messages", message)
    read = ("GET", "/topics/acme.orders/partitions/0/messages?offset=0", None)
    assert node.ask(*publish, producer).status == 200
    assert node.ask(*publish, consumer).status == 403
    assert node.ask(*read, consumer).status == 200
    assert node.ask(*read, producer).status == 403
    foreign = ("POST", "/topics/globex.orders/messages", message)
    absent = ("POST", "/topics/globex.nothing/messages", message)
    refused = [node.ask(*each, producer) for each in (foreign, absent)]
    assert {(each.status, each.code) for each in refused} == {(404, "topic_not_found")}
    assert node.do("GET", "/topics", key=producer)["topics"] == ["acme.orders"]
    assert node.do("GET", "/whoami", key=producer)["tenant"] == "acme"
    assert node.ask("GET", "/admin/keys", key=node.key("admin", "acme")["key"]).status == 403


def test_a_waiting_read_ends_when_its_key_is_revoked(node: Callers) -> None:
    key = node.key("consumer", "acme")
    with contextlib.closing(Api(node.server.url)) as api:
        path = "/topics/acme.orders/partitions/0/messages?offset=1000000&wait=25s"
        api.begin("GET", path, None, {"X-API-Key": key["key"]})
        # It is waiting once the node has seen the key.
        while "last_used_at" not in _listed(node, key["id"]):
            pass
        node.do("DELETE", f"/admin/keys/{key['id']}")
        answer = api.finish()
    assert (answer.status, answer.code) == (401, "unauthenticated")
    assert node.ask("GET", "/topics", key=key["key"]).status == 401


def _listed(node: Callers, key_id: str) -> Json:
    found: Json
    (found,) = [each for each in node.do("GET", "/admin/keys")["keys"] if each["id"] == key_id]
    return found


def test_a_node_that_nobody_could_administer_does_not_start(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", "--auth-enabled=true")
    server.begin()
    assert server.wait() == 2
    assert f"`goqueue key bootstrap --data-dir {tmp_path / 'data'}`" in server.said
    # It was stopped, not cut off: the next start has nothing to repair.
    server.begin()
    assert server.wait() == 2
    assert "previous_end=clean" in server.said
    assert "previous_end=crash" not in server.said


def test_metrics_behind_a_proxy_on_this_machine_need_a_key(tmp_path: Path) -> None:
    with keyed_node(tmp_path, "--trusted-proxies", "127.0.0.1") as node:
        assert node.ask("GET", "/metrics", key=None).status == 401
        assert node.ask("GET", "/metrics").status == 200
        assert "broker" not in node.ask("GET", "/readyz", key=None).body
        tenant = {"id": "acme", "name": "acme"}
        node.do("POST", "/admin/tenants", tenant)
        assert node.ask("GET", "/metrics", key=node.key("admin", "acme")["key"]).status == 403
