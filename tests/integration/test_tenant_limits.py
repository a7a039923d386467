"""Limits of tenants where a connection meets them: how many there are, and bodies in debt."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.integration.http_api import Answer, Api, Json
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess, serving

ROOT = "a-root-key-for-the-limits-of-tenants"


class KeyApi(Api):
    """A connection that sends a key with each request."""

    def __init__(self, url: str, key: str = ROOT) -> None:
        super().__init__(url)
        self._headers = {"Authorization": f"Bearer {key}"}

    def ask(self, method: str, path: str, body: Json | None = None, **_: object) -> Answer:
        content = None if body is None else msgspec.json.encode(body)
        return self.send(method, path, content, self._headers)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("limits")
    secret = directory / "root-key"
    secret.write_text(f"{ROOT}\n")
    secret.chmod(0o600)
    flags = ("--auth-enabled=true", "--api-root-key-file", str(secret))
    with serving(directory / "data", *flags) as process:
        yield process


@pytest.fixture
def admin(node: ServerProcess) -> Iterator[KeyApi]:
    with contextlib.closing(KeyApi(node.url)) as api:
        yield api


def _tenant(admin: KeyApi, name: str, **quotas: int) -> str:
    """A new tenant with a topic `orders`; a key of it."""
    admin.post("/admin/tenants", {"name": name, "quotas": quotas})
    admin.post("/topics", {"name": f"{name}.orders", "num_partitions": 1})
    key = admin.post("/admin/keys", {"name": name, "roles": ["admin"], "tenant": name})
    return str(key["key"])


def test_connections_above_the_quota_are_refused_and_closed(
    node: ServerProcess, admin: KeyApi
) -> None:
    key = _tenant(admin, "narrow", max_connections=2)
    with contextlib.ExitStack() as stack:
        first, second, third = (
            stack.enter_context(contextlib.closing(KeyApi(node.url, key))) for _ in range(3)
        )
        for api in (first, second, first):
            assert api.ask("GET", "/topics").status == 200
        refused = third.ask("GET", "/topics")
        assert (refused.status, refused.code) == (403, "quota_exceeded")
        assert refused.body["details"] == {"quota": "max_connections", "limit": 2, "used": 2}
        assert refused.headers["connection"] == "close"
        usage = admin.get("/admin/tenants/narrow/usage")
        assert usage["connection_count"] == 2
        assert admin.get("/admin/tenants/narrow/stats")["connection_usage_percent"] == 100.0
    with contextlib.closing(KeyApi(node.url, key)) as later:
        # The node hears of a closed connection when its loop looks at it.
        deadline = time.monotonic() + 10
        while later.ask("GET", "/topics").status == 403:
            assert time.monotonic() < deadline


def test_a_large_body_in_debt_is_refused_and_the_connection_goes_on(
    node: ServerProcess, admin: KeyApi
) -> None:
    key = _tenant(admin, "slow", max_messages_per_second=5)
    other = _tenant(admin, "other")
    path = "/topics/slow.orders/messages"
    large: Json = {"messages": [{"value": "x" * 1_000_000}] * 8}
    with contextlib.closing(KeyApi(node.url, key)) as api:
        api.post(path, {"messages": [{"value": "x"}] * 100})
        for _ in range(3):
            refused = api.ask("POST", path, large)
            assert (refused.status, refused.code) == (429, "rate_limited")
            assert int(refused.headers["retry-after"]) >= 1
        assert api.get("/topics/slow.orders")["total_messages"] == 100
    with contextlib.closing(KeyApi(node.url, other)) as foreign:
        # Another tenant learns nothing of the debt, nor of the topic.
        hidden = foreign.ask("POST", path, large)
        absent = foreign.ask("POST", "/topics/slow.nothing/messages", large)
        assert (hidden.status, absent.status) == (404, 404)
        assert hidden.body["code"] == absent.body["code"] == "topic_not_found"


def test_a_read_that_is_larger_than_the_rate_returns_what_was_charged(
    node: ServerProcess, admin: KeyApi
) -> None:
    key = _tenant(admin, "reader", max_consume_bytes_per_second=10_000)
    large = {"value": "x" * 60_000}
    admin.post("/topics/reader.orders/messages", {"messages": [large] * 40})
    with contextlib.closing(KeyApi(node.url, key)) as api:
        path = "/topics/reader.orders/partitions/0/messages?offset=0&limit=20"
        first = api.ask("GET", path)
        assert first.status == 200
        assert len(first.body["messages"]) == first.body["next_offset"] >= 1
        assert api.ask("GET", path).code == "rate_limited"
    usage = admin.get("/admin/tenants/reader/usage")
    assert usage["total_messages_consumed"] == first.body["next_offset"]


def test_the_root_key_is_in_no_list_and_its_use_is_recorded(admin: KeyApi) -> None:
    described = admin.get("/whoami")
    assert (described["key_id"], described["roles"]) == ("root", ["admin"])
    assert all(each["id"] != "root" for each in admin.get("/admin/keys")["keys"])
    answer = admin.ask("GET", "/topics/__audit/partitions/0/messages?offset=0&limit=1000")
    records = [msgspec.json.decode(each["value"]) for each in answer.body["messages"]]
    uses = [each for each in records if each["action"] == "key.use" and each["key"] == "root"]
    assert 1 <= len(uses) <= 3
    assert uses[0]["address"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("short", 0o600, "32 or more visible characters"),
        ("with spaces in between " * 2, 0o600, "visible characters"),
        (ROOT, 0o644, "is open to every user of the machine"),
    ],
)
def test_a_root_key_that_cannot_be_used_stops_the_start(
    tmp_path: Path, content: str, mode: int, said: str
) -> None:
    secret = tmp_path / "root-key"
    secret.write_text(content)
    secret.chmod(mode)
    program = Program("http://127.0.0.1:1", tmp_path)
    refused = program.run(
        "serve",
        *("--data-dir", tmp_path / "data", "--http", "127.0.0.1:0"),
        *("--auth-enabled=true", "--api-root-key-file", secret),
    )
    assert refused.code == 2
    assert said in refused.err
    assert content not in refused.err


def test_failed_attempts_are_recorded_as_one_and_a_count(
    node: ServerProcess, admin: KeyApi
) -> None:
    for _ in range(3):
        with contextlib.closing(KeyApi(node.url, "gq_" + "0" * 64)) as api:
            assert api.ask("GET", "/topics").status == 401
    answer = admin.ask("GET", "/topics/__audit/partitions/0/messages?offset=0&limit=1000")
    records = [msgspec.json.decode(each["value"]) for each in answer.body["messages"]]
    (failed,) = [each for each in records if each["action"] == "authenticate"]
    assert (failed["outcome"], failed["code"]) == ("denied", "unauthenticated")
    assert (failed["key"], failed["address"]) == ("anonymous", "127.0.0.1")
