"""No operation of the API shows a tenant anything of another, or changes it.

Every operation of the OpenAPI document is asked for with the keys of one tenant and the names,
receipts, producers, schedules, traces and ids of another. Nothing may be shown or changed, and the
answer has to be that for things that do not exist, byte by byte. The same holds if all names of a
request are the caller's own except one: in the path, in the query, or anywhere in the body.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from tests.integration.http_api import Answer, Json
from tests.integration.keyed_callers import Callers, keyed_node

# What needs no key shows names of nobody, or is open on loopback only: the metrics.
OPEN = {"/metrics", "/openapi.json", "/docs", "/", "/health", "/healthz", "/livez", "/readyz"}
OPEN |= {"/version"}
# Of the caller itself, or of all that it may see.
OWN = {"/whoami", "/topics", "/groups", "/stats", "/schedules", "/traces", "/traces/search"}
OWN |= {"/traces/stats", "/transactions", "/transactions/stats", "/producers/init"}
OWN |= {"/delay/stats", "/delayed/stats", "/reliability/stats", "/priority/stats"}
OWN |= {"/rebalance/stats"}
# Of the node, for every role; no name of a tenant is in it.
OWN |= {"/cluster/state", "/cluster/health"}
OWN |= {"/schemas/subjects", "/schemas/stats", "/schemas/config", "/schema-registry/subjects"}
OWN |= {f"/schema-registry/{each}" for each in ("schemas/types", "config", "mode")}
DATA = {"application/json", "application/octet-stream", "text/event-stream"}
DATA |= {"application/vnd.schemaregistry.v1+json"}
# They answer each item, or say for a whole list that nothing was done.
BY_ITEM = {"/messages/ack/batch", "/messages/visibility/batch", "/messages/release"}
BY_ITEM |= {f"/groups/{{group}}/leases/{each}" for each in ("ack", "nack", "reject", "extend")}
BY_ITEM |= {"/groups/{group}/leases/release", "/replies/{reply_to}"}
# The same for every name.
BY_ITEM |= {"/schema-registry/mode/{subject}"}


class Things(NamedTuple):
    """What requests name: by the parameters of paths, and by the fields of bodies."""

    path: dict[str, str]
    fields: Json


class Operation(NamedTuple):
    method: str
    path: str
    query: list[str]
    fields: dict[str, Json]
    required: list[str]


def tenant_with_everything(node: Callers, tenant: str) -> Things:
    """Something of everything, and what names it."""
    root = node.do
    named = f"{tenant}.orders"
    if tenant == "globex":
        root("POST", "/admin/tenants", {"id": tenant, "name": tenant})
    root("POST", "/topics", {"name": named, "num_partitions": 1})
    messages = [{"value": f"secret of {tenant}"}, {"value": "late", "delay": "1h"}]
    root("POST", f"/topics/{named}/messages", {"messages": messages})
    key = node.key("admin", tenant)
    own = key["key"]
    join = {"client_id": f"{tenant}.client", "topics": [named], "mode": "shared"}
    member = root("POST", f"/groups/{named}/join", join, own)
    body = {"member_id": member["member_id"], "timeout": "5s"}
    (leased,) = root("POST", f"/groups/{named}/poll", body, own)["messages"]
    producer = root("POST", "/producers/init", {"transactional_id": f"{tenant}.tx"}, own)
    owner = {name: producer[name] for name in ("producer_id", "epoch")}
    begin = {**owner, "transactional_id": f"{tenant}.tx"}
    transaction = root("POST", "/transactions/begin", begin, own)["transaction_id"]
    schedule = {"name": named, "topic": named, "cron": "0 0 1 1 *"}
    root("POST", "/schedules", {**schedule, "message": {"value": "x"}}, own)
    trace = root("GET", "/traces", key=own)["traces"][0]["trace_id"]
    acl = {"principal": key["id"], "resource_type": "topic", "resource_name": f"{tenant}.*"}
    acl = root("POST", "/admin/acls", {**acl, "operation": "all", "effect": "allow"})
    schema = {"schema": f'{{"type": "enum", "name": "secret", "symbols": ["{tenant}"]}}'}
    schema["schemaType"] = "AVRO"
    schema = root("POST", f"/schemas/subjects/{named}/versions", schema, own)
    backup = root("POST", "/admin/backup", {})["backup_id"]
    while root("GET", f"/admin/backup/{backup}")["state"] == "running":
        pass
    return Things(
        path={"topic": named, "group": named, "schedule": named, "tenant": tenant, "id": trace}
        | {"partition": "0", "offset": "1", "producer_id": str(producer["producer_id"])}
        | {"transaction_id": transaction, "backup": backup, "key": key["id"]}
        | {"acl": acl["id"], "reply_to": "0" * 32, "node": f"{tenant}.node"}
        | {"subject": named, "version": "1", "schema_id": str(schema["id"])},
        fields={"topic": named, "topics": [named], "name": named, "to_topic": named}
        | {"group": named, "member_id": member["member_id"], "generation": member["generation"]}
        | {"receipt_handle": leased["receipt_handle"], "dead_letter_topic": named}
        | {"receipt_handles": [leased["receipt_handle"]], "producer_id": producer["producer_id"]}
        | {"epoch": producer["epoch"], "transactional_id": f"{tenant}.tx", "client_id": "c"}
        | {"transaction_id": transaction, "partition": 0, "tenant": tenant}
        | {"transaction_ids": [transaction], "principal": key["id"]}
        | {"resource_name": named, "id": tenant, "offsets": {named: {"0": 0}}}
        | {"revoked_partitions": [{"topic": named, "partition": 0}]}
        | {"leases": [{"handle": leased["receipt_handle"], "offsets": [[0, 1]]}]}
        | {"references": [{"name": "other", "subject": named, "version": 1}]}
        | {"partitions": [{"topic": named, "partition": 0, "new_replicas": [f"{tenant}.node"]}]}
        # Of queries alone.
        | {"consumer_group": named, "consumer_id": member["member_id"], "subject": named}
        | {"subjectPrefix": named},
    )


def absent(things: Things) -> Things:
    """The same in form, of which nothing exists."""
    fields: Json = {name: nothing_in(value) for name, value in things.fields.items()}
    fields["producer_id"] = 1 << 40
    path = {name: nothing(value) for name, value in things.path.items()}
    path |= {"partition": "0", "offset": "1", "producer_id": str(1 << 40)}
    path |= {"version": "1", "schema_id": "987654"}
    return Things(path, fields)


def nothing(value: str) -> str:
    """A name of the same length, so that answers differ in nothing else."""
    if value.startswith("globex."):
        return "globex." + "z" * len(value[len("globex.") :])
    if value == "globex":
        return "zzzzzz"
    if re.fullmatch(r"[0-9a-f-]+|(key|acl)_[0-9a-f]+", value):
        kept = len(value) - 4
        return value[:kept] + ("0000" if value[kept:] != "0000" else "1111")
    return value[:-4] + ("AAAA" if value[-4:] != "AAAA" else "BBBB")


def nothing_in(value: Json | list[Json] | str | int) -> Any:  # noqa: ANN401 - of the same type
    """A value of a body in which each text names nothing."""
    if isinstance(value, str):
        return nothing(value)
    if isinstance(value, list):
        return [nothing_in(each) for each in value]
    if isinstance(value, dict):
        # Names of fields stay, names of things do not.
        return {
            (nothing(name) if "." in name else name): (
                within if name in ("name", "version") else nothing_in(within)
            )
            for name, within in value.items()
        }
    return value


def operations(document: Json) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            schema: Json = {}
            for content in operation.get("requestBody", {"content": {}})["content"].values():
                schema = resolved(document, content["schema"])
            fields = schema.get("properties", {})
            given = operation.get("parameters", [])
            query = [each["name"] for each in given if each["in"] == "query"]
            # Two things have an id: a trace and a schema.
            named = path.replace("/ids/{id}", "/ids/{schema_id}")
            yield Operation(method.upper(), named, query, fields, schema.get("required", []))


def resolved(document: Json, schema: Json) -> Json:
    while "$ref" in schema or "allOf" in schema:
        if "allOf" in schema:
            # The fields stand in the first part; others say which of them exclude each other.
            schema = schema["allOf"][0]
        else:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


# What further fields need for a request that would be carried out if its names were the own ones.
FIELDS: Json = {
    "messages": [{"value": "x"}],
    "message": {"value": "x"},
    "value": "x",
    "every": "1h",
    "timeout": "1s",
    "strategy": "earliest",
    "reason": "x",
    "roles": ["admin"],
    "resource_type": "topic",
    "operation": "read",
    "effect": "allow",
    "key": "commit-key",
    "max_topics": 1,
    "max_deliveries": 5,
    "schema": '{"type": "string"}',
    "schemaType": "AVRO",
    "compatibilityLevel": "FULL",
    "compatibility": "FULL",
    "unclean": True,
}


# Without them a request would be refused for another reason.
NEEDED = ("every", "max_topics", "max_deliveries", "schemaType")


def body_of(operation: Operation, things: Things) -> Json | None:
    if not operation.fields:
        return {} if operation.method in ("POST", "PUT") else None
    body: Json = {}
    for name in operation.fields:
        is_needed = name in operation.required or name in NEEDED
        if name in things.fields:
            body[name] = things.fields[name]
        elif is_needed and name in FIELDS:
            body[name] = FIELDS[name]
    if operation.path.endswith("/trim"):
        body["offsets"] = {"0": 0}
    # Without a reference a schema is registered; with one it is refused for want of its subject.
    body.pop("references", None)
    if operation.path == "/transactions/offsets":
        del body["receipt_handles"]
    if "topics" in body:
        # Where one may be given by two names, it is given once.
        body.pop("topic", None)
    return body


def ask(node: Callers, operation: Operation, things: Things, key: str) -> Answer:
    query: Json = {}
    if operation.method == "GET" and operation.path.endswith(("/poll", "/assignment")):
        query["member_id"] = things.fields["member_id"]
    return send(node, operation, things.path, query, body_of(operation, things), key)


def send(
    node: Callers,
    operation: Operation,
    path: dict[str, str],
    query: Json,
    body: Json | None,
    key: str,
) -> Answer:
    target = operation.path.format(**path)
    if query:
        target += f"?{urlencode(query)}"
    return node.ask(operation.method, target, body, key)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    with keyed_node(tmp_path_factory.mktemp("isolation")) as callers:
        callers.do("POST", "/admin/tenants", {"id": "acme", "name": "acme"})
        yield callers


@pytest.fixture(scope="module")
def things(node: Callers) -> Things:
    return tenant_with_everything(node, "globex")


@pytest.fixture(scope="module")
def own(node: Callers) -> Things:
    return tenant_with_everything(node, "acme")


def state_of(node: Callers) -> list[Json]:
    """All that a change of the other tenant would show in."""
    paths = [
        "/topics/globex.orders",
        "/topics/globex.orders/delayed",
        "/topics/globex.orders/partitions/0/messages?offset=0",
        "/groups/globex.orders",
        "/groups/globex.orders/offsets",
        "/schedules/globex.orders",
        "/transactions",
        "/schemas/subjects/globex.orders/versions/1",
        "/schemas/config",
        "/admin/acls",
        "/admin/tenants/globex",
        "/admin/tenants/globex/quotas",
        "/admin/tenants/globex/topics",
        "/admin/tenants/globex/groups",
    ]
    keys = [
        {name: value for name, value in each.items() if name != "last_used_at"}
        for each in node.do("GET", "/admin/keys")["keys"]
        if each["tenant"] != "acme"
    ]
    backups = [each["backup_id"] for each in node.do("GET", "/admin/backup")["backups"]]
    state = [node.do("GET", path) for path in paths]
    for message in state[1]["messages"]:
        del message["time_remaining"]
    return [*state, {"keys": keys, "backups": backups}]


@pytest.mark.parametrize("role", ["admin", "producer", "consumer", "readonly"])
def test_no_operation_shows_or_changes_what_another_tenant_has(
    node: Callers, things: Things, role: str
) -> None:
    document = node.do("GET", "/openapi.json")
    key = node.key(role, "acme")["key"]
    before = state_of(node)
    crawled = list(operations(document))
    for operation in crawled:
        if operation.path in OPEN:
            continue
        answer = ask(node, operation, things, key)
        shown = answer.content
        for given in (*things.path.values(), *map(str, things.fields.values())):
            shown = shown.replace(given.encode(), b"")
        assert b"globex" not in shown, (operation, answer)
        assert b"secret" not in shown, (operation, answer)
        assert_is_data(answer)
        is_own = operation.path in OWN and operation.method == "GET"
        if not is_own and operation.path not in (*BY_ITEM, "/producers/init"):
            assert answer.status in (400, 403, 404), (operation, answer)
    assert len(crawled) > 110
    assert state_of(node) == before


@pytest.mark.parametrize("role", ["admin", "producer", "consumer", "readonly"])
def test_what_another_tenant_has_is_answered_like_what_nobody_has(
    node: Callers, things: Things, role: str
) -> None:
    document = node.do("GET", "/openapi.json")
    key = node.key(role, "acme")["key"]
    none = absent(things)
    refused: dict[str, int] = {}
    for operation in operations(document):
        if operation.path in OPEN | OWN:
            continue
        foreign, missing = (ask(node, operation, each, key) for each in (things, none))
        assert masked(foreign, things) == masked(missing, none), operation
        if foreign.status >= 400:
            code = foreign.body["code"]
            refused[code] = refused.get(code, 0) + 1
    if role == "admin":
        # Requests that could not even be read would show nothing.
        assert refused.get("request_invalid", 0) <= 1, refused
        assert refused["topic_not_found"] > 10
        assert refused["group_not_found"] > 10


# Where a request may name things, beside its path.
PLACES = (
    *("topic", "topics", "to_topic", "dead_letter_topic", "group", "member_id", "subject"),
    *("receipt_handle", "receipt_handles", "leases", "offsets", "revoked_partitions"),
    *("producer_id", "transactional_id", "transaction_id", "transaction_ids", "references"),
    *("consumer_group", "consumer_id", "subjectPrefix"),
)


class Mixed(NamedTuple):
    """A request of which one name is not the caller's own."""

    place: str
    path: dict[str, str]
    query: Json
    body: Json | None


def mixed(operation: Operation, own: Things, other: Things) -> Iterator[Mixed]:
    """All requests of an operation with one name of another and else own ones."""
    body = body_of(operation, own)
    in_path = [
        each
        for each in own.path
        if f"{{{each}}}" in operation.path and each not in ("partition", "offset", "version")
    ]
    in_body = [each for each in PLACES if each in operation.fields]
    in_query = [each for each in PLACES if each in operation.query]
    query: Json = {"member_id": own.fields["member_id"]} if "member_id" in in_query else {}
    if in_body or in_query:
        for place in in_path:
            yield Mixed(place, {**own.path, place: other.path[place]}, query, body)
    for place in in_query:
        asked = {**query, place: other.fields[place]}
        yield Mixed(f"?{place}", own.path, asked, body)
    for place in in_body:
        changed = {**(body or {}), place: other.fields[place]}
        if place == "topic":
            changed.pop("topics", None)
        if place == "offsets" and operation.path.endswith("/trim"):
            continue
        yield Mixed(f"body {place}", own.path, query, changed)


@pytest.mark.parametrize("role", ["admin", "producer", "consumer", "readonly"])
def test_one_foreign_name_among_own_ones_is_answered_like_an_absent_one(
    node: Callers, things: Things, own: Things, role: str
) -> None:
    document = node.do("GET", "/openapi.json")
    key = node.key(role, "acme")["key"]
    none = absent(things)
    before = state_of(node)
    codes: list[str | None] = []
    for operation in operations(document):
        if operation.path == "/producers/init":
            # Transactional ids are separate by tenant, so every one is the caller's own.
            continue
        pairs = zip(mixed(operation, own, things), mixed(operation, own, none), strict=True)
        for theirs, nobodys in pairs:
            foreign = send(node, operation, *theirs[1:], key)
            missing = send(node, operation, *nobodys[1:], key)
            where = (operation.method, operation.path, theirs.place, foreign, missing)
            assert masked(foreign, things) == masked(missing, none), where
            shown = foreign.content
            for given in (*things.path.values(), *map(str, things.fields.values())):
                shown = shown.replace(given.encode(), b"")
            assert b"globex" not in shown, where
            assert_is_data(foreign)
            codes.append(foreign.body.get("code") if foreign.status >= 400 else None)
    assert len(codes) > 100
    if role == "admin":
        # Requests that could not even be read, or were refused for another reason, show nothing.
        assert codes.count("request_invalid") <= 2, codes
        assert codes.count("permission_denied") <= 1, codes
    assert state_of(node) == before


def assert_is_data(answer: Answer) -> None:
    """No browser renders it as a page, whatever is in the messages and names."""
    kind = answer.headers.get("content-type", "application/json").partition(";")[0]
    assert kind in DATA, answer
    assert answer.headers.get("cache-control") == "no-store", answer


def masked(answer: Answer, things: Things) -> tuple[int, bytes, list[str]]:
    """What a client sees, without what it has sent itself."""
    content = re.sub(rb"20[0-9-]+T[0-9:.]+Z", b"time", answer.content)
    content = re.sub(rb"(producer_id|schema_id) [0-9]+", rb"\1 ?", content)
    given = [*things.path.values(), *map(str, things.fields.values())]
    for each in sorted(given, key=len, reverse=True):
        if len(each) > 1:
            content = content.replace(each.encode(), b"?")
    return answer.status, content, sorted(answer.headers)
