"""Node settings: one table, read once at start, with all problems reported together.

Precedence: flag, environment, file, default. Binds nothing and starts nothing.
"""

from goqueue.runtime.settings.catalogue import SECRETS_MAX, SETTINGS, Feature, Setting
from goqueue.runtime.settings.cluster import (
    ClusterSettings,
    EtcdSettings,
    TlsSettings,
    secret_problem,
    split_secret,
)
from goqueue.runtime.settings.kinds import Listener, Network
from goqueue.runtime.settings.loader import (
    ApiSettings,
    AuditSettings,
    AuthSettings,
    BrokerSettings,
    HttpSettings,
    LimitSettings,
    ListenerSettings,
    LoggingSettings,
    MetricsSettings,
    Origin,
    Settings,
    TracingSettings,
    load_settings,
    read_settings,
)
from goqueue.runtime.settings.problems import Problem, SettingsInvalid
from goqueue.runtime.settings.sources import (
    CONFIG_FLAG,
    SettingsFile,
    Source,
    clear_secrets,
    find_settings_file,
    read_settings_file,
)

__all__ = [
    "CONFIG_FLAG",
    "SECRETS_MAX",
    "SETTINGS",
    "ApiSettings",
    "AuditSettings",
    "AuthSettings",
    "BrokerSettings",
    "ClusterSettings",
    "EtcdSettings",
    "Feature",
    "HttpSettings",
    "LimitSettings",
    "Listener",
    "ListenerSettings",
    "LoggingSettings",
    "MetricsSettings",
    "Network",
    "Origin",
    "Problem",
    "Setting",
    "Settings",
    "SettingsFile",
    "SettingsInvalid",
    "Source",
    "TlsSettings",
    "TracingSettings",
    "clear_secrets",
    "find_settings_file",
    "load_settings",
    "read_settings",
    "read_settings_file",
    "secret_problem",
    "split_secret",
]
