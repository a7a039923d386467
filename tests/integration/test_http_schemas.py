"""The schema registry over HTTP: its own routes, those of the original, and restarts."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from goqueue.model import Message
from goqueue.records import build
from tests.integration.http_api import Answer, Api
from tests.integration.server_process import ServerProcess, serving
from tests.integration.transactional import Producer, send_records

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]


def _record(*fields: str, optional: bool = True) -> str:
    said = [
        {"name": field, "type": "int", **({"default": 0} if optional else {})} for field in fields
    ]
    return msgspec.json.encode({"type": "record", "name": "Order", "fields": said}).decode()


def _avro(*fields: str, optional: bool = True) -> dict[str, str]:
    return {"schema": _record(*fields, optional=optional), "schemaType": "AVRO"}


def _error(answer: Answer) -> tuple[int, int]:
    """The status and the number of the original."""
    body = answer.body
    assert answer.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    assert body["message"]
    assert body["status"] == answer.status
    return answer.status, body["error_code"]


def test_a_subject_goes_through_its_whole_life(api: Api, name: Name) -> None:
    subject = f"{name()}-value"
    at = f"/schemas/subjects/{subject}"
    first = api.post(f"{at}/versions", _avro("a"))
    assert first["version"] == 1
    assert api.post(f"{at}/versions", _avro("a")) == first
    second = api.post(f"{at}/versions", _avro("a", "b"))
    assert (second["version"], second["id"]) == (2, first["id"] + 1)
    assert api.ask("GET", f"{at}/versions").content == b"[1,2]"
    assert subject in api.get("/schemas/subjects")
    shown = api.get(f"{at}/versions/latest")
    assert shown["schema"] == _record("a", "b")
    assert shown["schemaType"] == "AVRO"
    assert api.get(f"/schemas/ids/{first['id']}")["schema"] == _record("a")
    found = api.post(at, _avro("a"))
    assert found == {"subject": subject, "version": 1, "id": first["id"]}
    check = f"/schemas/compatibility/subjects/{subject}/versions/latest"
    wrong = api.post(check, _avro("c", optional=False))
    assert wrong["is_compatible"] is False
    assert "version 2" in wrong["messages"][0]
    assert api.send("DELETE", f"{at}/versions/1").content == b"1"
    assert api.send("DELETE", at).content == b"[2]"
    assert api.get(f"/schemas/ids/{first['id']}")["schema"] == _record("a")


def test_refusals_have_their_codes_and_details(api: Api, name: Name) -> None:
    at = f"/schemas/subjects/{name()}"
    assert api.send("GET", f"{at}/versions").code == "subject_not_found"
    assert api.send("GET", f"{at}/versions/x").code == "request_invalid"
    api.post(f"{at}/versions", _avro("a"))
    assert api.send("GET", f"{at}/versions/7").code == "version_not_found"
    assert api.send("GET", "/schemas/ids/999999").code == "schema_not_found"
    broken = api.send("POST", f"{at}/versions", msgspec.json.encode({**_avro(), "schema": "{"}))
    assert broken.code == "schema_invalid"
    apart = api.send("POST", f"{at}/versions", msgspec.json.encode(_avro("z", optional=False)))
    assert apart.code == "schema_incompatible"
    assert "version 1" in apart.body["details"]["messages"][0]
    level = api.send("PUT", "/schemas/config", b'{"compatibilityLevel": "SOME"}')
    assert level.code == "compatibility_invalid"


def test_levels_are_set_and_shown_in_any_case(api: Api, name: Name) -> None:
    at = f"/schemas/config/{name()}"
    assert api.get(at) == {"compatibilityLevel": "BACKWARD"}
    answer = api.send("PUT", at, b'{"compatibilityLevel": "full_transitive"}')
    assert answer.body == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert api.get(at) == {"compatibilityLevel": "FULL_TRANSITIVE"}


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/subjects/{none}/versions", None, (404, 40401)),
        ("GET", "/subjects/{some}/versions/9", None, (404, 40402)),
        ("GET", "/subjects/{some}/versions/0", None, (422, 42202)),
        ("GET", "/subjects/{some}/versions/x", None, (422, 42202)),
        ("GET", "/schemas/ids/999999", None, (404, 40403)),
        ("GET", "/config/{some}", None, (404, 40408)),
        ("DELETE", "/subjects/{some}?permanent=true", None, (404, 40405)),
        ("DELETE", "/subjects/{some}/versions/1?permanent=true", None, (404, 40407)),
        ("POST", "/subjects/{some}", {"schema": '"int"'}, (404, 40403)),
        ("POST", "/subjects/{some}/versions", {"schema": "{"}, (422, 42201)),
        ("POST", "/subjects/{some}/versions", {"schema": '"int"'}, (409, 409)),
        ("PUT", "/config", {"compatibility": "SOME"}, (422, 42203)),
        ("POST", "/subjects/{some}/versions", {"schema": 5}, (400, 400)),
        ("GET", "/nothing", None, (404, 404)),
    ],
)
def test_the_original_s_error_codes_come_with_its_body(
    api: Api, name: Name, method: str, path: str, body: object, expected: tuple[int, int]
) -> None:
    some = name()
    api.post(f"/schema-registry/subjects/{some}/versions", {"schema": _record("a")})
    target = "/schema-registry" + path.format(some=some, none=name())
    content = b"" if body is None else msgspec.json.encode(body)
    assert _error(api.send(method, target, content)) == expected


def test_what_was_deleted_is_listed_and_removed_as_the_original_does(api: Api, name: Name) -> None:
    subject = name()
    at = f"/schema-registry/subjects/{subject}"
    id_ = api.post(f"{at}/versions", {"schema": _record("gone")})["id"]
    assert api.send("DELETE", at).content == b"[1]"
    assert _error(api.send("DELETE", at)) == (404, 40404)
    assert api.ask("GET", f"{at}/versions", deleted="true").content == b"[1]"
    assert api.get(f"/schema-registry/schemas/ids/{id_}") == {"schema": _record("gone")}
    assert api.send("DELETE", f"{at}?permanent=true").content == b"[1]"
    assert _error(api.send("GET", f"/schema-registry/schemas/ids/{id_}")) == (404, 40403)


def test_references_are_listed_and_keep_what_they_need(api: Api, name: Name) -> None:
    address, order = name(), name()
    at = f"/schema-registry/subjects/{address}"
    api.post(f"{at}/versions", {"schema": '{"type":"record","name":"Address","fields":[]}'})
    fields = [{"name": "to", "type": "Address"}]
    schema = msgspec.json.encode({"type": "record", "name": "O", "fields": fields}).decode()
    body = {
        "schema": schema,
        "references": [{"name": "Address", "subject": address, "version": 1}],
    }
    id_ = api.post(f"/schema-registry/subjects/{order}/versions", body)["id"]
    assert api.ask("GET", f"{at}/versions/1/referencedby").content == b"[%d]" % id_
    assert _error(api.send("DELETE", at)) == (422, 42206)
    shown = api.get(f"/schema-registry/subjects/{order}/versions/latest")
    assert shown["references"] == body["references"]


def test_schemas_survive_a_kill(tmp_path: Path, connect: Connect) -> None:
    with serving(tmp_path) as server:
        api = connect(server)
        ids = [
            api.post(f"/schemas/subjects/s{number}/versions", _avro(f"f{number}"))["id"]
            for number in range(20)
        ]
        server.kill()
    with serving(tmp_path) as server:
        api = connect(server)
        again = [
            api.post(f"/schemas/subjects/s{number}/versions", _avro(f"f{number}"))["id"]
            for number in range(20)
        ]
        assert again == ids
        assert api.get("/schemas/stats")["schemas"] == 20


def test_schedules_and_redrives_do_not_get_round_validation(api: Api, name: Name) -> None:
    topic = api.create(name(), 1)
    api.publish(topic, "bad")
    (message,) = api.join(name(), topic).poll()
    api.post("/messages/reject", {"receipt_handle": message["receipt_handle"]})
    api.do("PATCH", f"/topics/{topic}", {"schema_validation": True})
    schedule = {"name": name(), "topic": topic, "every": "1h", "message": {"value": '{"id": "x"}'}}
    body = msgspec.json.encode(schedule)
    assert api.send("POST", "/schedules", body).code == "subject_not_found"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    text = msgspec.json.encode(schema).decode()
    api.post(f"/schemas/subjects/{topic}-value/versions", {"schema": text, "schemaType": "JSON"})
    refused = api.send("POST", "/schedules", body)
    assert refused.code == "schema_violation"
    assert refused.body["details"]["path"] == "/id"
    redriven = api.post(f"/topics/{topic}/dlq/redrive", {})
    assert (redriven["moved"], redriven["refused"]) == (0, 1)
    first = redriven["first_refused"]
    assert (first["partition"], first["offset"], first["code"]) == (0, 0, "schema_violation")
    assert "not JSON" in first["reason"]


def test_a_topic_that_validates_refuses_bad_values_on_every_route(api: Api, name: Name) -> None:
    topic = api.create(name(), 1, schema_validation=True)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    text = msgspec.json.encode(schema).decode()
    messages = [{"value": '{"id": 1}'}, {"value": '{"id": "x"}'}, {"value": "{}", "delay": "1h"}]
    none = api.send(
        "POST", f"/topics/{topic}/messages", msgspec.json.encode({"messages": messages})
    )
    assert none.code == "subject_not_found"
    api.post(f"/schemas/subjects/{topic}-value/versions", {"schema": text})
    first, second, third = api.post(f"/topics/{topic}/messages", {"messages": messages})["results"]
    assert first["offset"] == 0
    assert second["code"] == third["code"] == "schema_violation"
    assert second["path"] == "/id"
    assert "integer" in second["reason"]
    raw = bytes(build([Message(value=b"[]")]))
    refused = api.send("POST", f"/topics/{topic}/records", raw)
    assert refused.code == "schema_violation"
    assert refused.body["details"]["reason"]
    good = bytes(build([Message(value=b'{"id": 7}')]))
    assert api.send("POST", f"/topics/{topic}/records", good).status == 200


def test_a_transaction_takes_no_bad_value_now_or_delayed_and_commits_the_good_ones(
    api: Api, name: Name
) -> None:
    topic = api.create(name(), 1, schema_validation=True)
    api.post(f"/schemas/subjects/{topic}-value/versions", {"schema": '{"type": "integer"}'})
    producer = Producer(api, name())
    producer.begin()
    for value, more in (('"x"', {}), ('"x"', {"delay": "1s"}), ("{", {"delay": "1h"})):
        body = producer.message(topic, value, **more)
        refused = api.ask("POST", "/transactions/publish", body)
        assert (refused.status, refused.code) == (422, "schema_violation")
        assert refused.body["details"]["reason"]
    producer.publish(topic, "1")
    producer.publish(topic, "2", delay="1h")
    producer.commit()

    assert [each["value"] for each in api.read(topic)] == ["1"]
    pending = api.get(f"/topics/{topic}/delayed")
    assert len(pending["messages"]) == 1


def test_records_of_a_transaction_are_refused_as_a_whole(api: Api, name: Name) -> None:
    topic = api.create(name(), 1, schema_validation=True)
    api.post(f"/schemas/subjects/{topic}-value/versions", {"schema": '{"type": "integer"}'})
    producer = Producer(api, name())
    producer.begin()
    whose = {"producer_id": producer.id, "epoch": producer.epoch}
    refused = send_records(api, topic, "1", '"x"', **whose)
    assert (refused.status, refused.code) == (422, "schema_violation")
    producer.commit()
    assert api.read(topic) == []


# A body of confluent-kafka 2.16 for Python, as it was sent: Protobuf is a descriptor in base64.
_SENT_BY_CONFLUENT = (
    b'{"schema": "CgtvcmRlci5wcm90bxIEc2hvcBofZ29vZ2xlL3Byb3RvYnVmL3RpbWVzdGFtcC5wcm90byKMAgoFT3Jk'
    b"ZXISDAoEbm90ZRgKIAEoCRImCgJhdBgBIAEoCzIaLmdvb2dsZS5wcm90b2J1Zi5UaW1lc3RhbXASGgoFc3RhdGUYAiAB"
    b"KA4yCy5zaG9wLlN0YXRlEh8KBWl0ZW1zGAMgAygLMhAuc2hvcC5PcmRlci5JdGVtEg4KBGNhcmQYBCABKANIABIOCgRj"
    b"YXNoGAUgASgDSAASIwoEdGFncxgGIAMoCzIVLnNob3AuT3JkZXIuVGFnc0VudHJ5GhMKBEl0ZW0SCwoDc2t1GAEgASgJ"
    b"GisKCVRhZ3NFbnRyeRILCgNrZXkYASABKAkSDQoFdmFsdWUYAiABKAk6AjgBQgkKB3BhaWRfYnkqKgoFU3RhdGUSEQoN"
    b'U1RBVEVfVU5LTk9XThAAEg4KClNUQVRFX1BBSUQQAWIGcHJvdG8z", "schemaType": "PROTOBUF", '
    b'"references": []}'
)


def test_a_descriptor_of_protobuf_is_kept_as_text_and_given_back_as_a_descriptor(
    api: Api, name: Name
) -> None:
    subject = f"{name()}-value"
    at = f"/schema-registry/subjects/{subject}"
    sent = api.send("POST", f"{at}/versions?normalize=False", _SENT_BY_CONFLUENT)
    assert sent.status == 200, sent.body
    id_ = sent.body["id"]
    shown = api.get(f"{at}/versions/1")["schema"]
    assert "message Order {" in shown
    assert "map<string, string> tags = 6;" in shown
    serialized = api.get(f"/schema-registry/schemas/ids/{id_}?format=serialized")["schema"]
    body = msgspec.json.encode({"schema": serialized, "schemaType": "PROTOBUF"})
    for each in (_SENT_BY_CONFLUENT, body):
        found = api.send("POST", at, each)
        assert (found.status, found.body["version"]) == (200, 1), found.body


def test_a_broken_descriptor_is_an_invalid_schema(api: Api, name: Name) -> None:
    at = f"/schema-registry/subjects/{name()}-value/versions"
    for text in ("CgtvcmRlci5wcm90bxIEc2hv", "AAAA", "Cg==", "IgYKBCJ9Owo=", "////////"):
        body = msgspec.json.encode({"schema": text, "schemaType": "PROTOBUF"})
        assert _error(api.send("POST", at, body)) == (422, 42201), text
