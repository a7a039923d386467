"""The table of all settings: name, kind, default, meaning and feature of each.

Flags, variables, file keys, `goqueue config show` and the checks of the reference page are derived
from it. Never holds a configured value.

Invariant: the default of a setting of a missing feature does not need that feature.
"""

import enum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from goqueue.model import HOUR, SECOND, Secret
from goqueue.runtime.settings.kinds import (
    ADDRESSES,
    BOOLEAN,
    COUNT,
    ENDPOINT,
    LISTENER,
    NAME,
    NETWORKS,
    ORIGINS,
    PATH,
    SECRET,
    SHARE,
    TEXT,
    Kind,
    Listener,
    Network,
    choice,
    choices,
    count,
    duration,
    hours,
    size,
)

__all__ = [
    "ACL_ENABLED",
    "API_ROOT_KEY",
    "API_ROOT_KEY_FILE",
    "AUDIT_RETENTION_BYTES",
    "AUDIT_RETENTION_HOURS",
    "AUTH_ALLOW_HEALTH",
    "AUTH_ALLOW_METRICS",
    "AUTH_ENABLED",
    "BROKER_DATADIR",
    "BROKER_GROUP_RETENTION_HOURS",
    "BROKER_JOURNAL_RESERVE",
    "BROKER_NODEID",
    "CLUSTER_ADVERTISE",
    "CLUSTER_CATCH_UP_BYTES_PER_SEC",
    "CLUSTER_CLIENT_ADVERTISE",
    "CLUSTER_ENABLED",
    "CLUSTER_ETCD",
    "CLUSTER_METADATA",
    "CLUSTER_PEERS",
    "CLUSTER_QUORUM",
    "CLUSTER_SECRET",
    "CLUSTER_SECRET_FILE",
    "CLUSTER_TLS",
    "GRPC_REFLECTION",
    "HTTP_BODY_LIMIT",
    "HTTP_CORS_ORIGINS",
    "HTTP_PUBLISH_BODY_LIMIT",
    "LIMITS_MAX_DELAY",
    "LISTENERS_GRPC",
    "LISTENERS_HTTP",
    "LISTENERS_INTERNAL",
    "LOG_ACCESS",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "LOG_SLOW_DISK",
    "METRICS_PARTITIONS",
    "SECRETS_MAX",
    "SETTINGS",
    "TLS",
    "TRACING_EXPORTERS",
    "TRACING_FILE",
    "TRACING_FILE_BYTES",
    "TRACING_FILE_COUNT",
    "TRACING_OTLP_ENDPOINT",
    "TRACING_OTLP_PROTOCOL",
    "TRACING_QUEUE_SPANS",
    "TRACING_SAMPLING",
    "TRUSTED_PROXIES",
    "EtcdRows",
    "Feature",
    "Setting",
    "TlsRows",
]

T = TypeVar("T")

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30
_SLOW_NS_MAX = HOUR
# A year: what is due beyond the range of the timing wheel waits without a timer.
_DELAY_NS_MAX = 366 * 24 * HOUR


class Feature(enum.StrEnum):
    """The feature that a setting belongs to."""

    BROKER = "the broker"
    HTTP = "HTTP"
    LOG = "logging"
    GRPC = "gRPC"
    KAFKA = "the Kafka protocol"
    SQS = "the SQS protocol"
    DELAYS = "delayed messages"
    AUTH = "authentication"
    ACL = "access control lists"
    TLS = "TLS"
    CLUSTER = "cluster mode"
    TRACING = "tracing"
    METRICS = "metrics"

    @property
    def is_here(self) -> bool:
        """Whether this version has the feature."""
        return self in _HERE


# Add a new feature here, and give its settings their final defaults below.
_HERE = frozenset(
    {
        Feature.BROKER,
        Feature.HTTP,
        Feature.GRPC,
        Feature.LOG,
        Feature.METRICS,
        Feature.DELAYS,
        Feature.TLS,
        Feature.TRACING,
        Feature.AUTH,
        Feature.ACL,
        Feature.CLUSTER,
    }
)


class Setting(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One setting. `harmless` are values besides the default that do not need its feature.

    A secret is never a flag. The setting whose `secret` is its name holds the path of a file with
    its value instead, in at most `secret_lines` lines.
    """

    name: str
    kind: Kind[T]
    default: T
    meaning: str
    feature: Feature
    is_secret: bool = False
    short_flag: str = ""
    harmless: tuple[T, ...] = ()
    secret: str = ""
    secret_lines: int = 1

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "GOQUEUE_" + self.name.replace(".", "_").upper()

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names on the command line, the systematic one first."""
        systematic = "--" + self.name.replace(".", "-").replace("_", "-")
        return (systematic, self.short_flag) if self.short_flag else (systematic,)

    @property
    def is_switch(self) -> bool:
        """Whether the flag may be given without a value."""
        return self.kind is BOOLEAN

    def asks_for_nothing(self, value: T) -> bool:
        """Whether this value is allowed in a version without the feature."""
        if self.is_secret:
            return not value
        return value == self.default or value in self.harmless

    def show(self, value: T) -> str:
        """The value as text; secrets are masked."""
        return self.kind.show(value)


def _secret(
    name: str, feature: Feature, meaning: str, *, lines: int = 1, file_meaning: str = ""
) -> "tuple[Setting[Secret], Setting[str]]":
    """A secret, and the setting with the path of a file that holds it."""
    return (
        Setting(
            name=name,
            kind=SECRET,
            default=Secret(""),
            meaning=meaning,
            feature=feature,
            is_secret=True,
        ),
        Setting(
            name=f"{name}_file",
            kind=TEXT,
            default="",
            meaning=file_meaning or f"File with the value of {name}.",
            feature=feature,
            secret=name,
            secret_lines=lines,
        ),
    )


def _listener(
    protocol: str, feature: Feature, default: Listener | None
) -> "Setting[Listener | None]":
    is_client = feature is not Feature.CLUSTER
    return Setting(
        name=f"listeners.{protocol}",
        kind=LISTENER,
        default=default,
        meaning=f"Address where {feature} is served.",
        feature=feature,
        short_flag=f"--{protocol}" if is_client else "",
    )


class EtcdRows(NamedTuple):
    """The settings of etcd as the store of the metadata."""

    endpoints: Setting[tuple[Listener, ...]]
    prefix: Setting[str]
    ca_file: Setting[str]
    cert_file: Setting[str]
    key_file: Setting[str]


class TlsRows(NamedTuple):
    """The settings of TLS in one section."""

    enabled: Setting[bool | None]
    cert_file: Setting[str]
    key_file: Setting[str]
    ca_file: Setting[str]
    self_signed: Setting[bool | None]
    client_auth: Setting[str]
    min_version: Setting[str]


def _tls(section: str, feature: Feature, where: str, default: bool | None) -> TlsRows:
    def switch(name: str, meaning: str, default: bool | None = False) -> Setting[bool | None]:
        return Setting(
            name=f"{section}.{name}",
            kind=BOOLEAN,
            default=default,
            meaning=meaning,
            feature=feature,
        )

    def text(name: str, meaning: str) -> Setting[str]:
        return Setting(
            name=f"{section}.{name}", kind=TEXT, default="", meaning=meaning, feature=feature
        )

    def words(name: str, meaning: str, *words: str) -> Setting[str]:
        return Setting(
            name=f"{section}.{name}",
            kind=choice(*words),
            default=words[0],
            meaning=meaning,
            feature=feature,
        )

    checks = ("none", "request", "require", "verify", "require-verify")
    return TlsRows(
        switch("enabled", f"Use TLS {where}.", default),
        text("cert_file", "Certificate chain of this node, PEM."),
        text("key_file", "Private key of this node, PEM."),
        text("ca_file", "Certificate authorities of clients, PEM; may hold CRLs."),
        switch("self_signed", "Create a certificate for development at start."),
        words("client_auth", "Client certificates: verify if sent, or require.", *checks),
        words("min_version", "Minimum TLS version.", "1.2", "1.3"),
    )


BROKER_DATADIR = Setting(
    name="broker.datadir",
    kind=PATH,
    default="./data",
    meaning="Data directory; created if absent, locked by one process.",
    feature=Feature.BROKER,
    short_flag="--data-dir",
)
# The default is the host name, which only the caller of `read_settings` knows.
BROKER_NODEID = Setting(
    name="broker.nodeid",
    kind=NAME,
    default="",
    meaning="Name of this node; default: the host name.",
    feature=Feature.BROKER,
)
BROKER_JOURNAL_RESERVE = Setting(
    name="broker.journal_reserve",
    kind=size(0, _GIB),
    default=64 * _MIB,
    meaning="Disk space kept for journals; at most a twentieth of the disk.",
    feature=Feature.BROKER,
)
LISTENERS_INTERNAL = _listener("internal", Feature.CLUSTER, Listener("127.0.0.1", 7000))
LISTENERS_HTTP = _listener("http", Feature.HTTP, Listener("127.0.0.1", 8080))
# Off unless asked for: it needs an extra that a node does not.
LISTENERS_GRPC = _listener("grpc", Feature.GRPC, None)
GRPC_REFLECTION = Setting(
    name="grpc.reflection",
    kind=BOOLEAN,
    default=False,
    meaning="Serve gRPC reflection.",
    feature=Feature.GRPC,
)
HTTP_PUBLISH_BODY_LIMIT = Setting(
    name="http.publish_body_limit",
    kind=size(_KIB, _GIB),
    default=16 * _MIB,
    meaning="Maximum body size of publish requests.",
    feature=Feature.HTTP,
)
HTTP_BODY_LIMIT = Setting(
    name="http.body_limit",
    kind=size(_KIB, _GIB),
    default=_MIB,
    meaning="Maximum body size of other requests.",
    feature=Feature.HTTP,
)
HTTP_CORS_ORIGINS: Setting[tuple[str, ...]] = Setting(
    name="http.cors_origins",
    kind=ORIGINS,
    default=(),
    meaning="Origins allowed by CORS; * only with authentication.",
    feature=Feature.HTTP,
)
BROKER_GROUP_RETENTION_HOURS = Setting(
    name="broker.group_retention_hours",
    kind=hours(0, 87_600),
    default=168,
    meaning="How long to keep a group without members after its last commit; 0: forever.",
    feature=Feature.BROKER,
)
LIMITS_MAX_DELAY = Setting(
    name="limits.max_delay",
    kind=duration(_DELAY_NS_MAX),
    default=_DELAY_NS_MAX,
    meaning="Maximum delay of a message.",
    feature=Feature.DELAYS,
)
AUTH_ENABLED: Setting[bool | None] = Setting(
    name="auth.enabled",
    kind=BOOLEAN,
    default=None,
    meaning="Require an API key; unset: unless all client listeners are on loopback.",
    feature=Feature.AUTH,
    harmless=(False,),
)
API_ROOT_KEY, API_ROOT_KEY_FILE = _secret(
    "api.root_key", Feature.AUTH, "Admin key that always exists; 32 or more visible characters."
)
AUDIT_RETENTION_HOURS = Setting(
    name="audit.retention_hours",
    kind=hours(1, 10_000_000),
    default=2160,
    meaning="How long to keep records of the audit log.",
    feature=Feature.BROKER,
)
AUDIT_RETENTION_BYTES = Setting(
    name="audit.retention_bytes",
    kind=size(16 * _MIB, 1024 * _GIB),
    default=_GIB,
    meaning="Maximum size of the audit log.",
    feature=Feature.BROKER,
)
AUTH_ALLOW_HEALTH: Setting[bool | None] = Setting(
    name="auth.allow_health",
    kind=BOOLEAN,
    default=True,
    meaning="Serve health, readiness and version without a key.",
    feature=Feature.AUTH,
)
AUTH_ALLOW_METRICS: Setting[bool | None] = Setting(
    name="auth.allow_metrics",
    kind=BOOLEAN,
    default=False,
    meaning="Serve metrics without a key, also beyond loopback and behind trusted proxies.",
    feature=Feature.AUTH,
)
ACL_ENABLED: Setting[bool | None] = Setting(
    name="acl.enabled",
    kind=BOOLEAN,
    default=False,
    meaning="Require an ACL for what keys without the role admin do.",
    feature=Feature.ACL,
)
LOG_LEVEL = Setting(
    name="log.level",
    kind=choice("debug", "info", "warning", "error"),
    default="info",
    meaning="Minimum log level.",
    feature=Feature.LOG,
)
LOG_FORMAT = Setting(
    name="log.format",
    kind=choice("text", "json"),
    default="text",
    meaning="Log format.",
    feature=Feature.LOG,
)
LOG_ACCESS: Setting[bool | None] = Setting(
    name="log.access",
    kind=BOOLEAN,
    default=False,
    meaning="Log every request: client, method, path, status, size, duration, id.",
    feature=Feature.LOG,
)
LOG_SLOW_DISK = Setting(
    name="log.slow_disk",
    kind=duration(_SLOW_NS_MAX),
    default=SECOND,
    meaning="Log writes and syncs that take longer; 0s: none.",
    feature=Feature.LOG,
)
METRICS_PARTITIONS: Setting[bool | None] = Setting(
    name="metrics.partitions",
    kind=BOOLEAN,
    default=False,
    meaning="Report lag, committed and end offsets per partition instead of as sums.",
    feature=Feature.METRICS,
)
TRUSTED_PROXIES: Setting[tuple[Network, ...]] = Setting(
    name="trusted_proxies",
    kind=NETWORKS,
    default=(),
    meaning="Proxies whose X-Forwarded-For is trusted, right to left, at most 32 hops.",
    feature=Feature.HTTP,
)


def _tracing(name: str, kind: Kind[T], default: T, meaning: str) -> Setting[T]:
    return Setting(
        name=f"tracing.{name}", kind=kind, default=default, meaning=meaning, feature=Feature.TRACING
    )


TRACING_SAMPLING = _tracing("sampling", SHARE, 1.0, "Share of messages to trace, from 0 to 1.")
TRACING_EXPORTERS = _tracing(
    "exporters", choices("file", "stdout", "otlp"), (), "Where to export spans."
)
TRACING_FILE = _tracing(
    "file", TEXT, "", "Span file; default: traces/spans.jsonl in the data directory."
)
TRACING_FILE_BYTES = _tracing(
    "file_bytes", size(64 * _KIB, 64 * _GIB), 64 * _MIB, "Size at which the span file is rotated."
)
TRACING_FILE_COUNT = _tracing(
    "file_count", count(1, 10_000), 8, "Number of span files to keep, including the current one."
)
TRACING_OTLP_PROTOCOL = _tracing("otlp_protocol", choice("http", "grpc"), "http", "OTLP protocol.")
TRACING_OTLP_ENDPOINT = _tracing(
    "otlp_endpoint",
    ENDPOINT,
    "",
    "OTLP collector; default: 127.0.0.1, port 4318 for http, 4317 for grpc.",
)
TRACING_QUEUE_SPANS = _tracing(
    "queue_spans", count(1000, 10_000_000), 65_536, "Queue size of each exporter, in spans."
)

# Unset is off on loopback, and refused beyond it.
TLS = _tls("tls", Feature.TLS, "on all client ports", None)


def _cluster(name: str, kind: Kind[T], default: T, meaning: str) -> Setting[T]:
    return Setting(
        name=f"cluster.{name}", kind=kind, default=default, meaning=meaning, feature=Feature.CLUSTER
    )


CLUSTER_ENABLED: Setting[bool | None] = Setting(
    name="cluster.enabled",
    kind=BOOLEAN,
    default=False,
    meaning="Run as a node of a cluster.",
    feature=Feature.CLUSTER,
    short_flag="--cluster",
)
CLUSTER_PEERS = _cluster("peers", ADDRESSES, (), "The other nodes of the cluster.")
CLUSTER_ADVERTISE = _cluster(
    "advertise", TEXT, "", "host:port of this node for other nodes; default: the bind address."
)
CLUSTER_CLIENT_ADVERTISE = _cluster(
    "client_advertise", TEXT, "", "host:port of this node for clients; default: the bind address."
)
CLUSTER_QUORUM = _cluster(
    "quorum", COUNT, 0, "Quorum size; 0: a majority, which is also the minimum."
)
CLUSTER_CATCH_UP_BYTES_PER_SEC = _cluster(
    "catch_up_bytes_per_sec",
    size(0, 1024 * _GIB),
    0,
    "Limit for sending followers outside the ISR what they lack; 0: none.",
)
CLUSTER_METADATA = _cluster(
    "metadata", choice("quorum", "etcd"), "quorum", "Where the nodes keep what they agree on."
)
CLUSTER_ETCD = EtcdRows(
    endpoints=_cluster("etcd_endpoints", ADDRESSES, (), "Where etcd takes clients."),
    prefix=_cluster("etcd_prefix", TEXT, "/goqueue", "Prefix of the keys of this cluster in etcd."),
    ca_file=_cluster("etcd_ca_file", TEXT, "", "Authority of etcd, in PEM; set: TLS is used."),
    cert_file=_cluster("etcd_cert_file", TEXT, "", "Certificate of this node for etcd, in PEM."),
    key_file=_cluster("etcd_key_file", TEXT, "", "Private key of that certificate, in PEM."),
)
# The one that is sent, and another one while nodes are given that.
SECRETS_MAX = 2
CLUSTER_SECRET, CLUSTER_SECRET_FILE = _secret(
    "cluster.secret",
    Feature.CLUSTER,
    "Shared secret of the nodes.",
    lines=SECRETS_MAX,
    file_meaning="File with the value of cluster.secret; a second line is accepted as well.",
)
CLUSTER_TLS = _tls("cluster_tls", Feature.CLUSTER, "between nodes", False)

SETTINGS: tuple[Setting[Any], ...] = (
    BROKER_DATADIR,
    BROKER_NODEID,
    BROKER_JOURNAL_RESERVE,
    BROKER_GROUP_RETENTION_HOURS,
    LISTENERS_HTTP,
    LISTENERS_GRPC,
    _listener("kafka", Feature.KAFKA, None),
    _listener("sqs", Feature.SQS, None),
    LISTENERS_INTERNAL,
    HTTP_PUBLISH_BODY_LIMIT,
    HTTP_BODY_LIMIT,
    HTTP_CORS_ORIGINS,
    TRUSTED_PROXIES,
    LOG_LEVEL,
    LOG_FORMAT,
    LOG_ACCESS,
    LOG_SLOW_DISK,
    METRICS_PARTITIONS,
    LIMITS_MAX_DELAY,
    GRPC_REFLECTION,
    AUTH_ENABLED,
    AUTH_ALLOW_HEALTH,
    AUTH_ALLOW_METRICS,
    API_ROOT_KEY,
    API_ROOT_KEY_FILE,
    AUDIT_RETENTION_HOURS,
    AUDIT_RETENTION_BYTES,
    ACL_ENABLED,
    *TLS,
    CLUSTER_ENABLED,
    CLUSTER_PEERS,
    CLUSTER_ADVERTISE,
    CLUSTER_CLIENT_ADVERTISE,
    CLUSTER_QUORUM,
    CLUSTER_CATCH_UP_BYTES_PER_SEC,
    CLUSTER_METADATA,
    *CLUSTER_ETCD,
    CLUSTER_SECRET,
    CLUSTER_SECRET_FILE,
    *CLUSTER_TLS,
    TRACING_SAMPLING,
    TRACING_EXPORTERS,
    TRACING_FILE,
    TRACING_FILE_BYTES,
    TRACING_FILE_COUNT,
    TRACING_OTLP_PROTOCOL,
    TRACING_OTLP_ENDPOINT,
    TRACING_QUEUE_SPANS,
)
