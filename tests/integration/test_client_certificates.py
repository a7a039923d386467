"""Client certificates as proofs of keys: a real node, real certificates, unmodified clients."""

import contextlib
import hashlib
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

import goqueue
from tests.certificates import NEEDS_OPENSSL, Authority, Issued
from tests.integration.http_api import Json
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess

pytestmark = NEEDS_OPENSSL

ROOT = "the-root-key-of-these-tests-hidden"


class Secured(NamedTuple):
    """A node that verifies client certificates, and asks for keys."""

    url: str
    authority: Authority
    process: ServerProcess

    def client(self, certificate: Issued | None = None, key: str = "") -> httpx.Client:
        context = ssl.create_default_context(cafile=str(self.authority.ca_file))
        if certificate is not None:
            context.load_cert_chain(certificate.cert, certificate.key)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, verify=context, headers=headers, timeout=30)

    def who(self, certificate: Issued | None = None, key: str = "") -> str:
        """The key that the node takes a client for; empty: none."""
        with self.client(certificate, key) as client:
            answer = client.get("/whoami")
            return str(answer.json()["key_id"]) if answer.status_code == 200 else ""

    def create(self, certificate: str, *roles: str) -> Json:
        body = {"name": certificate, "roles": roles or ["producer"], "certificate": certificate}
        with self.client(key=ROOT) as client:
            answer = client.post("/admin/keys", json=body)
        assert answer.status_code == 201, answer.text
        created: Json = answer.json()
        return created

    def revoke(self, key: Json) -> None:
        with self.client(key=ROOT) as client:
            client.delete(f"/admin/keys/{key['id']}").raise_for_status()

    def issue(self, sans: str) -> Issued:
        return self.authority.issue("worker", sans, usage="clientAuth")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("certificates")
    authority = Authority(home / "ca")
    issued = authority.issue()
    secret = home / "root-key"
    secret.write_text(ROOT)
    secret.chmod(0o600)
    process = ServerProcess(
        home / "data",
        *("--tls-enabled", "--tls-cert-file", issued.cert, "--tls-key-file", issued.key),
        *("--tls-client-auth", "verify", "--tls-ca-file", str(authority.ca_file)),
        *("--auth-enabled", "--api-root-key-file", str(secret)),
    )
    process.start()
    try:
        url = process.url.replace("127.0.0.1", "localhost")
        yield Secured(url, authority, process)
    finally:
        process.kill()


def fingerprint(issued: Issued) -> str:
    encoded = ssl.PEM_cert_to_DER_cert(Path(issued.cert).read_text())
    return hashlib.sha256(encoded).hexdigest()


@pytest.mark.parametrize("kind", ["uri", "dns", "sha256"])
def test_a_certificate_proves_the_key_that_names_it(node: Secured, kind: str) -> None:
    own = node.issue(f"URI:spiffe://prod/{kind},DNS:{kind}.worker.internal")
    other = node.issue(f"URI:spiffe://prod/{kind}-other,DNS:{kind}.worker.internal.example")
    name = {
        "uri": f"uri:spiffe://prod/{kind}",
        "dns": f"dns:{kind}.worker.internal",
        "sha256": f"sha256:{fingerprint(own)}",
    }[kind]
    key = node.create(name)
    assert node.who(own) == key["id"]
    assert node.who(other) == ""
    assert node.who() == ""


def test_the_secret_of_such_a_key_works_only_over_its_certificate(node: Secured) -> None:
    own, other = node.issue("DNS:bound.internal"), node.issue("DNS:other.internal")
    key = node.create("dns:bound.internal")
    assert node.who(own, key["key"]) == key["id"]
    assert node.who(other, key["key"]) == ""
    assert node.who(None, key["key"]) == ""


def test_a_key_without_a_certificate_works_over_any_connection(node: Secured) -> None:
    own = node.issue("DNS:named.internal")
    node.create("dns:named.internal")
    assert node.who(own, ROOT) == "root"
    assert node.who(own, "gq_" + "0" * 64) == "", "a wrong secret is not forgiven for a certificate"


def test_names_are_compared_whole_and_never_with_the_common_name(node: Secured) -> None:
    node.create("dns:worker")
    wildcard = node.create("dns:*.apps.internal")
    assert node.who(node.issue("DNS:elsewhere.internal")) == "", "the common name is worker"
    assert node.who(node.issue("DNS:a.apps.internal")) == ""
    assert node.who(node.issue("DNS:*.apps.internal")) == wildcard["id"]


def test_a_revoked_key_ends_on_an_open_connection_and_frees_its_certificate(node: Secured) -> None:
    own = node.issue("DNS:revoked.internal")
    key = node.create("dns:revoked.internal")
    with node.client(own) as client:
        assert client.get("/whoami").status_code == 200
        node.revoke(key)
        assert client.get("/whoami").status_code == 401
    assert node.who(own) == ""
    again = node.create("dns:revoked.internal")
    assert node.who(own) == again["id"]


def test_the_key_of_a_certificate_has_its_roles_and_no_more(node: Secured) -> None:
    own = node.issue("DNS:reader.internal")
    node.create("dns:reader.internal", "consumer")
    with node.client(key=ROOT) as admin:
        admin.post("/topics", json={"name": "certified", "num_partitions": 1}).raise_for_status()
    with node.client(own) as client:
        assert client.get("/topics").json()["topics"] == ["certified"]
        refused = client.post("/topics/certified/messages", json={"messages": [{"value": "x"}]})
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing")
def test_curl_the_sdk_and_the_command_line_need_no_key_beside_their_certificate(
    node: Secured, tmp_path: Path
) -> None:
    own = node.issue("DNS:client.internal")
    key = node.create("dns:client.internal")
    ca_file = str(node.authority.ca_file)
    curl = ["curl", "-sS", "--cacert", ca_file, "--cert", own.cert, "--key", own.key]
    shown = subprocess.run(
        [*curl, f"{node.url}/whoami"], capture_output=True, text=True, check=True
    ).stdout
    assert key["id"] in shown
    with goqueue.connect_sync(
        node.url, ca_file=ca_file, client_cert=own.cert, client_key=own.key
    ) as q:
        assert q.whoami().key_id == key["id"]
    program = Program(node.url, tmp_path)
    flags = ("--ca-file", ca_file, "--client-cert", own.cert, "--client-key", own.key)
    assert key["id"] in program.do(*flags, "whoami").text


def test_a_name_that_proves_a_key_is_given_to_no_other(node: Secured) -> None:
    node.create("dns:taken.internal")
    body = {"name": "x", "roles": ["producer"], "certificate": "dns:taken.internal"}
    with contextlib.closing(node.client(key=ROOT)) as client:
        refused = client.post("/admin/keys", json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "certificate_in_use")
    assert "proves another key already" in refused.json()["error"]
