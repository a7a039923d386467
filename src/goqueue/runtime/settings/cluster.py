"""The settings of cluster mode and of TLS: what they are, and which values go together.

Beyond loopback links between nodes need TLS, because the secret itself is sent; and a node that is
to be a member of a cluster is never started as anything less.
"""

import re

import msgspec

from goqueue.model import Secret
from goqueue.runtime.settings.catalogue import (
    CLUSTER_ADVERTISE,
    CLUSTER_CATCH_UP_BYTES_PER_SEC,
    CLUSTER_CLIENT_ADVERTISE,
    CLUSTER_ENABLED,
    CLUSTER_ETCD,
    CLUSTER_METADATA,
    CLUSTER_PEERS,
    CLUSTER_QUORUM,
    CLUSTER_SECRET,
    CLUSTER_SECRET_FILE,
    CLUSTER_TLS,
    LISTENERS_HTTP,
    LISTENERS_INTERNAL,
    TlsRows,
)
from goqueue.runtime.settings.kinds import Listener, read_address
from goqueue.runtime.settings.problems import Problem
from goqueue.runtime.settings.values import Values

__all__ = [
    "ClusterSettings",
    "EtcdSettings",
    "TlsSettings",
    "build_cluster",
    "build_tls",
    "check_cluster",
    "secret_problem",
    "split_secret",
]

_SECRET_CHARACTERS_ADVISED = 16
_ETCD = "etcd"
_PREFIX = re.compile(r"/[A-Za-z0-9._/-]{1,200}")
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, never bound
_REQUIRED = frozenset({"require", "require-verify"})


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """TLS on the client ports. Without `self_signed` both files of the certificate are named."""

    is_enabled: bool = False
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    is_self_signed: bool = False
    client_auth: str = "none"
    min_version: str = "1.2"


class EtcdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An etcd that keeps the metadata. With a `ca_file` TLS is used."""

    endpoints: tuple[str, ...]
    prefix: str
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The place of this node in a cluster, and what proves nodes to each other.

    `quorum` 0 is a majority, `catch_up_bytes_per_sec` 0 no limit. There are no `secrets`
    where certificates prove nodes; the first one is sent, each is accepted. Without `etcd` the
    nodes keep the metadata themselves.
    """

    is_enabled: bool = False
    peers: tuple[str, ...] = ()
    advertise: str = ""
    client_advertise: str = ""
    quorum: int = 0
    catch_up_bytes_per_sec: int = 0
    secrets: tuple[Secret, ...] = ()
    secret_file: str = ""
    tls: TlsSettings = TlsSettings()
    etcd: EtcdSettings | None = None

    @property
    def accepts_certificates(self) -> bool:
        """Whether a verified certificate proves a node."""
        return self.tls.is_enabled and self.tls.client_auth != "none"


def split_secret(value: Secret) -> tuple[Secret, ...]:
    """The secrets in the lines of a value."""
    return tuple(Secret(line) for line in value.reveal().split("\n") if line)


def secret_problem(secrets: tuple[Secret, ...]) -> str | None:
    """Why these secrets cannot prove nodes to each other."""
    for secret in (each.reveal() for each in secrets):
        if not (secret.isascii() and secret.isprintable() and " " not in secret):
            return "has characters that cannot be sent: use visible ASCII characters"
    return None


def build_tls(values: Values, rows: TlsRows) -> TlsSettings:
    """The settings of TLS of one section."""
    return TlsSettings(
        is_enabled=bool(values.value(rows.enabled)),
        cert_file=values.value(rows.cert_file),
        key_file=values.value(rows.key_file),
        ca_file=values.value(rows.ca_file),
        is_self_signed=bool(values.value(rows.self_signed)),
        client_auth=values.value(rows.client_auth),
        min_version=values.value(rows.min_version),
    )


def build_cluster(values: Values) -> ClusterSettings:
    """The settings of cluster mode."""
    if not values.value(CLUSTER_ENABLED):
        return ClusterSettings()
    return ClusterSettings(
        is_enabled=True,
        peers=tuple(str(each) for each in values.value(CLUSTER_PEERS)),
        advertise=values.value(CLUSTER_ADVERTISE),
        client_advertise=values.value(CLUSTER_CLIENT_ADVERTISE),
        quorum=values.value(CLUSTER_QUORUM),
        catch_up_bytes_per_sec=values.value(CLUSTER_CATCH_UP_BYTES_PER_SEC),
        secrets=split_secret(values.value(CLUSTER_SECRET)),
        secret_file=values.value(CLUSTER_SECRET_FILE),
        tls=build_tls(values, CLUSTER_TLS),
        etcd=_build_etcd(values) if values.value(CLUSTER_METADATA) == _ETCD else None,
    )


def _build_etcd(values: Values) -> EtcdSettings:
    return EtcdSettings(
        endpoints=tuple(str(each) for each in values.value(CLUSTER_ETCD.endpoints)),
        prefix=values.value(CLUSTER_ETCD.prefix),
        ca_file=values.value(CLUSTER_ETCD.ca_file),
        cert_file=values.value(CLUSTER_ETCD.cert_file),
        key_file=values.value(CLUSTER_ETCD.key_file),
    )


def check_cluster(values: Values, problems: list[Problem], warnings: list[str]) -> None:
    """Find what keeps a node of a cluster from starting; without cluster mode nothing does."""
    if not values.value(CLUSTER_ENABLED):
        return
    peers = values.value(CLUSTER_PEERS)
    if not peers:
        reason = "is empty: cluster mode needs the address of at least one other node"
        problems.append(values.refused(CLUSTER_PEERS, reason))
    quorum, nodes = values.value(CLUSTER_QUORUM), len(peers) + 1
    if quorum and not nodes // 2 + 1 <= quorum <= nodes:
        reason = f"is not between a majority ({nodes // 2 + 1}) and all ({nodes}) of the nodes"
        problems.append(values.refused(CLUSTER_QUORUM, reason))
    _check_addresses(values, problems)
    _check_reach(values, problems, peers)
    _check_proof(values, problems, warnings)
    _check_etcd(values, problems)


def _check_addresses(values: Values, problems: list[Problem]) -> None:
    """Others must be told an address that leads here."""
    for advertised, row in (
        (CLUSTER_ADVERTISE, LISTENERS_INTERNAL),
        (CLUSTER_CLIENT_ADVERTISE, LISTENERS_HTTP),
    ):
        text, listener = values.value(advertised), values.value(row)
        if text:
            try:
                read_address(text)
            except ValueError as error:
                problems.append(values.refused(advertised, str(error)))
        elif listener is not None and listener.host in _EVERY_ADDRESS:
            reason = f"is empty, and others cannot connect to {listener}: set it to host:port"
            problems.append(values.refused(advertised, reason))


def _check_reach(values: Values, problems: list[Problem], peers: tuple[Listener, ...]) -> None:
    listener = values.value(LISTENERS_INTERNAL)
    if listener is None:
        reason = "is off, and cluster mode needs it"
        problems.append(values.refused(LISTENERS_INTERNAL, reason))
        return
    beyond = [each for each in (listener, *peers) if not each.is_loopback]
    if beyond and not values.value(CLUSTER_TLS.enabled):
        reason = f"while {beyond[0]} is not loopback: nodes send each other their secret"
        problems.append(values.refused(CLUSTER_TLS.enabled, reason))


def _check_proof(values: Values, problems: list[Problem], warnings: list[str]) -> None:
    secrets = split_secret(values.value(CLUSTER_SECRET))
    tls = build_tls(values, CLUSTER_TLS)
    if tls.is_enabled:
        _check_certificates(tls, values, problems)
    problem = secret_problem(secrets)
    if not secrets and not (tls.is_enabled and tls.client_auth in _REQUIRED):
        reason = "is empty: set it, or cluster_tls with client_auth=require-verify"
        problems.append(values.refused(CLUSTER_SECRET, reason))
    elif problem is not None:
        problems.append(values.refused(CLUSTER_SECRET, problem))
    elif any(len(each.reveal()) < _SECRET_CHARACTERS_ADVISED for each in secrets):
        least = _SECRET_CHARACTERS_ADVISED
        warnings.append(f"cluster.secret is short: use at least {least} random characters")


def _check_certificates(tls: TlsSettings, values: Values, problems: list[Problem]) -> None:
    if tls.is_self_signed:
        reason = "cannot prove a node to others: use certificates of one authority"
        problems.append(values.refused(CLUSTER_TLS.self_signed, reason))
    for row in (CLUSTER_TLS.cert_file, CLUSTER_TLS.key_file, CLUSTER_TLS.ca_file):
        if not values.value(row):
            reason = "is empty: TLS between nodes needs a certificate, its key and the authority"
            problems.append(values.refused(row, reason))


def _check_etcd(values: Values, problems: list[Problem]) -> None:
    """Keys and ACLs lie in the metadata: beyond loopback they are not sent in the clear."""
    rows = CLUSTER_ETCD
    endpoints = values.value(rows.endpoints)
    if values.value(CLUSTER_METADATA) != _ETCD:
        is_readable = all(each.setting != CLUSTER_METADATA.name for each in problems)
        if endpoints and is_readable:
            reason = "is quorum, and endpoints of etcd are set: set it to etcd, or remove those"
            problems.append(values.refused(CLUSTER_METADATA, reason))
        return
    if not endpoints:
        reason = "is empty: cluster.metadata=etcd needs the address of at least one member"
        problems.append(values.refused(rows.endpoints, reason))
    if _PREFIX.fullmatch(values.value(rows.prefix)) is None:
        reason = "is not a slash and up to 200 of A-Z a-z 0-9 . _ / -"
        problems.append(values.refused(rows.prefix, reason))
    beyond = [each for each in endpoints if not each.is_loopback]
    if beyond and not values.value(rows.ca_file):
        reason = f"is empty, and {beyond[0]} is not loopback: etcd holds what the nodes agree on"
        problems.append(values.refused(rows.ca_file, reason))
    _check_etcd_certificate(values, problems)


def _check_etcd_certificate(values: Values, problems: list[Problem]) -> None:
    rows = CLUSTER_ETCD
    has_cert, has_key = bool(values.value(rows.cert_file)), bool(values.value(rows.key_file))
    if has_cert is not has_key:
        lacking = rows.key_file if has_cert else rows.cert_file
        reason = "is empty: a certificate and its key are set together"
        problems.append(values.refused(lacking, reason))
    elif has_cert and not values.value(rows.ca_file):
        reason = "is empty: a certificate is of use over TLS alone"
        problems.append(values.refused(rows.ca_file, reason))
