"""Builds the settings of a node from all sources, or reports all problems together.

Reads no environment, file or host name: they are passed in. `load_settings` is the shell around
that. A value for a feature that this version lacks is never ignored.

Invariant: a `Settings` exists only if every given value is valid.
"""

import importlib.util
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from goqueue.runtime.settings.catalogue import (
    AUTH_ENABLED,
    BROKER_DATADIR,
    BROKER_GROUP_RETENTION_HOURS,
    BROKER_JOURNAL_RESERVE,
    BROKER_NODEID,
    HTTP_BODY_LIMIT,
    HTTP_CORS_ORIGINS,
    HTTP_PUBLISH_BODY_LIMIT,
    LIMITS_MAX_DELAY,
    LISTENERS_HTTP,
    LOG_ACCESS,
    LOG_FORMAT,
    LOG_LEVEL,
    LOG_SLOW_DISK,
    METRICS_PARTITIONS,
    SETTINGS,
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

__all__ = [
    "BrokerSettings",
    "HttpSettings",
    "LimitSettings",
    "ListenerSettings",
    "LoggingSettings",
    "MetricsSettings",
    "Origin",
    "Settings",
    "TracingSettings",
    "load_settings",
    "read_settings",
]

T = TypeVar("T")

_OTLP = "otlp"
_OTLP_MODULE = "opentelemetry.exporter.otlp.proto.{}.trace_exporter"
_ENDPOINTS = {"http": "http://127.0.0.1:4318", "grpc": "127.0.0.1:4317"}
_SPAN_FILE = ("traces", "spans.jsonl")


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Identity and storage of the node."""

    data_dir: str
    node_id: str
    journal_reserve: int
    group_retention_hours: int


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The listeners; None is off."""

    http: Listener | None


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and origins of HTTP. Limits are bytes."""

    publish_body_limit: int
    body_limit: int
    cors_origins: tuple[str, ...]


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
    listeners: ListenerSettings
    http: HttpSettings
    limits: LimitSettings
    log: LoggingSettings
    metrics: MetricsSettings
    tracing: TracingSettings
    trusted_proxies: tuple[Network, ...]
    origins: tuple[Origin, ...]
    warnings: tuple[str, ...]


class _Effective(msgspec.Struct, frozen=True, kw_only=True):
    """The effective value of one setting, and its place."""

    value: object
    source: Source
    place: str


class _Values:
    """The effective value of every setting, each with the type of its setting."""

    def __init__(self, host_name: str) -> None:
        self._values = {
            setting.name: _Effective(value=setting.default, source=Source.DEFAULT, place="default")
            for setting in SETTINGS
        }
        self._values[BROKER_NODEID.name] = _Effective(
            value=host_name, source=Source.DEFAULT, place="host name"
        )

    def put(self, setting: Setting[Any], effective: _Effective) -> None:
        self._values[setting.name] = effective

    def effective(self, setting: Setting[Any]) -> _Effective:
        return self._values[setting.name]

    def value(self, setting: Setting[T]) -> T:
        # What `put` stores was read by the kind of the setting.
        return cast(T, self._values[setting.name].value)


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
    values = _Values(host_name)
    _take(values, given, problems)
    _check_host_name(values, problems)
    for setting in SETTINGS:
        _check_available(setting, values, problems)
    _check_reach(values, problems, warnings)
    _check_origins(values, problems)
    _check_collector(values, problems, has_module)
    if problems:
        raise SettingsInvalid(tuple(problems), tuple(warnings))
    return _build(values, tuple(warnings))


def _take(values: _Values, given: Iterable[Given], problems: list[Problem]) -> None:
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
            values.put(setting, _Effective(value=value, source=each.source, place=each.place))


def _check_host_name(values: _Values, problems: list[Problem]) -> None:
    """An invalid host name is no problem if a node id is given."""
    effective = values.effective(BROKER_NODEID)
    if effective.source is Source.DEFAULT:
        try:
            BROKER_NODEID.kind.from_text(values.value(BROKER_NODEID))
        except ValueError:
            reason = "cannot be the node id: set broker.nodeid"
            problems.append(problem_with(BROKER_NODEID, "host name", effective.value, reason))


def _check_available(setting: Setting[Any], values: _Values, problems: list[Problem]) -> None:
    effective = values.effective(setting)
    if setting.feature.is_here or setting.asks_for_nothing(effective.value):
        return
    reason = f"asks for {setting.feature}, which is not available in this version"
    allowed = setting.kind.show(setting.default) or "leaving it out"
    shown = setting.show(effective.value)
    problems.append(problem_with(setting, effective.place, shown, reason, allowed=allowed))


def _check_reach(values: _Values, problems: list[Problem], warnings: list[str]) -> None:
    """Beyond loopback every caller would be an admin: require an explicit setting."""
    listener = values.value(LISTENERS_HTTP)
    if listener is None:
        warnings.append("listeners.http is off: nobody can reach this node")
    elif not listener.is_loopback:
        if values.value(AUTH_ENABLED) is False:
            warnings.append(
                f"auth.enabled is false and {listener} is not loopback: whoever can connect "
                "is an admin"
            )
        elif values.value(AUTH_ENABLED) is None:
            reason = (
                "is not loopback, and authentication is not available in this version: bind to "
                "127.0.0.1, or set auth.enabled to false and let everybody in"
            )
            place = values.effective(LISTENERS_HTTP).place
            problems.append(problem_with(LISTENERS_HTTP, place, str(listener), reason))


def _check_origins(values: _Values, problems: list[Problem]) -> None:
    if "*" in values.value(HTTP_CORS_ORIGINS):
        reason = "is for nodes with authentication, which is not available in this version"
        place = values.effective(HTTP_CORS_ORIGINS).place
        problems.append(
            problem_with(
                HTTP_CORS_ORIGINS, place, "*", reason, allowed=HTTP_CORS_ORIGINS.kind.allowed
            )
        )


def _check_collector(
    values: _Values, problems: list[Problem], has_module: Callable[[str], bool]
) -> None:
    """Check that the OTLP extra is installed and the endpoint is valid."""
    if _OTLP not in values.value(TRACING_EXPORTERS):
        return
    protocol, endpoint = values.value(TRACING_OTLP_PROTOCOL), values.value(TRACING_OTLP_ENDPOINT)
    if not has_module(_OTLP_MODULE.format(protocol)):
        reason = "needs packages that are not installed: pip install 'goqueue[otlp]'"
        place = values.effective(TRACING_EXPORTERS).place
        problems.append(problem_with(TRACING_EXPORTERS, place, _OTLP, reason))
    if protocol == "http" and endpoint and "://" not in endpoint:
        reason = "is not a URL, which OTLP over http needs"
        place = values.effective(TRACING_OTLP_ENDPOINT).place
        allowed = "a URL such as http://127.0.0.1:4318"
        problems.append(
            problem_with(TRACING_OTLP_ENDPOINT, place, endpoint, reason, allowed=allowed)
        )


def _tracing(values: _Values) -> TracingSettings:
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


def _build(values: _Values, warnings: tuple[str, ...]) -> Settings:
    return Settings(
        broker=BrokerSettings(
            data_dir=values.value(BROKER_DATADIR),
            node_id=values.value(BROKER_NODEID),
            journal_reserve=values.value(BROKER_JOURNAL_RESERVE),
            group_retention_hours=values.value(BROKER_GROUP_RETENTION_HOURS),
        ),
        listeners=ListenerSettings(http=values.value(LISTENERS_HTTP)),
        http=HttpSettings(
            publish_body_limit=values.value(HTTP_PUBLISH_BODY_LIMIT),
            body_limit=values.value(HTTP_BODY_LIMIT),
            cors_origins=values.value(HTTP_CORS_ORIGINS),
        ),
        limits=LimitSettings(max_delay_ns=values.value(LIMITS_MAX_DELAY)),
        log=LoggingSettings(
            level=values.value(LOG_LEVEL),
            format=values.value(LOG_FORMAT),
            has_access=bool(values.value(LOG_ACCESS)),
            slow_disk_ns=values.value(LOG_SLOW_DISK),
        ),
        metrics=MetricsSettings(partitions=bool(values.value(METRICS_PARTITIONS))),
        tracing=_tracing(values),
        trusted_proxies=values.value(TRUSTED_PROXIES),
        origins=tuple(_origin(setting, values.effective(setting)) for setting in SETTINGS),
        warnings=warnings,
    )


def _origin(setting: Setting[Any], effective: _Effective) -> Origin:
    return Origin(
        setting=setting.name,
        value=setting.show(effective.value),
        source=effective.source,
        place=effective.place,
    )
