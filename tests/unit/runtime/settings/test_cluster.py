"""Settings of cluster mode: which values go together."""

import pytest

from goqueue.runtime.cluster_links import sealing_secret
from tests.unit.runtime.settings.given_settings import problems, read

MEMBER = {
    "cluster.enabled": "true",
    "cluster.peers": "127.0.0.1:7001,127.0.0.1:7002",
    "cluster.secret": "s" * 20,
}
TLS = {
    "cluster_tls.enabled": "true",
    "cluster_tls.cert_file": "c.pem",
    "cluster_tls.key_file": "k.pem",
    "cluster_tls.ca_file": "a.pem",
}
ETCD = {"cluster.metadata": "etcd", "cluster.etcd_endpoints": "127.0.0.1:2379,[::1]:2379"}
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the address that is to be refused


def given(*parts: dict[str, str], **changes: str) -> dict[str, str]:
    """Settings as variables; in `changes` a dot is two underscores."""
    values: dict[str, str] = {}
    for part in parts:
        values |= part
    values |= {name.replace("__", "."): value for name, value in changes.items()}
    return {"GOQUEUE_" + name.replace(".", "_").upper(): each for name, each in values.items()}


def settings_at_fault(environment: dict[str, str]) -> list[str]:
    return [problem.setting for problem in problems(environment=environment)]


def test_a_node_alone_has_no_listener_for_others_and_no_cluster() -> None:
    settings = read()
    assert settings.listeners.internal is None
    assert not settings.cluster.is_enabled


def test_a_member_on_loopback_needs_peers_and_a_secret() -> None:
    settings = read(environment=given(MEMBER))
    assert settings.cluster.peers == ("127.0.0.1:7001", "127.0.0.1:7002")
    assert [each.reveal() for each in settings.cluster.secrets] == ["s" * 20]
    assert str(settings.listeners.internal) == "127.0.0.1:7000"
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("changes", "at_fault"),
    [
        ({"cluster__peers": ""}, "cluster.peers"),
        ({"cluster__secret": ""}, "cluster.secret"),
        ({"cluster__secret": "with a space in it"}, "cluster.secret"),
        ({"cluster__quorum": "1"}, "cluster.quorum"),
        ({"cluster__quorum": "4"}, "cluster.quorum"),
        ({"listeners__internal": "off"}, "listeners.internal"),
        ({"listeners__internal": "10.0.0.1:7000"}, "cluster_tls.enabled"),
        ({"cluster__peers": "node-2:7000"}, "cluster_tls.enabled"),
        ({"cluster__advertise": "nowhere"}, "cluster.advertise"),
        ({"cluster__client_advertise": "http://a:1"}, "cluster.client_advertise"),
    ],
)
def test_a_member_that_could_not_work_or_would_send_its_secret_in_the_clear_is_refused(
    changes: dict[str, str], at_fault: str
) -> None:
    assert settings_at_fault(given(MEMBER, **changes)) == [at_fault]


def test_a_quorum_between_a_majority_and_all_is_accepted() -> None:
    assert read(environment=given(MEMBER, cluster__quorum="2")).cluster.quorum == 2
    assert read(environment=given(MEMBER, cluster__quorum="3")).cluster.quorum == 3


def test_beyond_loopback_tls_and_an_address_for_others_are_needed() -> None:
    beyond = given(
        MEMBER, TLS, listeners__internal=f"{EVERY_ADDRESS}:7000", cluster__peers="node-2:7000"
    )
    assert settings_at_fault(beyond) == ["cluster.advertise"]
    beyond["GOQUEUE_CLUSTER_ADVERTISE"] = "node-1:7000"
    settings = read(environment=beyond)
    assert settings.cluster.tls.is_enabled
    assert settings.cluster.advertise == "node-1:7000"


def test_certificates_prove_nodes_without_a_secret_only_if_they_are_required() -> None:
    member = MEMBER | {"cluster.secret": ""}
    assert settings_at_fault(given(member, TLS)) == ["cluster.secret"]
    optional = given(member, TLS, cluster_tls__client_auth="verify")
    assert settings_at_fault(optional) == ["cluster.secret"]
    required = given(member, TLS, cluster_tls__client_auth="require-verify")
    assert read(environment=required).cluster.accepts_certificates


def test_tls_between_nodes_needs_every_file_and_no_certificate_of_its_own() -> None:
    bare = given(MEMBER, cluster_tls__enabled="true", cluster_tls__self_signed="true")
    assert settings_at_fault(bare) == [
        "cluster_tls.self_signed",
        "cluster_tls.cert_file",
        "cluster_tls.key_file",
        "cluster_tls.ca_file",
    ]


def test_a_short_secret_is_warned_about() -> None:
    (warning,) = read(environment=given(MEMBER, {"cluster.secret": "short"})).warnings
    assert "cluster.secret is short" in warning
    assert "'short'" not in warning


def test_nodes_with_one_secret_seal_verifiers_of_keys_alike() -> None:
    one, other = b"1" * 32, b"2" * 32
    member = read(environment=given(MEMBER))
    assert sealing_secret(member, one) == sealing_secret(member, other) not in {one, other}
    stranger = read(environment=given(MEMBER, cluster__secret="t" * 20))
    assert sealing_secret(stranger, one) != sealing_secret(member, one)
    # Alone, and where certificates prove nodes, there is no secret that others have.
    assert sealing_secret(read(), one) == one
    certified = given(MEMBER, TLS, cluster_tls__client_auth="require", cluster__secret="")
    assert sealing_secret(read(environment=certified), one) == one


def test_metadata_in_etcd_need_an_endpoint_and_are_in_the_own_log_otherwise() -> None:
    assert read(environment=given(MEMBER)).cluster.etcd is None
    etcd = read(environment=given(MEMBER, ETCD)).cluster.etcd
    assert etcd is not None
    assert etcd.endpoints == ("127.0.0.1:2379", "[::1]:2379")
    assert (etcd.prefix, etcd.ca_file) == ("/goqueue", "")


@pytest.mark.parametrize(
    ("changes", "at_fault"),
    [
        ({"cluster__etcd_endpoints": ""}, "cluster.etcd_endpoints"),
        ({"cluster__metadata": "quorum"}, "cluster.metadata"),
        ({"cluster__metadata": "zookeeper"}, "cluster.metadata"),
        ({"cluster__etcd_prefix": ""}, "cluster.etcd_prefix"),
        ({"cluster__etcd_prefix": "goqueue"}, "cluster.etcd_prefix"),
        ({"cluster__etcd_endpoints": "etcd-1:2379"}, "cluster.etcd_ca_file"),
        ({"cluster__etcd_cert_file": "c.pem"}, "cluster.etcd_key_file"),
        ({"cluster__etcd_key_file": "k.pem"}, "cluster.etcd_cert_file"),
        (
            {"cluster__etcd_key_file": "k.pem", "cluster__etcd_cert_file": "c.pem"},
            "cluster.etcd_ca_file",
        ),
    ],
)
def test_an_etcd_that_could_not_be_used_or_would_be_used_in_the_clear_is_refused(
    changes: dict[str, str], at_fault: str
) -> None:
    assert settings_at_fault(given(MEMBER, ETCD, **changes)) == [at_fault]
