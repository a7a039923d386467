"""Data directories of earlier versions, opened by this one.

`upgrades/` has a directory for each version that changed what is stored, as a node of that version
left it when it was killed. Its topics keep their messages for ever, so that they do not age.

- `before-security`: before keys, ACLs, tenants and the audit log. Topics `orders` (20 messages in
  two partitions), `acme.orders` (5), `quick` (one, of a transaction) and `orders.dlq` (one dead
  letter); group `billing` acked 7 and rejected one of `orders`; group `readers` committed offset 3;
  a paused schedule `yearly`.
- `with-security`: with ACLs on. Tenants `acme` (quotas, 5 messages in `acme.orders`) and `globex`
  (suspended); keys of every kind, whose secrets are below; four ACLs.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.http_api import Json
from tests.integration.keyed_callers import Callers, keyed_node
from tests.integration.program import Program

UPGRADES = Path(__file__).parent / "upgrades"
# The groups of the directory are empty, and would be deleted some day.
FLAGS = ("--broker-group-retention-hours", "0")
# The secrets of `with-security`; they are of use for nothing else.
SECRETS = {
    "admin": "gq_1b3c6667c57130b95b86e3d80b3a7b20d3eff0aa0b33c1ff959913a3c1371fda",
    "producer": "gq_d24959fedc145705cf05bac55da6c77ed60277a21f2c907ec06da1154c346d53",
    "consumer": "gq_bec7183b69a1c8342e80a134fd144baca47ecc0ab08c78e6b3d935bc6c29e59a",
    "suspended": "gq_55b51f308fd364bed17136a341c137e03dee02c527155b882f400727e041d131",
    "revoked": "gq_27bfaceaa006d2ba9590db14fb1dc40575fd2cc5b87306e0db8ac68c235394c9",
    "rotated": "gq_7e54cd265319b73eecdfafd1606fd4f93a145ddbb8ed7dfae031702bea4e8802",
    "rotated_old": "gq_d6714babab60d7ed589b6f00802a8ab6e3b65afdb3476d191b580b6febb85ce5",
    "bound": "gq_a0faca32801ddcaa268758ac71d70bc43d2fa6e46c6bdd691def8ed44193d773",
}


def unpack(name: str, directory: Path) -> None:
    with tarfile.open(UPGRADES / f"{name}.tar.gz") as archive:
        archive.extractall(directory / "data", filter="data")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    unpack("before-security", tmp_path)
    return tmp_path


@pytest.fixture
def node(home: Path) -> Iterator[Callers]:
    with keyed_node(home, *FLAGS) as callers:
        yield callers


def values(node: Callers, topic: str, partitions: int, key: str | None = None) -> list[str]:
    found: list[str] = []
    for partition in range(partitions):
        path = f"/topics/{topic}/partitions/{partition}/messages?offset=0&limit=100"
        page = node.do("GET", path) if key is None else node.do("GET", path, key=key)
        found += [each["value"] for each in page["messages"]]
    return sorted(found)


def test_everything_of_before_is_there_and_belongs_to_default(node: Callers) -> None:
    assert values(node, "orders", 2) == sorted(f"order {number}" for number in range(20))
    assert values(node, "acme.orders", 1) == [f"acme {number}" for number in range(5)]
    assert values(node, "quick", 1) == ["committed"]
    assert len(values(node, "orders.dlq", 2)) == 1
    assert node.do("GET", "/groups/readers/offsets")["offsets"] == {"orders": {"0": 3}}
    assert node.do("GET", "/schedules/yearly")["state"] == "paused"
    (tenant,) = node.do("GET", "/admin/tenants")["tenants"]
    assert tenant["id"] == "default"
    topics = node.do("GET", "/admin/tenants/default/topics")["topics"]
    assert topics == ["acme.orders", "orders", "orders.dlq", "quick"]


def test_what_was_acked_before_is_not_delivered_again(node: Callers) -> None:
    key = node.key("consumer")["key"]
    body = {"client_id": "c", "topics": ["orders"], "mode": "shared"}
    member = node.do("POST", "/groups/billing/join", body, key)["member_id"]
    got: list[Json] = []
    poll = {"member_id": member, "timeout": "2s", "max_messages": 100}
    while answer := node.do("POST", "/groups/billing/poll", poll, key)["messages"]:
        got += answer
    assert len(got) == 20 - 7 - 1
    assert len({each["value"] for each in got}) == len(got)


def test_a_tenant_adopts_names_of_before_and_nothing_is_rewritten(node: Callers) -> None:
    refused = node.ask("POST", "/admin/tenants", {"id": "acme", "name": "acme"})
    assert (refused.status, refused.code) == (409, "tenant_not_empty")
    node.do("POST", "/admin/tenants", {"id": "acme", "name": "acme", "adopt": True})
    key = node.key("consumer", "acme")["key"]
    assert values(node, "acme.orders", 1, key) == [f"acme {number}" for number in range(5)]
    stranger = node.key("consumer")["key"]
    path = "/topics/acme.orders/partitions/0/messages?offset=0"
    assert node.ask("GET", path, key=stranger).status == 404


def test_the_start_on_it_is_the_first_record_of_the_audit_log(node: Callers) -> None:
    records = node.do("GET", "/topics/__audit/partitions/0/messages?offset=0")["messages"]
    assert '"action":"node.start"' in records[0]["value"]
    node.server.restart()
    again = node.do("GET", "/topics/__audit/partitions/0/messages?offset=0")["messages"]
    assert again[0] == records[0]


def test_the_first_key_is_made_in_it_while_the_node_is_stopped(home: Path) -> None:
    program = Program("http://127.0.0.1:1", home)
    key = program.do("key", "bootstrap", "--data-dir", str(home / "data")).lines[-1]
    with keyed_node(home, *FLAGS) as node:
        assert node.do("GET", "/whoami", key=key)["roles"] == ["admin"]
        assert len(values(node, "orders", 2, key)) == 20


def test_keys_acls_tenants_and_quotas_of_an_earlier_version_mean_the_same(tmp_path: Path) -> None:
    unpack("with-security", tmp_path)
    with keyed_node(tmp_path, *FLAGS, "--acl-enabled=true") as node:
        check_keys(node)
        check_tenants(node)
        check_rights(node)
        # Stated anew in this version's words, all of it is still the same.
        node.server.restart()
        check_keys(node)
        check_tenants(node)
        check_rights(node)


def check_keys(node: Callers) -> None:
    found = {
        name: node.ask("GET", "/whoami", key=secret).body.get("name")
        for name, secret in SECRETS.items()
        if name not in ("revoked", "rotated_old", "bound")
    }
    assert found == {name: name for name in found}
    listed = {each["name"]: each for each in node.do("GET", "/admin/keys")["keys"]}
    assert [name for name, each in listed.items() if each["revoked"]] == ["revoked"]
    assert listed["bound"]["certificate"] == "dns:worker.internal"
    assert listed["producer"]["metadata"] == {"team": "shop"}
    # Revoked, replaced, and of no use without its certificate: each answer comes late on purpose.
    for name in ("revoked", "rotated_old", "bound"):
        assert node.ask("GET", "/whoami", key=SECRETS[name]).code == "unauthenticated"


def check_tenants(node: Callers) -> None:
    tenants = {each["id"]: each for each in node.do("GET", "/admin/tenants")["tenants"]}
    assert {name: each["status"] for name, each in tenants.items()} == {
        "acme": "active",
        "default": "active",
        "globex": "suspended",
    }
    assert tenants["acme"]["display_name"] == "Acme Ltd"
    assert tenants["acme"]["metadata"] == {"plan": "gold"}
    quotas = node.do("GET", "/admin/tenants/acme/quotas")
    assert (quotas["max_messages_per_second"], quotas["max_topics"]) == (1000, 7)


def check_rights(node: Callers) -> None:
    assert node.do("GET", "/admin/acls")["count"] == 4
    assert values(node, "acme.orders", 1, SECRETS["consumer"]) == [
        f"acme {number}" for number in range(5)
    ]
    message = {"messages": [{"value": "x"}]}
    refused = {
        ("acme.events", "producer"): "permission_denied",
        ("orders", "producer"): "topic_not_found",
        ("acme.orders", "consumer"): "permission_denied",
        ("globex.orders", "suspended"): "tenant_inactive",
    }
    for (topic, name), code in refused.items():
        answer = node.ask("POST", f"/topics/{topic}/messages", message, SECRETS[name])
        assert answer.code == code, (topic, name)
