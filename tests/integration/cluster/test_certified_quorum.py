"""Three real processes without a secret: certificates of one authority prove who is a node."""

import socket
import ssl
from pathlib import Path

import httpx
import pytest

from tests.certificates import NEEDS_OPENSSL, Authority, Issued
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses
from tests.integration.cluster.test_real_quorum import epoch_of, others_than

pytestmark = NEEDS_OPENSSL

_USAGE = "serverAuth,clientAuth"
_NAMES = ("node-1", "node-2", "node-3")


def proof(issued: Issued, authority: Authority) -> str:
    return (
        f'[cluster_tls]\nenabled = true\nclient_auth = "require-verify"\n'
        f'cert_file = "{issued.cert}"\nkey_file = "{issued.key}"\n'
        f'ca_file = "{authority.ca_file}"\n'
    )


def context(authority: Authority, issued: Issued | None = None) -> ssl.SSLContext:
    """What a caller of the port between nodes trusts, and shows."""
    made = ssl.create_default_context(cafile=str(authority.ca_file))
    if issued is not None:
        made.load_cert_chain(str(issued.cert), str(issued.key))
    return made


def test_nodes_with_certificates_replace_a_killed_controller_and_admit_nobody_else(
    tmp_path: Path,
) -> None:
    authority, stranger = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    issued = {name: authority.issue(name, usage=_USAGE) for name in _NAMES}
    proofs = {name: proof(each, authority) for name, each in issued.items()}
    cluster = ClusterProcesses(tmp_path, 3, proofs=proofs)
    try:
        cluster.start_all()
        cluster.wait_until_whole()
        state = cluster.wait_for_agreement()

        url = f"https://127.0.0.1:{cluster.peer_ports['node-1']}/cluster/state"
        with httpx.Client(verify=context(authority, issued["node-2"])) as node:
            assert node.get(url).json()["cluster_id"] == state["cluster_id"]
        for shown in (None, stranger.issue("node-2", usage=_USAGE)):
            with (
                httpx.Client(verify=context(authority, shown)) as other,
                pytest.raises(httpx.HTTPError),
            ):
                other.get(url)
        with socket.create_connection(("127.0.0.1", cluster.peer_ports["node-1"])) as plain:
            plain.settimeout(10)
            plain.sendall(b"GET /cluster/state HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"cluster_id" not in plain.recv(4096)

        served = HTTP.get(f"{cluster['node-1'].url}/metrics").text
        assert 'goqueue_tls_certificate_expiry_seconds{listener="internal"}' in served

        controller = str(state["controller_id"])
        cluster[controller].kill()
        left = others_than(cluster, controller)
        after = cluster.wait_for_agreement(*left, above=epoch_of(state))
        assert after["controller_id"] in left
    finally:
        cluster.kill_all()
    assert "Traceback (most recent call last)" not in cluster.said, cluster.said[-4000:]


def test_a_node_with_a_certificate_of_another_authority_says_so_and_joins_nothing(
    tmp_path: Path,
) -> None:
    authority, stranger = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    proofs = {name: proof(authority.issue(name, usage=_USAGE), authority) for name in _NAMES}
    proofs["node-3"] = proof(stranger.issue("node-3", usage=_USAGE), stranger)
    cluster = ClusterProcesses(tmp_path, 3, quorum=2, proofs=proofs)
    try:
        cluster.start_all()
        cluster["node-3"].wait_to_say("certificate")
        (state,) = cluster.wait_for(["node-3"], lambda _: True, "an answer")
        assert not state["cluster_id"]
        assert not state["controller_id"]
    finally:
        cluster.kill_all()
    assert "Traceback (most recent call last)" not in cluster.said, cluster.said[-4000:]
