"""Builds the settings of a node from all sources, or reports all problems together.

Reads no environment, file or host name: they are passed in. `load_settings` is the shell around
that. A value for a feature that this version lacks is never ignored.

Invariant: a `Settings` exists only if every given value is valid.
"""

import importlib.util
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from goqueue.model import Secret, ways_to_install
from goqueue.runtime.secret_files import SecretFileUnusable, read_secret_file
from goqueue.runtime.settings.catalogue import (
    ACL_ENABLED,
    API_ROOT_KEY,
    AUDIT_RETENTION_BYTES,
    AUDIT_RETENTION_HOURS,
    AUTH_ALLOW_HEALTH,
    AUTH_ALLOW_METRICS,
    AUTH_ENABLED,
    BROKER_DATADIR,
    BROKER_GROUP_RETENTION_HOURS,
    BROKER_JOURNAL_RESERVE,
    BROKER_NODEID,
    CLUSTER_ENABLED,
    GRPC_REFLECTION,
    HTTP_BODY_LIMIT,
    HTTP_CORS_ORIGINS,
    HTTP_PUBLISH_BODY_LIMIT,
    LIMITS_MAX_DELAY,
    LISTENERS_GRPC,
    LISTENERS_HTTP,
    LISTENERS_INTERNAL,
    LOG_ACCESS,
    LOG_FORMAT,
    LOG_LEVEL,
    LOG_SLOW_DISK,
    METRICS_PARTITIONS,
    SETTINGS,
    TLS,
    TRACING_EXPORTERS,
    TRACING_FILE,
    TRACING_FILE_BYTES,
    TRACING_FILE_COUNT,
    TRACING_OTLP_ENDPOINT,
    TRACING_OTLP_PROTOCOL,
    TRACING_QUEUE_SPANS,
    TRACING_SAMPLING,
    TRUSTED_PROXIES,
    Setting,
)
from goqueue.runtime.settings.cluster import (
    ClusterSettings,
    TlsSettings,
    build_cluster,
    build_tls,
    check_cluster,
)
from goqueue.runtime.settings.kinds import Listener, Network
from goqueue.runtime.settings.problems import Problem, SettingsInvalid, problem_with
from goqueue.runtime.settings.sources import (
    Given,
    SettingsFile,
    Source,
    find_settings_file,
    from_environment,
    from_file,
    from_flags,
)
from goqueue.runtime.settings.values import Effective, Values

__all__ = [
    "ApiSettings",
    "AuditSettings",
    "AuthSettings",
    "BrokerSettings",
    "HttpSettings",
    "LimitSettings",
    "ListenerSettings",
    "LoggingSettings",
    "MetricsSettings",
    "Origin",
    "Settings",
    "TlsSettings",
    "TracingSettings",
    "load_settings",
    "read_settings",
]

_OTLP = "otlp"
_OTLP_MODULE = "opentelemetry.exporter.otlp.proto.{}.trace_exporter"
_ENDPOINTS = {"http": "http://127.0.0.1:4318", "grpc": "127.0.0.1:4317"}
_SPAN_FILE = ("traces", "spans.jsonl")
_CERTIFICATE_MODULE = "cryptography.x509"
_GRPC_MODULE = "google.protobuf"
_OPENSSL = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 "
    "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 "
    "-keyout key.pem -out cert.pem"
)


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Identity and storage of the node."""

    data_dir: str
    node_id: str
    journal_reserve: int
    group_retention_hours: int


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The admin key that always exists; empty: there is none."""

    root_key: Secret = Secret("")


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long, and how much of, the audit log is kept."""

    retention_hours: int
    retention_bytes: int


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whether callers need a key, where they need none, and whether keys need ACLs."""

    is_enabled: bool = False
    allows_health: bool = True
    allows_metrics: bool = False
    acl_enabled: bool = False


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The listeners; None is off."""

    http: Listener | None
    internal: Listener | None = None
    grpc: Listener | None = None

    @property
    def clients(self) -> tuple[Listener, ...]:
        """Those that clients connect to."""
        return tuple(each for each in (self.http, self.grpc) if each is not None)


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and origins of HTTP. Limits are bytes."""

    publish_body_limit: int
    body_limit: int
    cors_origins: tuple[str, ...]


class GrpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What gRPC serves beside its services."""

    has_reflection: bool = False


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for all callers."""

    max_delay_ns: int


class LoggingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is logged, and how."""

    level: str
    format: str
    has_access: bool
    slow_disk_ns: int


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The level of detail of metrics."""

    partitions: bool


class TracingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling and exporters of traces."""

    sampling: float
    exporters: tuple[str, ...]
    file: str
    file_bytes: int
    file_count: int
    otlp_protocol: str
    otlp_endpoint: str
    queue_spans: int


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of one setting, and its value as text; secrets are masked."""

    setting: str
    value: str
    source: Source
    place: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a node. Warnings are logged at every start."""

    broker: BrokerSettings
    api: ApiSettings
    audit: AuditSettings
    auth: AuthSettings
    listeners: ListenerSettings
    http: HttpSettings
    grpc: GrpcSettings
    limits: LimitSettings
    log: LoggingSettings
    metrics: MetricsSettings
    tracing: TracingSettings
    tls: TlsSettings
    cluster: ClusterSettings
    trusted_proxies: tuple[Network, ...]
    origins: tuple[Origin, ...]
    warnings: tuple[str, ...]


def load_settings(flags: Mapping[str, str], environment: Mapping[str, str]) -> Settings:
    """The settings of a node started now: finds the file and reads the host name."""
    file = find_settings_file(flags, environment)
    return read_settings(
        flags, environment, file, host_name=socket.gethostname(), has_module=_is_importable
    )


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        # A parent package is missing, or its import is blocked.
        return False


def read_settings(
    flags: Mapping[str, str],
    environment: Mapping[str, str],
    file: SettingsFile | None,
    *,
    host_name: str,
    has_module: Callable[[str], bool] = lambda _: True,
    read_secret: Callable[[str, int], Secret] = read_secret_file,
) -> Settings:
    """Settings by precedence: flag, environment, file, default. Flags are keyed by setting.

    Raises SettingsInvalid with every problem, including those of overridden values.
    """
    problems: list[Problem] = []
    warnings: list[str] = []
    given = [
        *(from_file(file, problems) if file is not None else ()),
        *from_environment(environment, warnings),
        *from_flags(flags, problems),
    ]
    values = Values(host_name)
    _take(values, given, problems)
    _read_secrets(values, problems, read_secret)
    _check_host_name(values, problems)
    for setting in SETTINGS:
        _check_available(setting, values, problems)
    _check_reach(values, warnings)
    _check_tls(values, problems, warnings, has_module)
    check_cluster(values, problems, warnings)
    _check_origins(values, problems)
    _check_collector(values, problems, has_module)
    _check_grpc(values, problems, has_module)
    if problems:
        raise SettingsInvalid(tuple(problems), tuple(warnings))
    return _build(values, tuple(warnings))


def _take(values: Values, given: Iterable[Given], problems: list[Problem]) -> None:
    """Parse every value; the sources are in order of precedence, the highest last."""
    by_name = {setting.name: setting for setting in SETTINGS}
    for each in given:
        setting = by_name[each.name]
        kind = setting.kind
        try:
            if each.source is Source.FILE:
                value = kind.from_toml(each.value)
            else:
                value = kind.from_text(str(each.value))
        except ValueError as refused:
            problems.append(
                problem_with(setting, each.place, each.value, str(refused), allowed=kind.allowed)
            )
        else:
            values.put(setting, Effective(value=value, source=each.source, place=each.place))


def _check_host_name(values: Values, problems: list[Problem]) -> None:
    """An invalid host name is no problem if a node id is given."""
    effective = values.effective(BROKER_NODEID)
    if effective.source is Source.DEFAULT:
        try:
            BROKER_NODEID.kind.from_text(values.value(BROKER_NODEID))
        except ValueError:
            reason = "cannot be the node id: set broker.nodeid"
            problems.append(problem_with(BROKER_NODEID, "host name", effective.value, reason))


def _read_secrets(
    values: Values, problems: list[Problem], read_secret: Callable[[str, int], Secret]
) -> None:
    """Put the content of secret files where the secrets themselves would be."""
    by_name = {setting.name: setting for setting in SETTINGS}
    for setting in SETTINGS:
        path = values.effective(setting)
        if not setting.secret or not path.value or not setting.feature.is_here:
            continue
        secret = by_name[setting.secret]
        if values.effective(secret).source is not Source.DEFAULT:
            reason = f"is given, and so is {secret.name}: give one of them"
            problems.append(problem_with(setting, path.place, path.value, reason))
            continue
        try:
            value = read_secret(str(path.value), setting.secret_lines)
        except SecretFileUnusable as unusable:
            problems.append(problem_with(setting, path.place, path.value, str(unusable)))
        else:
            values.put(secret, Effective(value=value, source=path.source, place=path.place))


def _check_available(setting: Setting[Any], values: Values, problems: list[Problem]) -> None:
    effective = values.effective(setting)
    if setting.feature.is_here or setting.asks_for_nothing(effective.value):
        return
    reason = f"asks for {setting.feature}, which is not available in this version"
    allowed = setting.kind.show(setting.default) or "leaving it out"
    shown = setting.show(effective.value)
    problems.append(problem_with(setting, effective.place, shown, reason, allowed=allowed))


def _needs_keys(values: Values) -> bool:
    """Whether authentication is on: if set, or unless every client listener is on loopback."""
    chosen = values.value(AUTH_ENABLED)
    return _reach(values) is not None if chosen is None else chosen


def _client_listeners(values: Values) -> list[Listener]:
    rows = (values.value(LISTENERS_HTTP), values.value(LISTENERS_GRPC))
    return [each for each in rows if each is not None]


def _reach(values: Values) -> Listener | None:
    """A client listener that is not on loopback, if there is one."""
    beyond = (each for each in _client_listeners(values) if not each.is_loopback)
    return next(beyond, None)


def _check_reach(values: Values, warnings: list[str]) -> None:
    """Beyond loopback keys are required, unless the operator says at every start that none is."""
    listener = _reach(values)
    if not _client_listeners(values):
        warnings.append("listeners.http is off: nobody can reach this node")
    elif listener is not None and not _needs_keys(values):
        warnings.append(
            f"auth.enabled is false and {listener} is not loopback: every client that can connect"
            " is an admin"
        )


def _check_tls(
    values: Values,
    problems: list[Problem],
    warnings: list[str],
    has_module: Callable[[str], bool],
) -> None:
    """TLS is switched on or off, never half of it; beyond loopback the operator has to say so."""
    enabled = values.value(TLS.enabled)
    listener = _reach(values)
    is_beyond = listener is not None
    if enabled:
        _check_certificate(values, problems, has_module)
        _check_client_auth(values, problems, warnings)
    elif enabled is None:
        if is_beyond:
            reason = (
                f"while {listener} is not loopback: set it to true, or to false and send "
                "everything in the clear"
            )
            problems.append(values.refused(TLS.enabled, reason))
        for row in (TLS.cert_file, TLS.key_file, TLS.self_signed):
            if values.effective(row).value:
                reason = "has no effect: set tls.enabled to true or false"
                problems.append(values.refused(row, reason))
    elif is_beyond:
        words = f"tls.enabled is false and {listener} is not loopback: what is sent can be read"
        warnings.append(f"{words} on the way, keys included")


def _check_certificate(
    values: Values, problems: list[Problem], has_module: Callable[[str], bool]
) -> None:
    cert, key = values.value(TLS.cert_file), values.value(TLS.key_file)
    if not values.value(TLS.self_signed):
        if not (cert and key):
            missing = TLS.cert_file if not cert else TLS.key_file
            reason = "is empty: TLS needs tls.cert_file and tls.key_file, or tls.self_signed"
            problems.append(values.refused(missing, reason))
    elif cert or key:
        reason = "excludes tls.cert_file and tls.key_file"
        problems.append(values.refused(TLS.self_signed, reason))
    elif not has_module(_CERTIFICATE_MODULE):
        reason = (
            f"needs the extra `tls`: {ways_to_install('tls')}; or create a certificate yourself: "
            f"{_OPENSSL}"
        )
        problems.append(values.refused(TLS.self_signed, reason))


def _check_client_auth(values: Values, problems: list[Problem], warnings: list[str]) -> None:
    is_off = values.value(TLS.client_auth) == "none"
    has_ca = bool(values.value(TLS.ca_file))
    if not is_off and not has_ca:
        reason = "needs tls.ca_file: the authorities that sign the certificates of clients"
        problems.append(values.refused(TLS.client_auth, reason))
    elif is_off and has_ca:
        warnings.append("tls.ca_file has no effect while tls.client_auth is none")


def _check_origins(values: Values, problems: list[Problem]) -> None:
    if "*" in values.value(HTTP_CORS_ORIGINS) and not _needs_keys(values):
        reason = "is for nodes with authentication: set auth.enabled to true"
        place = values.effective(HTTP_CORS_ORIGINS).place
        problems.append(
            problem_with(
                HTTP_CORS_ORIGINS, place, "*", reason, allowed=HTTP_CORS_ORIGINS.kind.allowed
            )
        )


def _check_collector(
    values: Values, problems: list[Problem], has_module: Callable[[str], bool]
) -> None:
    """Check that the OTLP extra is installed and the endpoint is valid."""
    if _OTLP not in values.value(TRACING_EXPORTERS):
        return
    protocol, endpoint = values.value(TRACING_OTLP_PROTOCOL), values.value(TRACING_OTLP_ENDPOINT)
    if not has_module(_OTLP_MODULE.format(protocol)):
        reason = f"needs the extra `otlp`: {ways_to_install('otlp')}"
        place = values.effective(TRACING_EXPORTERS).place
        problems.append(problem_with(TRACING_EXPORTERS, place, _OTLP, reason))
    if protocol == "http" and endpoint and "://" not in endpoint:
        reason = "is not a URL, which OTLP over http needs"
        place = values.effective(TRACING_OTLP_ENDPOINT).place
        allowed = "a URL such as http://127.0.0.1:4318"
        problems.append(
            problem_with(TRACING_OTLP_ENDPOINT, place, endpoint, reason, allowed=allowed)
        )


def _check_grpc(values: Values, problems: list[Problem], has_module: Callable[[str], bool]) -> None:
    """Check that the gRPC extra is installed where gRPC is asked for."""
    if values.value(LISTENERS_GRPC) is not None and not has_module(_GRPC_MODULE):
        reason = f"needs the extra `grpc`: {ways_to_install('grpc')}"
        problems.append(values.refused(LISTENERS_GRPC, reason))


def _tracing(values: Values) -> TracingSettings:
    protocol = values.value(TRACING_OTLP_PROTOCOL)
    file = os.path.join(values.value(BROKER_DATADIR), *_SPAN_FILE)
    return TracingSettings(
        sampling=values.value(TRACING_SAMPLING),
        exporters=values.value(TRACING_EXPORTERS),
        file=values.value(TRACING_FILE) or file,
        file_bytes=values.value(TRACING_FILE_BYTES),
        file_count=values.value(TRACING_FILE_COUNT),
        otlp_protocol=protocol,
        otlp_endpoint=values.value(TRACING_OTLP_ENDPOINT) or _ENDPOINTS[protocol],
        queue_spans=values.value(TRACING_QUEUE_SPANS),
    )


def _build(values: Values, warnings: tuple[str, ...]) -> Settings:
    return Settings(
        broker=BrokerSettings(
            data_dir=values.value(BROKER_DATADIR),
            node_id=values.value(BROKER_NODEID),
            journal_reserve=values.value(BROKER_JOURNAL_RESERVE),
            group_retention_hours=values.value(BROKER_GROUP_RETENTION_HOURS),
        ),
        api=ApiSettings(root_key=values.value(API_ROOT_KEY)),
        audit=AuditSettings(
            retention_hours=values.value(AUDIT_RETENTION_HOURS),
            retention_bytes=values.value(AUDIT_RETENTION_BYTES),
        ),
        auth=AuthSettings(
            is_enabled=_needs_keys(values),
            allows_health=bool(values.value(AUTH_ALLOW_HEALTH)),
            allows_metrics=bool(values.value(AUTH_ALLOW_METRICS)),
            acl_enabled=bool(values.value(ACL_ENABLED)),
        ),
        listeners=ListenerSettings(
            http=values.value(LISTENERS_HTTP),
            internal=(values.value(LISTENERS_INTERNAL) if values.value(CLUSTER_ENABLED) else None),
            grpc=values.value(LISTENERS_GRPC),
        ),
        http=HttpSettings(
            publish_body_limit=values.value(HTTP_PUBLISH_BODY_LIMIT),
            body_limit=values.value(HTTP_BODY_LIMIT),
            cors_origins=values.value(HTTP_CORS_ORIGINS),
        ),
        grpc=GrpcSettings(has_reflection=bool(values.value(GRPC_REFLECTION))),
        limits=LimitSettings(max_delay_ns=values.value(LIMITS_MAX_DELAY)),
        log=LoggingSettings(
            level=values.value(LOG_LEVEL),
            format=values.value(LOG_FORMAT),
            has_access=bool(values.value(LOG_ACCESS)),
            slow_disk_ns=values.value(LOG_SLOW_DISK),
        ),
        metrics=MetricsSettings(partitions=bool(values.value(METRICS_PARTITIONS))),
        tracing=_tracing(values),
        tls=build_tls(values, TLS),
        cluster=build_cluster(values),
        trusted_proxies=values.value(TRUSTED_PROXIES),
        origins=tuple(_origin(setting, values.effective(setting)) for setting in SETTINGS),
        warnings=warnings,
    )


def _origin(setting: Setting[Any], effective: Effective) -> Origin:
    return Origin(
        setting=setting.name,
        value=setting.show(effective.value),
        source=effective.source,
        place=effective.place,
    )
