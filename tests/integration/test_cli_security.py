"""`goqueue key`, `acl`, `tenant`, `quota`, `whoami` and `audit` against a real node."""

import re

import msgspec
import pytest

from goqueue.model import is_key_text
from tests.integration.program import Finished, Program


def _items(finished: Finished, name: str) -> list[dict[str, object]]:
    return msgspec.convert(finished.json()[name], type=list[dict[str, object]])


def test_a_key_is_created_shown_once_rotated_and_revoked(program: Program) -> None:
    created = program.do("key", "create", "svc", "--role", "producer", "--meta", "team=a")
    assert is_key_text(created.lines[-1])
    assert "nobody can show it again" in created.err
    (listed,) = [line for line in program.do("key", "list").lines if " svc " in line]
    assert created.lines[-1] not in listed
    key_id = listed.split()[0]
    rotated = program.do("key", "rotate", key_id, "--grace", "1h", "-o", "json").json()
    assert rotated["key"] != created.lines[-1]
    assert program.do("key", "revoke", key_id, "-y").text == f"revoked {key_id}\n"
    assert "revoked" in program.do("key", "list").text


def test_acls_are_added_and_removed(program: Program) -> None:
    arguments = ("--principal", "role:producer", "--resource", "topic:orders*")
    program.do("acl", "add", *arguments, "--operation", "write", "--allow")
    (acl,) = _items(program.do("acl", "list", "-o", "json"), "acls")
    assert acl["resource_name"] == "orders*"
    program.do("acl", "remove", str(acl["id"]), "-y")
    assert "no ACLs" in program.do("acl", "list").text


def test_a_tenant_is_created_limited_suspended_and_deleted(program: Program) -> None:
    program.do("tenant", "create", "Acme", "--max-storage-bytes", "1GiB", "--meta", "a=b")
    assert re.search(r"max_storage_bytes +1\.0 GiB", program.do("tenant", "get", "acme").text)
    program.do("quota", "set", "acme", "--max-topics", "1")
    assert re.search(r"max_topics +1\b", program.do("quota", "get", "acme").text)
    program.do("topic", "create", "acme.orders")
    refused = program.run("topic", "create", "acme.second")
    assert refused.code == 1
    assert "(quota_exceeded)" in refused.err
    program.do("tenant", "suspend", "acme", "--reason", "unpaid")
    assert "unpaid" in program.do("tenant", "get", "acme").text
    program.do("tenant", "activate", "acme")
    assert program.do("tenant", "topics", "acme").text.count("acme.orders") == 1
    assert "no groups" in program.do("tenant", "groups", "acme").text
    assert re.search(r"topics +1\b", program.do("tenant", "usage", "acme").text)
    assert re.search(r"topics +100 %", program.do("tenant", "stats", "acme").text)
    assert "(tenant_not_empty)" in program.run("tenant", "delete", "acme", "-y").err
    assert program.do("tenant", "delete", "acme", "--with-topics", "-y").text == "deleted acme\n"


def test_the_audit_log_tells_who_changed_what(program: Program) -> None:
    program.do("topic", "create", "audited")
    program.do("topic", "alter", "audited", "--set", "max_deliveries=9")
    text = program.do("audit", "--resource", "audited").text
    assert re.search(r"local +topic\.create +topic:audited +done", text)
    assert "max_deliveries: 3 → 9" in text
    found = program.do("audit", "--resource", "audited", "--action", "topic.alter", "-o", "json")
    (record,) = _items(found, "records")
    assert record["key"] == "local"
    assert program.do("audit", "--denied").text == "no records\n"
    assert len(program.do("audit", "-n", "1", "-o", "jsonl").lines) == 1


def test_whoami_tells_the_key_of_this_program(program: Program) -> None:
    assert re.search(r"roles +admin", program.do("whoami").text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("key", "create", "x"), "--role"),
        (("key", "create", "x", "--role", "god"), "god"),
        (("key", "create", "x", "--role", "admin", "--meta", "a"), "is not NAME=VALUE"),
        (("key", "revoke", "key_1"), "add --yes"),
        (("acl", "add", "--principal", "*", "--resource", "x", "--operation", "read"), "--allow"),
        (
            ("acl", "add", "--principal", "*", "--resource", "x", "--operation", "read", "--deny"),
            "TYPE:NAME",
        ),
        (("tenant", "suspend", "x"), "--reason"),
        (("tenant", "update", "x"), "at least one"),
        (("quota", "set", "x"), "at least one quota"),
        (("quota", "set", "x", "--max-storage-bytes", "much"), "must be a size"),
        (("quota", "set", "x", "--max-topics", "-1"), "-1"),
        (("key", "bootstrap"), "--data-dir"),
        (("key", "create", "x", "--data-dir", "d", "--role", "producer"), "admin of default"),
        (("whoami", "--api-key", "gq_" + "0" * 64), "that begins with gq_000 is mistyped or cut"),
    ],
)
def test_wrong_usage_is_told_with_what_is_meant(
    program: Program, arguments: tuple[str, ...], said: str
) -> None:
    refused = program.run(*arguments)
    assert refused.code == 2
    assert said in refused.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("key", "revoke", "key_0000000000000000", "-y"), "key_not_found"),
        (("tenant", "get", "nobody"), "tenant_not_found"),
        (("tenant", "create", "x"), "name_invalid"),
        (("acl", "remove", "acl_0", "-y"), "acl_not_found"),
    ],
)
def test_a_refusal_of_the_server_is_told_with_its_code(
    program: Program, arguments: tuple[str, ...], code: str
) -> None:
    refused = program.run(*arguments)
    assert refused.code == 1
    assert f"({code})" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("key", "create", "x", "--role", "admin", "--certificate", "CN=x"),
            "`certificate` begins with uri: or dns:, or is sha256: and 64 hex digits",
        ),
        (
            (
                "acl",
                "add",
                "--principal",
                "x",
                "--resource",
                "topic:*",
                "--operation=all",
                "--deny",
            ),
            "`principal` is neither a key id nor role:<role> nor *",
        ),
    ],
)
def test_a_value_of_another_form_is_refused_in_words_and_not_by_a_pattern(
    program: Program, arguments: tuple[str, ...], said: str
) -> None:
    refused = program.run(*arguments)
    assert refused.code == 1
    assert said in refused.err
