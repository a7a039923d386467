"""What holds for every route: prefixes, paths, methods, request ids, the form of errors."""

from collections.abc import Callable

import pytest

from tests.integration.http_api import Api

Name = Callable[[], str]


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("suffix", ["", "/"])
def test_a_version_and_a_trailing_slash_make_no_difference(
    api: Api, name: Name, prefix: str, suffix: str
) -> None:
    topic = name()
    created = api.post(f"{prefix}/topics{suffix}", {"name": topic, "num_partitions": 1})
    assert created["created"] is True
    messages = {"messages": [{"value": "v"}]}
    assert api.post(f"{prefix}/topics/{topic}/messages{suffix}", messages)["results"]
    assert api.get(f"{prefix}/topics/{topic}{suffix}")["total_messages"] == 1
    path = f"{prefix}/topics/{topic}/partitions/0/messages{suffix}"
    assert len(api.get(path, limit=1)["messages"]) == 1
    assert api.do("DELETE", f"{prefix}/topics/{topic}{suffix}")["deleted"] is True


def test_path_parameters_are_decoded_once(api: Api, name: Name) -> None:
    topic = api.create(name())
    encoded = "".join(f"%{ord(letter):02x}" for letter in topic)
    assert api.get(f"/topics/{encoded}")["name"] == topic
    twice = encoded.replace("%", "%25")
    assert api.refusal("GET", f"/topics/{twice}") == (400, "name_invalid")


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/topic",
        "/v1",
        "/v2/topics",
        "/v1/v1/topics",
        "//topics",
        "/TOPICS",
        "/topics//",
    ],
)
def test_what_is_no_route_is_not_found(api: Api, path: str) -> None:
    assert api.refusal("GET", path) == (404, "route_not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/topics", "GET, HEAD, POST"),
        ("POST", "/topics/t", "DELETE, GET, HEAD, PATCH"),
        ("DELETE", "/readyz", "GET, HEAD"),
        ("GET", "/messages/ack", "POST"),
    ],
)
def test_another_method_is_told_which_ones_there_are(
    api: Api, method: str, path: str, allowed: str
) -> None:
    answer = api.ask(method, path)
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert sorted(answer.headers["allow"].split(", ")) == allowed.split(", ")


@pytest.mark.parametrize("path", ["/topics", "/readyz", "/nowhere", "/openapi.json", "/docs"])
def test_head_answers_as_get_does_without_a_body(api: Api, path: str) -> None:
    full, bare = api.ask("GET", path), api.ask("HEAD", path)
    assert (bare.status, bare.content) == (full.status, b"")
    assert bare.headers["content-type"] == full.headers["content-type"]
    assert bare.headers["content-length"] != "0"


def test_a_request_id_is_echoed_or_made(api: Api) -> None:
    given = api.send("GET", "/topics", headers={"X-Request-ID": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    failed = api.send("GET", "/nowhere", headers={"X-Request-ID": "mine-2"})
    assert failed.headers["x-request-id"] == "mine-2"
    first, second = (api.ask("GET", "/topics").headers["x-request-id"] for _ in range(2))
    assert first
    assert first != second


@pytest.mark.parametrize("path", ["/topics", "/nowhere", "/health", "/groups"])
def test_answers_are_json_that_nobody_stores(api: Api, path: str) -> None:
    answer = api.ask("GET", path)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "", "nonsense"])
def test_no_header_chooses_a_shape(api: Api, name: Name, content_type: str) -> None:
    headers = {"Content-Type": content_type, "Accept": "text/html", "User-Agent": "curl"}
    body = f'{{"name":"{name()}"}}'.encode()
    answer = api.send("POST", "/topics", body, headers)
    assert (answer.status, answer.body["created"]) == (201, True)
    assert answer.headers["content-type"] == "application/json"


def test_null_equals_absent_and_unknown_fields_are_refused(api: Api, name: Name) -> None:
    body = {"name": name(), "num_partitions": None, "retention_hours": None}
    refused = api.refusal("POST", "/topics", {**body, "shape": None})
    assert refused == (400, "request_invalid")
    assert api.refusal("GET", "/topics?limt=1") == (400, "request_invalid")
    created = api.post("/topics", body)
    assert (created["partitions"], created["config"]["retention_hours"]) == (3, 168)


@pytest.mark.parametrize("content", [b"", b"{", b"nothing", b'{"name":', b"\xff\xfe", b"[]", b"1"])
def test_a_body_that_is_no_json_object_is_refused(api: Api, content: bytes) -> None:
    answer = api.send("POST", "/topics", content)
    assert (answer.status, answer.code) == (400, "request_invalid")


def test_settings_of_a_topic_are_checked_and_changed(api: Api, name: Name) -> None:
    topic = api.create(name(), visibility_timeout="1m30s", max_deliveries=0)
    config = api.get(f"/topics/{topic}")["config"]
    assert (config["visibility_timeout"], config["max_deliveries"]) == ("1m30s", 0)
    changed = api.do("PATCH", f"/topics/{topic}", {"visibility_timeout": 2.5, "max_deliveries": 9})
    assert changed["config"]["visibility_timeout"] == "2.5s"
    assert changed["config"]["max_deliveries"] == 9
    for wrong in (
        {"visibility_timeout": "99ms"},
        {"visibility_timeout": "13h"},
        {"max_deliveries": -1},
        {"segment_bytes": 1},
        {"cleanup_policy": "keep"},
        {"flush_policy": 1},
        {"num_partitions": 0},
        {"num_partitions": 10_001},
        {"replication_factor": 2},
        {"min_insync_replicas": 2},
        {"flush_interval_ms": 0},
        {"max_message_bytes": 2**40},
    ):
        refused = api.refusal("POST", "/topics", {"name": name(), **wrong})
        assert refused == (400, "request_invalid"), wrong
    again = api.refusal("POST", "/topics", {"name": topic})
    assert again == (409, "topic_exists")


def test_the_routes_of_the_service_answer(api: Api, name: Name) -> None:
    topic = api.create(name())
    api.publish(topic, "v")
    assert api.get("/health")["status"] == "ok"
    for path in ("/healthz", "/livez", "/readyz"):
        assert api.get(path)["status"] == "pass"
    checks = api.get("/readyz", verbose="true")["checks"]
    assert {"broker", "storage", "cluster"} <= set(checks)
    assert set(api.get("/version")) == {"version", "git_commit", "build_time", "python_version"}
    stats = api.get("/stats")
    assert stats["topic_stats"][topic]["total_messages"] == 1
    assert stats["topics"] == len(api.get("/topics")["topics"])
    assert api.get("/openapi.json")["openapi"].startswith("3.1")
    docs = api.ask("GET", "/docs")
    assert (docs.status, b"https://" in docs.content) == (200, False)
