"""Keys, ACLs, tenants and quotas over HTTP, and that they survive a kill."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from goqueue.model import is_key_text, parse_time
from tests.integration.http_api import Api, Json
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess, serving

Connect = Callable[[ServerProcess], Api]

_MASKED = re.compile(rb"gq_[0-9a-f]{64}")


def _audit(api: Api) -> list[Json]:
    """The records of the audit log, oldest first."""
    answer = api.get("/topics/__audit/partitions/0/messages", offset=0, limit=1000)
    return [msgspec.json.decode(each["value"]) for each in answer["messages"]]


def test_a_key_goes_through_its_whole_life(api: Api) -> None:
    created = api.post(
        "/admin/keys",
        {
            "name": "svc",
            "roles": ["producer", "consumer"],
            "expires_in": "1h",
            "metadata": {"a": "b"},
        },
    )
    assert is_key_text(created["key"])
    assert created["key"].startswith(created["prefix"])
    assert re.fullmatch(r"key_[0-9a-f]{16}", created["id"])
    assert created["roles"] == ["consumer", "producer"]
    assert created["tenant"] == "default"
    (listed,) = [each for each in api.get("/admin/keys")["keys"] if each["id"] == created["id"]]
    assert "key" not in listed
    assert listed["metadata"] == {"a": "b"}
    assert parse_time(listed["expires_at"]) > parse_time(listed["created_at"])
    rotated = api.post(f"/admin/keys/{created['id']}/rotate", {"grace": "1h"})
    assert rotated["id"] == created["id"]
    assert rotated["key"] != created["key"]
    revoked = api.ask("DELETE", f"/admin/keys/{created['id']}")
    assert revoked.body == {"revoked": True, "id": created["id"]}
    (listed,) = [each for each in api.get("/v1/admin/keys")["keys"] if each["id"] == created["id"]]
    assert listed["revoked"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x"}, "roles"),
        ({"name": "x", "roles": []}, "roles"),
        ({"name": "x", "roles": ["god"]}, "roles"),
        ({"name": "", "roles": ["admin"]}, "name"),
        ({"name": "x", "roles": ["admin"], "expires_in": "0s"}, "expires_in"),
        ({"name": "x", "roles": ["admin"], "metadata": {"a": 1}}, "metadata"),
        ({"name": "x", "roles": ["admin"], "role": "admin"}, "role"),
        ({"name": "x", "roles": ["admin"], "certificate": "CN=x"}, "certificate"),
    ],
)
def test_a_key_that_cannot_be_is_refused(api: Api, body: Json, field: str) -> None:
    answer = api.ask("POST", "/admin/keys", body)
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert field in answer.body["error"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("DELETE", "/admin/keys/key_0000000000000000", "key_not_found"),
        ("DELETE", "/admin/acls/acl_0", "acl_not_found"),
        ("GET", "/admin/tenants/nobody", "tenant_not_found"),
        ("DELETE", "/admin/tenants/nobody", "tenant_not_found"),
        ("GET", "/admin/tenants/nobody/quotas", "tenant_not_found"),
        ("GET", "/admin/tenants/nobody/usage", "tenant_not_found"),
        ("GET", "/admin/tenants/nobody/stats", "tenant_not_found"),
        ("GET", "/admin/tenants/nobody/topics", "tenant_not_found"),
        ("GET", "/admin/tenants/nobody/groups", "tenant_not_found"),
    ],
)
def test_what_does_not_exist_is_not_found(api: Api, method: str, path: str, code: str) -> None:
    answer = api.ask(method, path)
    assert (answer.status, answer.code) == (404, code)


def test_acls_are_added_listed_and_deleted(api: Api) -> None:
    rule = {
        "principal": "role:producer",
        "resource_type": "topic",
        "resource_name": "orders*",
        "operation": "write",
        "effect": "allow",
    }
    added = api.post("/admin/acls", rule)
    assert added == {"id": added["id"], **rule}
    assert added in api.get("/admin/acls")["acls"]
    assert api.ask("DELETE", f"/admin/acls/{added['id']}").body == {
        "deleted": True,
        "id": added["id"],
    }
    assert added not in api.get("/admin/acls")["acls"]


def test_pages_of_keys_follow_each_other(api: Api) -> None:
    for number in range(3):
        api.post("/admin/keys", {"name": f"page {number}", "roles": ["readonly"]})
    whole = api.get("/admin/keys")
    found, after = [], ""
    while True:
        page = api.get("/admin/keys", limit=2, **({"after": after} if after else {}))
        found += page["keys"]
        if "next" not in page:
            break
        after = page["next"]
    assert found == whole["keys"]


def test_a_tenant_goes_through_its_whole_life(api: Api) -> None:
    created = api.post(
        "/admin/tenants",
        {
            "name": "Life & Co",
            "description": "d",
            "quotas": {"max_topics": 2},
            "metadata": {"a": "b"},
        },
    )
    assert (created["id"], created["status"]) == ("life-co", "active")
    assert created["quotas"]["max_topics"] == 2
    assert created["quotas"]["max_messages_per_second"] == 1000
    assert api.ask("POST", "/admin/tenants", {"name": "Life & Co"}).code == "tenant_exists"
    api.create("life-co.orders", 2)
    assert api.get("/admin/tenants/life-co/topics") == {
        "tenant_id": "life-co",
        "topics": ["life-co.orders"],
        "count": 1,
    }
    altered = api.ask("PATCH", "/admin/tenants/life-co", {"display_name": "Life"}).body
    assert (altered["display_name"], altered["description"]) == ("Life", "d")
    suspended = api.post("/admin/tenants/life-co/suspend", {"reason": "unpaid"})
    assert (suspended["status"], suspended["suspend_reason"]) == ("suspended", "unpaid")
    listed = api.get("/admin/tenants", status="suspended")["tenants"]
    assert [each["id"] for each in listed] == ["life-co"]
    assert "suspend_reason" not in api.post("/admin/tenants/life-co/activate", {})
    quotas = api.ask("PUT", "/admin/tenants/life-co/quotas", {"max_topics": 1}).body
    assert quotas == api.get("/admin/tenants/life-co/quotas")
    refused = api.ask("POST", "/topics", {"name": "life-co.second"})
    assert (refused.status, refused.code) == (403, "quota_exceeded")
    assert refused.body["details"] == {"quota": "max_topics", "limit": 1, "used": 1}
    assert api.get("/admin/tenants/life-co/stats")["topic_usage_percent"] == 100.0
    not_empty = api.ask("DELETE", "/admin/tenants/life-co")
    assert (not_empty.status, not_empty.code) == (409, "tenant_not_empty")
    deleted = api.ask("DELETE", "/admin/tenants/life-co", force="true").body
    assert deleted == {"deleted": True, "id": "life-co"}
    assert api.ask("GET", "/topics/life-co.orders").status == 404


def test_the_built_in_tenant_cannot_be_stopped(api: Api) -> None:
    for path, body in (("suspend", {"reason": "x"}), ("disable", {})):
        answer = api.ask("POST", f"/admin/tenants/default/{path}", body)
        assert (answer.status, answer.code) == (403, "permission_denied")
    assert api.ask("DELETE", "/admin/tenants/default").status == 403


def test_a_rate_above_the_quota_is_429_with_the_time_to_wait(api: Api) -> None:
    api.post("/admin/tenants", {"name": "rated", "quotas": {"max_messages_per_second": 10}})
    api.create("rated.orders", 1)
    messages = [{"value": "x"}] * 50
    api.post("/topics/rated.orders/messages", {"messages": messages})
    answer = api.ask("POST", "/topics/rated.orders/messages", {"messages": messages})

    assert (answer.status, answer.code) == (429, "rate_limited")
    details = answer.body["details"]
    assert details["quota"] == "max_messages_per_second"
    assert 0 < details["retry_after_ms"] <= 4000
    seconds = -(-details["retry_after_ms"] // 1000)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers["retry-after"] == str(seconds)
    assert headers["x-ratelimit-limit"] == "10"
    assert headers["x-ratelimit-remaining"] == "0"
    assert api.get("/topics/rated.orders")["total_messages"] == 50
    usage = api.get("/admin/tenants/rated/usage")
    assert usage["total_messages_published"] == 50
    assert api.post("/admin/tenants/rated/usage/reset", {})["total_messages_published"] == 0


def test_a_tail_waits_while_its_tenant_has_read_too_much(api: Api) -> None:
    quotas = {"max_consume_messages_per_second": 5}
    api.post("/admin/tenants", {"name": "tailed", "quotas": quotas})
    api.create("tailed.orders", 2)
    for partition in (0, 1):
        messages = [{"value": "x", "partition": partition}] * 8
        api.post("/topics/tailed.orders/messages", {"messages": messages})
    text = api.ask("GET", "/topics/tailed.orders/tail?from=earliest&limit=16").content

    assert text.count(b'"value":"x"') == 16
    assert b"rate_limited" not in text
    assert b'"code":"limit"' in text


def test_without_authentication_whoami_is_the_local_admin(api: Api) -> None:
    assert api.get("/whoami") == {
        "key_id": "local",
        "name": "local",
        "roles": ["admin"],
        "tenant": "default",
    }


def test_no_secret_is_in_a_file_of_the_node(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    created = api.post("/admin/keys", {"name": "svc", "roles": ["admin"]})
    api.post(f"/admin/keys/{created['id']}/rotate", {})
    mortal.stop()

    secret = created["key"].removeprefix("gq_").encode()
    for path in Path(mortal.directory).rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert secret not in content, path
            assert not _MASKED.search(content), path
    mode = (Path(mortal.directory) / "node-secret").stat().st_mode & 0o777
    assert mode == 0o600


def test_keys_tenants_and_their_records_survive_a_kill(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    api.post("/admin/tenants", {"name": "acme", "quotas": {"max_topics": 7}})
    ids = []
    for number in range(10):
        ids.append(api.post("/admin/keys", {"name": str(number), "roles": ["admin"]})["id"])
        if number % 3 == 2:
            mortal.kill()
            mortal.start()
            api = connect(mortal)
    mortal.kill()
    mortal.start()
    api = connect(mortal)

    assert sorted(ids) == [each["id"] for each in api.get("/admin/keys")["keys"]]
    assert api.get("/admin/tenants/acme")["quotas"]["max_topics"] == 7
    records = _audit(api)
    created = [each["resource"] for each in records if each["action"] == "key.create"]
    assert created == [f"key:{each}" for each in ids]
    numbers = [each["number"] for each in records]
    assert numbers == sorted(set(numbers))


def test_a_first_key_is_made_while_the_node_is_stopped(tmp_path: Path) -> None:
    program = Program("http://127.0.0.1:1", tmp_path)
    data = tmp_path / "data"
    created = program.do("key", "bootstrap", "--data-dir", str(data), "-o", "json").json()
    assert is_key_text(str(created["key"]))
    assert created["roles"] == ["admin"]
    with serving(data) as process:
        for words in (("bootstrap",), ("create", "second")):
            again = program.run("key", *words, "--data-dir", str(data))
            assert again.code == 1
        refused = program.run("key", "bootstrap", "--data-dir", str(data))
        assert refused.code == 1
        assert "in use by another process" in refused.err
        api = Api(process.url)
        (listed,) = api.get("/admin/keys")["keys"]
        assert listed["id"] == created["id"]
        api.close()
