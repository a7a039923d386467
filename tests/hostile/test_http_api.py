"""Callers of the API that mean harm: a clean refusal with a stable code, and nobody else notices.

The numbers in brackets are those of the list of hostile inputs that the project keeps.
"""

import contextlib
import socket
from collections.abc import Iterator

import msgspec
import pytest

from tests.hostile.spent_names import spent_name
from tests.integration.http_api import Api, Json, values_of
from tests.integration.server_process import ServerProcess

MIB = 1024 * 1024
BAD_NAMES = {
    "a way out": "../../etc/passwd",
    "a place": "/etc/passwd",
    "a dot": ".",
    "two dots": "..",
    "nothing": "",
    "250 characters": "n" * 250,
    "300 bytes of UTF-8": "ä" * 150,
    "a NUL": "a\0b",
    "a line break": "a\nb",
    "an escape": "a\x1b[31mb",
    "a space": "a b",
    "a slash": "a/b",
    "a backslash": "a\\b",
    "a look-alike": "t\N{GREEK SMALL LETTER OMICRON}pic",
    "a percent sign": "%2e%2e",
}


def quoted(name: str) -> str:
    return "".join(f"%{byte:02x}" for byte in name.encode())


# ---- names and paths (42-50) ---------------------------------------------------------------


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_bad_name_is_refused_wherever_it_stands(api: Api, name: str) -> None:
    topic = api.create(spent_name())
    invalid = (400, "name_invalid")
    assert api.refusal("POST", "/topics", {"name": name}) == invalid
    letters = {"name": spent_name(), "dead_letter_topic": name}
    assert api.refusal("POST", "/topics", letters) == invalid
    join = {"client_id": name, "topics": [topic]}
    assert api.refusal("POST", f"/groups/{spent_name()}/join", join) == invalid
    if not name:
        return
    join = {"client_id": "c", "topics": [topic]}
    for method, path, body in (
        ("GET", f"/topics/{quoted(name)}", None),
        ("DELETE", f"/topics/{quoted(name)}", None),
        ("POST", f"/topics/{quoted(name)}/messages", {"messages": [{"value": "v"}]}),
        ("GET", f"/topics/{quoted(name)}/partitions/0/messages", None),
        ("POST", f"/groups/{quoted(name)}/join", join),
        ("GET", f"/groups/{quoted(name)}", None),
        ("DELETE", f"/groups/{quoted(name)}", None),
    ):
        assert api.refusal(method, path, body) == invalid, (method, path)


@pytest.mark.parametrize(
    "target",
    [
        "/topics/..%2f..%2fetc%2fpasswd",
        "/topics/%2e%2e%2f%2e%2e%2fetc",
        "/topics/%252e%252e%252fetc",
        "/topics/%00",
        "/topics/a%00.log",
        "/topics/%c0%ae%c0%ae",
        "/topics/%ff%fe",
        "/topics/%2e/partitions",
        "/topics/..%5c..%5cwindows",
        "/topics/%e2%80%ae",
        "/groups/%0d%0aSet-Cookie:%20a=b",
    ],
)
def test_an_encoded_way_out_leads_nowhere(api: Api, target: str) -> None:
    answer = api.send("GET", target)
    assert (answer.status, answer.code) == (400, "name_invalid")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("target", ["/topics/%", "/topics/%zz", "/topics/%2", "/../../etc/passwd"])
def test_a_broken_path_is_refused(api: Api, target: str) -> None:
    answer = api.send("GET", target)
    assert answer.status in {400, 404}
    assert answer.code in {"request_invalid", "name_invalid", "route_not_found"}


def test_names_that_look_alike_are_different_topics(api: Api) -> None:
    stem = spent_name()
    names = [f"{stem}.b", f"{stem}_b", f"{stem}-b", f"{stem}.B", f"{stem}.b.", f"{stem}.CON"]
    names += ["CON", "con", "nul", "-", "a" * 249, f"{stem}-0", "lock", "...", ".hidden", "_"]
    for name in names:
        api.create(name, dead_letter_topic=f"{stem}.letters")
        api.publish(name, f"of {name}")
    for name in names:
        assert values_of(api.read(name)) == [f"of {name}"]
    for name in names:
        api.do("DELETE", f"/topics/{name}")


@pytest.mark.parametrize("length", [246, 249])
def test_a_topic_whose_dead_letters_could_have_no_name_must_say_where_they_go(
    api: Api, length: int
) -> None:
    answer = api.ask("POST", "/topics", {"name": "b" * length})
    assert (answer.status, answer.code) == (400, "name_invalid")
    assert "`dead_letter_topic` must be given" in answer.body["error"]


@pytest.mark.parametrize(("length", "letters"), [(245, None), (246, "x" * 249), (249, "y" * 246)])
def test_dead_letters_of_a_topic_with_the_longest_names_are_kept_and_redriven(
    api: Api, length: int, letters: str | None
) -> None:
    stem = spent_name()
    name = stem + "n" * (length - len(stem))
    given = {} if letters is None else {"dead_letter_topic": letters}
    api.create(name, partitions=1, **given)
    api.publish(name, "dies")
    (taken,) = api.join(stem, name).take(1)
    rejected = api.post("/messages/reject", {"receipt_handle": taken["receipt_handle"]})
    assert rejected["dlq_topic"] == (letters or f"{name}.dlq")
    assert values_of(api.read(rejected["dlq_topic"])) == ["dies"]
    assert api.do("POST", f"/topics/{name}/dlq/redrive", {})["moved"] == 1
    assert values_of(api.read(name)) == ["dies", "dies"]
    for each in (name, rejected["dlq_topic"]):
        api.do("DELETE", f"/topics/{each}")


@pytest.mark.parametrize("name", ["__consumer_offsets", "__topics", "__groups", "__"])
def test_internal_names_cannot_be_made_written_or_deleted(api: Api, name: str) -> None:
    internal = (403, "topic_internal")
    assert api.refusal("POST", "/topics", {"name": name}) == internal
    assert api.refusal("DELETE", f"/topics/{name}") == internal
    assert api.refusal("PATCH", f"/topics/{name}", {"retention_hours": 1}) == internal
    messages = {"messages": [{"value": "v"}]}
    assert api.refusal("POST", f"/topics/{name}/messages", messages) == internal
    answer = api.send("POST", f"/topics/{name}/records", b"")
    assert answer.status in {400, 403}
    letters = {"name": spent_name(), "dead_letter_topic": name}
    assert api.refusal("POST", "/topics", letters) == internal
    topic = api.create(spent_name())
    redrive = api.refusal("POST", f"/topics/{topic}/dlq/redrive", {"to_topic": name})
    assert redrive in {internal, (404, "topic_not_found")}
    assert name not in api.get("/topics")["topics"]


def test_a_group_cannot_settle_the_brokers_own_journals(api: Api) -> None:
    body = {"client_id": "c", "topics": ["__groups"]}
    status, code = api.refusal("POST", f"/groups/{spent_name()}/join", body)
    assert (status, code) in {(403, "topic_internal"), (404, "topic_not_found")}


def test_the_secret_of_receipts_is_not_for_readers(api: Api) -> None:
    shown = []
    for name in ("__topics", "__groups"):
        answer = api.ask("GET", f"/topics/{name}/partitions/0/messages?limit=1000")
        raw = api.send("GET", f"/topics/{name}/partitions/0/records")
        shown += [answer.content, raw.content]
    assert not any(b"secret" in content for content in shown)


# ---- abuse (65-70) -------------------------------------------------------------------------


def test_more_than_the_limits_allow_is_refused(api: Api) -> None:
    body: Json = {"name": spent_name(), "num_partitions": 10_001}
    assert api.refusal("POST", "/topics", body) == (400, "request_invalid")
    body = {"client_id": "c", "topics": [f"t{number}" for number in range(1001)]}
    assert api.refusal("POST", f"/groups/{spent_name()}/join", body)[0] in {400, 403}
    handles = {"receipt_handles": ["h"] * 1001}
    assert api.refusal("POST", "/messages/ack/batch", handles) == (400, "request_invalid")


def test_many_partitions_groups_and_members_cost_little(api: Api) -> None:
    topic = api.create(spent_name(), partitions=2_000)
    group = spent_name()
    for _ in range(100):
        api.join(group, topic)
        api.join(spent_name(), topic)
    assert len(api.get(f"/groups/{group}")["members"]) == 100
    assert api.get(f"/topics/{topic}")["partitions"] == 2_000
    api.do("DELETE", f"/topics/{topic}")


@pytest.mark.parametrize(
    "delay", [-1, "-1s", "87600h", 315_360_000, "NaN", "Inf", "1e3s", "5", "1y", "", "9" * 60 + "s"]
)
def test_an_impossible_delay_is_that_messages_error(api: Api, delay: object) -> None:
    topic = api.create(spent_name())
    body = {"messages": [{"value": "v", "delay": delay}, {"value": "fine"}]}
    bad, good = api.post(f"/topics/{topic}/messages", body)["results"]
    assert bad["code"] in {"message_invalid", "delay_too_long"}
    assert good["offset"] == 0


@pytest.mark.parametrize("moment", ["", "never", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59Z", 5])
def test_an_impossible_time_is_that_messages_error(api: Api, moment: object) -> None:
    topic = api.create(spent_name())
    body = {"messages": [{"value": "v", "deliverAt": moment}, {"value": "fine"}]}
    bad, good = api.post(f"/topics/{topic}/messages", body)["results"]
    assert bad["code"] in {"message_invalid", "delay_too_long"}
    assert good["offset"] == 0


@pytest.mark.parametrize("timeout", [0, "0s", -1, "13h", 2**63, "9223372036854775808ns", "1e9", ""])
def test_an_impossible_visibility_is_refused(api: Api, timeout: object) -> None:
    topic = api.create(spent_name())
    api.publish(topic, "v")
    member = api.join(spent_name(), topic)
    path = f"/groups/{member.group}/poll"
    query = {"member_id": member.id, "timeout": "0s", "visibility_timeout": timeout}
    assert api.refusal("GET", path, None, **query) == (400, "request_invalid")
    (message,) = member.poll()
    body = {"receipt_handle": message["receipt_handle"], "timeout": timeout}
    assert api.refusal("POST", "/messages/visibility", body) == (400, "request_invalid")
    assert api.ack(message)["committed_offset"] == 1


def forgeries(handle: str) -> Iterator[str]:
    """Handles that are nearly one."""
    topic, partition, offset, count, nonce = handle.split(":")
    yield from ("", "x", ":" * 4, handle + "0", handle[:-1], handle.upper(), handle * 20)
    yield f"{topic}:{int(partition) + 1}:{offset}:{count}:{nonce}"
    yield f"{topic}:{partition}:{offset}:{int(count) + 1}:{nonce}"
    yield f"other:{partition}:{offset}:{count}:{nonce}"
    yield f"{topic}:{partition}:{offset}:{count}:"
    yield handle[:-1] + ("0" if handle[-1] != "0" else "1")
    yield "ä" + handle


def test_a_forged_receipt_does_nothing(api: Api) -> None:
    topic = api.create(spent_name(), partitions=2)
    api.publish(topic, {"value": "a", "partition": 0}, {"value": "b", "partition": 0})
    member = api.join(spent_name(), topic)
    (first,), (second,) = member.take(1), member.take(1)
    handles = dict.fromkeys(forgeries(first["receipt_handle"]), (400, "receipt_invalid"))
    # With another offset it names a message that is not in this lease.
    moved = first["receipt_handle"].replace(f"{topic}:0:0:", f"{topic}:0:1:")
    handles[moved] = (410, "receipt_stale")
    for handle, refusal in handles.items():
        body = {"receipt_handle": handle}
        for route in ("ack", "nack", "reject", "visibility"):
            more = {"timeout": "1s"} if route == "visibility" else {}
            refused = api.refusal("POST", f"/messages/{route}", {**body, **more})
            assert refused == refusal, (route, handle)
    assert api.get(f"/groups/{member.group}/lag")["partitions"][0]["in_flight"] == 2
    api.ack_all([first, second])


def test_the_receipt_of_a_deleted_group_is_stale(api: Api) -> None:
    topic, group = api.create(spent_name()), spent_name()
    api.publish(topic, "v")
    (message,) = api.join(group, topic).poll()
    api.do("DELETE", f"/groups/{group}")
    api.join(group, topic).take(1)
    handle = {"receipt_handle": message["receipt_handle"]}
    assert api.refusal("POST", "/messages/ack", handle) == (410, "receipt_stale")
    assert api.committed(group, topic) in {None, 0}


def test_offsets_that_cannot_be_are_refused(api: Api) -> None:
    topic = api.create(spent_name())
    api.publish(topic, "v")
    for offset in (-1, -(2**63), 2**63, 10**30, 1.5, "1", None):
        body = {"offsets": {topic: {"0": offset}}}
        path = f"/groups/{spent_name()}/offsets"
        assert api.refusal("POST", path, body) == (400, "request_invalid"), offset
    for partition in (
        "",
        "-1",
        "x",
        "0x0",
        "00",
        "1e0",
        "9" * 30,
        " 0",
        "-0",
        "\N{ARABIC-INDIC DIGIT ZERO}",
    ):
        body = {"offsets": {topic: {partition: 0}}}
        status, code = api.refusal("POST", f"/groups/{spent_name()}/offsets", body)
        assert (status, code) in {
            (400, "request_invalid"),
            (400, "partition_invalid"),
            (404, "partition_not_found"),
        }, partition


def test_seeking_anywhere_reads_no_more_than_is_there(api: Api) -> None:
    topic = api.create(spent_name())
    api.publish(topic, "v")
    path = f"/topics/{topic}/partitions/0"
    last = 2**63 - 1
    assert api.get(f"{path}/messages", offset=last) == {"messages": [], "next_offset": last}
    for offset in (-2, 2**63, "1e3", "0x1", "\N{ARABIC-INDIC DIGIT THREE}", ""):
        refused = api.refusal("GET", f"{path}/messages", None, offset=offset)
        assert refused == (400, "request_invalid"), offset
    huge = api.send("GET", f"{path}/records?offset=0&max_bytes={2**31}")
    assert (huge.status, len(huge.content) < 200) == (200, True)
    beyond = api.send("GET", f"{path}/records?offset={last}")
    assert (beyond.status, beyond.code) == (400, "offset_out_of_range")
    for number in (2**31, 2**63, 10**40):
        status, code = api.refusal("GET", f"/topics/{topic}/partitions/{number}/messages")
        assert (status, code) in {(400, "request_invalid"), (404, "partition_not_found")}


def test_a_join_with_impossible_wishes_is_refused(api: Api) -> None:
    topic = api.create(spent_name())
    good: Json = {"client_id": "c", "topics": [topic]}
    wishes: tuple[Json, ...] = (
        {"topics": []},
        {"topics": topic},
        {"topics": [7]},
        {"client_id": "c" * MIB},
        {"session_timeout": "999ms"},
        {"session_timeout": "11m"},
        {"session_timeout": -1},
        {"mode": "exclusive"},
        {"start_position": "middle"},
        {"member_id": "m" * 10_000},
    )
    for wrong in wishes:
        status, _ = api.refusal("POST", f"/groups/{spent_name()}/join", {**good, **wrong})
        assert status in {400, 404, 413}, wrong


# ---- browsers and uploads (76) -------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example"},
    ],
)
def test_a_foreign_page_is_turned_away(api: Api, headers: dict[str, str]) -> None:
    name = spent_name()
    body = msgspec.json.encode({"name": name})
    answer = api.send("POST", "/topics", body, {"Content-Type": "text/plain", **headers})
    assert (answer.status, answer.code) == (403, "permission_denied")
    assert "access-control-allow-origin" not in answer.headers
    assert name not in api.get("/topics")["topics"]


def test_an_upload_past_the_limit_is_refused_before_it_is_read(
    node: ServerProcess, api: Api
) -> None:
    host, _, port = node.url.removeprefix("http://").partition(":")
    head = "POST /topics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10737418240\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(head.encode())
        assert line.recv(12) == b"HTTP/1.1 413"
    large = api.send("POST", "/topics", b" " * (MIB + 1))
    assert (large.status, large.code) == (413, "body_too_large")
    topic = api.create(spent_name())
    answer = api.ask("POST", f"/topics/{topic}/messages", {"messages": [{"value": "v" * 2 * MIB}]})
    assert answer.body["results"][0]["code"] == "message_too_large"


def test_a_request_id_cannot_write_into_the_log_or_the_answer(api: Api) -> None:
    for given in ("x" * 5000, "a\tb", "é", '"}{"', "%0d%0aX: y"):
        with contextlib.suppress(UnicodeEncodeError):
            answer = api.send("GET", "/topics", headers={"X-Request-ID": given})
            echoed = answer.headers.get("x-request-id", "")
            assert echoed.isascii()
            assert echoed.isprintable()
            assert len(echoed) <= 256
