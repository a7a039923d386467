"""Settings: their reference, who outweighs whom, and every problem at once."""

import ipaddress
import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import HOUR, Secret
from goqueue.runtime.settings import SETTINGS, Listener, Source
from tests.unit.runtime.settings.given_settings import BY_NAME, key, origins, problems, read, toml

REFERENCE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "settings.md"

# A value other than the default for each setting of this version, as text and as TOML.
OTHER = {
    "broker.datadir": ("/var/lib/goqueue", '"/var/lib/goqueue"'),
    "broker.nodeid": ("node-7", '"node-7"'),
    "broker.journal_reserve": ("16MiB", "16777216"),
    "broker.group_retention_hours": ("24", "24"),
    "audit.retention_hours": ("24", "24"),
    "audit.retention_bytes": ("64MiB", "67108864"),
    "listeners.http": ("[::1]:9", '"[::1]:9"'),
    "listeners.grpc": ("127.0.0.1:9009", '"127.0.0.1:9009"'),
    "grpc.reflection": ("true", "true"),
    "http.publish_body_limit": ("32MiB", "33554432"),
    "http.body_limit": ("2MiB", '"2MiB"'),
    "http.cors_origins": ("https://a.example,http://b:81", '["https://a.example", "http://b:81"]'),
    "trusted_proxies": ("10.0.0.0/8,::1/128", '["10.0.0.0/8", "::1"]'),
    "limits.max_delay": ("1h30m", '"90m"'),
    "auth.enabled": ("true", "true"),
    "auth.allow_health": ("false", "false"),
    "auth.allow_metrics": ("true", "true"),
    "acl.enabled": ("true", "true"),
    "log.level": ("debug", '"debug"'),
    "log.format": ("json", '"json"'),
    "log.access": ("true", "true"),
    "log.slow_disk": ("250ms", '"250ms"'),
    "metrics.partitions": ("true", "true"),
    "tls.enabled": ("false", "false"),
    "tls.cert_file": ("/tls/cert.pem", '"/tls/cert.pem"'),
    "tls.key_file": ("/tls/key.pem", '"/tls/key.pem"'),
    "tls.ca_file": ("/tls/ca.pem", '"/tls/ca.pem"'),
    "tls.self_signed": ("true", "true"),
    "tls.client_auth": ("require-verify", '"require-verify"'),
    "tls.min_version": ("1.3", '"1.3"'),
    "tracing.sampling": ("0.25", "0.25"),
    "tracing.exporters": ("otlp,file", '["otlp", "file"]'),
    "tracing.file": ("/var/log/spans.jsonl", '"/var/log/spans.jsonl"'),
    "tracing.file_bytes": ("1MiB", "1048576"),
    "tracing.file_count": ("3", "3"),
    "tracing.otlp_protocol": ("grpc", '"grpc"'),
    "tracing.otlp_endpoint": ("http://tempo:4318", '"http://tempo:4318"'),
    "tracing.queue_spans": ("2000", "2000"),
    "listeners.internal": ("127.0.0.1:7007", '"127.0.0.1:7007"'),
    "cluster.enabled": ("true", "true"),
    "cluster.peers": ("127.0.0.1:7001", '["127.0.0.1:7001"]'),
    "cluster.advertise": ("node-1:7000", '"node-1:7000"'),
    "cluster.client_advertise": ("node-1:8080", '"node-1:8080"'),
    "cluster.quorum": ("2", "2"),
    "cluster.catch_up_bytes_per_sec": ("64MiB", "67108864"),
    "cluster.metadata": ("etcd", '"etcd"'),
    "cluster.etcd_endpoints": (
        "127.0.0.1:2379,127.0.0.1:2380",
        '["127.0.0.1:2379", "127.0.0.1:2380"]',
    ),
    "cluster.etcd_prefix": ("/queues/one", '"/queues/one"'),
    "cluster.etcd_ca_file": ("/etcd/ca.pem", '"/etcd/ca.pem"'),
    "cluster.etcd_cert_file": ("/etcd/cert.pem", '"/etcd/cert.pem"'),
    "cluster.etcd_key_file": ("/etcd/key.pem", '"/etcd/key.pem"'),
    "cluster_tls.enabled": ("true", "true"),
    "cluster_tls.cert_file": ("/tls/cert.pem", '"/tls/cert.pem"'),
    "cluster_tls.key_file": ("/tls/key.pem", '"/tls/key.pem"'),
    "cluster_tls.ca_file": ("/tls/ca.pem", '"/tls/ca.pem"'),
    "cluster_tls.self_signed": ("true", "true"),
    "cluster_tls.client_auth": ("require-verify", '"require-verify"'),
    "cluster_tls.min_version": ("1.3", '"1.3"'),
}

# What a node of a cluster needs besides.
_MEMBER = {
    "cluster.peers": "127.0.0.1:7001",
    "cluster_tls.enabled": "true",
    "cluster_tls.cert_file": "cert.pem",
    "cluster_tls.key_file": "key.pem",
    "cluster_tls.ca_file": "ca.pem",
    "cluster_tls.client_auth": "require-verify",
}

# The table and its reference


def documented() -> dict[str, list[str]]:
    """The rows of the reference that describe a setting, by its name."""
    rows: dict[str, list[str]] = {}
    for line in REFERENCE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and (found := re.fullmatch(r"`([a-z_.]+)`", cells[0])):
            assert found[1] not in rows, f"{found[1]} is documented twice"
            rows[found[1]] = cells
    return rows


def test_every_setting_that_is_read_is_documented_and_the_other_way_round() -> None:
    assert sorted(documented()) == sorted(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_reference_tells_variable_flags_default_and_meaning(name: str) -> None:
    setting = BY_NAME[name]
    _, variable, flags, default, meaning = documented()[name]
    assert variable == f"`{setting.variable}`"
    assert flags == (
        "none" if setting.is_secret else ", ".join(f"`{flag}`" for flag in setting.flags)
    )
    shown = setting.kind.show(setting.default)
    named = "the host name" if name == "broker.nodeid" else shown or "empty"
    assert default.strip("`") == named
    assert meaning == setting.meaning


def test_the_reference_separates_what_is_here_from_what_is_to_come() -> None:
    here, to_come = REFERENCE.read_text().split("## Settings of features to come")
    for setting in SETTINGS:
        part = here if setting.feature.is_here else to_come
        assert f"| `{setting.name}` |" in part


def test_no_two_settings_share_a_name_a_variable_or_a_flag() -> None:
    flags = [flag for setting in SETTINGS for flag in setting.flags]
    assert len(set(flags)) == len(flags)
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS) == len(BY_NAME)


def test_every_setting_of_this_version_is_tried_below() -> None:
    # Secrets are refused as flags, and have tests of their own.
    here = [
        setting.name
        for setting in SETTINGS
        if setting.feature.is_here and not setting.is_secret and not setting.secret
    ]
    assert sorted(here) == sorted(OTHER)


# Precedence


def test_without_anything_given_all_values_are_defaults() -> None:
    settings = read()
    assert settings.broker.data_dir == "./data"
    assert settings.broker.node_id == "host"
    assert settings.listeners.http == Listener("127.0.0.1", 8080)
    assert settings.http.publish_body_limit == 16 * 1024 * 1024
    assert settings.http.body_limit == 1024 * 1024
    assert settings.http.cors_origins == ()
    assert settings.limits.max_delay_ns == 366 * 24 * HOUR
    assert settings.trusted_proxies == ()
    assert (settings.log.level, settings.log.format) == ("info", "text")
    assert settings.warnings == ()
    assert {origin.source for origin in settings.origins} == {Source.DEFAULT}


@pytest.mark.parametrize("name", OTHER)
def test_a_setting_means_the_same_wherever_it_is_given(name: str) -> None:
    text, value = OTHER[name]
    # What is off may be half of something.
    off = {} if name == "tls.enabled" else {"tls.enabled": "false"}
    if name == "cluster.enabled":
        off |= _MEMBER
    by_flag = read(flags={name: text, **off})
    by_variable = read(flags=off, environment={BY_NAME[name].variable: text})
    by_file = read(flags=off, file=toml(key(name, value)))
    shown = origins(by_flag)[name][0]
    assert shown != origins(read())[name][0]
    assert origins(by_flag)[name] == (shown, Source.FLAG)
    assert origins(by_variable)[name] == (shown, Source.ENVIRONMENT)
    assert origins(by_file)[name] == (shown, Source.FILE)
    for settings in (by_flag, by_variable, by_file):
        assert settings.broker == by_flag.broker
        assert settings.listeners == by_flag.listeners
        assert settings.http == by_flag.http
        assert settings.limits == by_flag.limits
        assert settings.log == by_flag.log
        assert settings.tls == by_flag.tls
        assert settings.trusted_proxies == by_flag.trusted_proxies


names = st.text("abcdefgh0123456789", min_size=1, max_size=12)


@given(flag=st.none() | names, variable=st.none() | names, kept=st.none() | names, host=names)
def test_flag_outweighs_environment_outweighs_file_outweighs_default(
    flag: str | None, variable: str | None, kept: str | None, host: str
) -> None:
    settings = read(
        {} if flag is None else {"broker.nodeid": flag},
        {} if variable is None else {"GOQUEUE_BROKER_NODEID": variable},
        None if kept is None else toml(key("broker.nodeid", f'"{kept}"')),
        host,
    )
    weights = [
        (flag, Source.FLAG),
        (variable, Source.ENVIRONMENT),
        (kept, Source.FILE),
        (host, Source.DEFAULT),
    ]
    heaviest = next(each for each in weights if each[0] is not None)
    assert settings.broker.node_id == heaviest[0]
    assert origins(settings)["broker.nodeid"] == heaviest


def test_an_empty_list_outweighs_a_full_one() -> None:
    file = toml('[http]\ncors_origins = ["https://a.example"]')
    settings = read(environment={"GOQUEUE_HTTP_CORS_ORIGINS": ""}, file=file)
    assert settings.http.cors_origins == ()


def test_networks_are_networks() -> None:
    settings = read(flags={"trusted_proxies": "10.0.0.1, fd00::/8"})
    first, second = settings.trusted_proxies
    assert ipaddress.ip_address("10.0.0.1") in first
    assert ipaddress.ip_address("fd00::1") in second


# Names


def test_a_variable_that_is_not_known_is_a_warning_with_a_suggestion() -> None:
    settings = read(environment={"GOQUEUE_BROKER_DATA_DIR": "x", "GOQUEUE_\x1b": "", "PATH": "/"})
    assert len(settings.warnings) == 2
    assert "did you mean GOQUEUE_BROKER_DATADIR?" in settings.warnings[1]
    assert all(warning.isprintable() for warning in settings.warnings)


def test_variables_of_the_command_line_are_known() -> None:
    others = ["SERVER", "API_KEY", "CONTEXT", "TIMEOUT", "CONFIG", "NO_EXTENSIONS"]
    others += ["API_KEY_FILE", "CA_FILE", "CLIENT_CERT", "CLIENT_KEY", "ALLOW_PLAINTEXT"]
    assert read(environment={f"GOQUEUE_{name}": "x" for name in others}).warnings == ()


def test_names_that_do_not_exist_are_problems_in_a_file_and_among_flags() -> None:
    file = toml('broker = 1\nhtpp.x = 1\n[http]\nbody_limits = 1\n[log.level]\nx = "\\u001b"\n')
    found = problems({"brokr.nodeid": "x"}, file=file)
    assert [problem.setting for problem in found] == [
        "broker",
        "htpp",
        "http.body_limits",
        "brokr.nodeid",
        "log.level",
    ]
    assert "is a section: write [broker]" in found[0].reason
    assert "did you mean http.body_limit?" in found[2].reason
    assert "did you mean broker.nodeid?" in found[3].reason
    assert found[4].given == "a table"


def test_the_value_of_an_unknown_key_is_not_told() -> None:
    assert "hush" not in str(problems(file=toml('[api]\nrootkey = "hush"'))[0])


# Every problem at once


def test_every_problem_is_told_at_once() -> None:
    found = problems(
        {"http.body_limit": "huge", "cluster.enabled": "true"},
        {"GOQUEUE_LOG_LEVEL": "loud", "GOQUEUE_LISTENERS_HTTP": "0.0.0.0:80", "GOQUEUE_X": "y"},
        toml('nope = 1\n[http]\nbody_limit = true\n[log]\nlevel = "quiet"\n'),
        host_name="my host",
    )
    assert sorted((problem.setting, problem.origin) for problem in found) == [
        ("broker.nodeid", "host name"),
        ("cluster.client_advertise", "default"),
        ("cluster.peers", "default"),
        ("cluster.secret", "default"),
        ("http.body_limit", 'file "goqueue.toml", key http.body_limit'),
        ("http.body_limit", "flag --http-body-limit"),
        ("log.level", 'file "goqueue.toml", key log.level'),
        ("log.level", "variable GOQUEUE_LOG_LEVEL"),
        ("nope", 'file "goqueue.toml", key nope'),
        ("tls.enabled", "default"),
    ]
    (unset,) = [str(problem) for problem in found if problem.setting == "tls.enabled"]
    assert unset.startswith("tls.enabled (default): "), "it says which setting to set"


@pytest.mark.parametrize(
    ("name", "secret"),
    list(itertools.product(("api.root_key", "cluster.secret"), ("hu\x00sh", "hush" * 2000))),
)
def test_a_secret_is_never_told(name: str, secret: str) -> None:
    for found in (problems({name: secret}), problems({}, {BY_NAME[name].variable: secret})):
        (problem,) = found
        assert problem.given == "***"
        assert "hush" not in str(problem)


def test_a_secret_that_is_shown_is_only_shown_as_being_there() -> None:
    setting = BY_NAME["api.root_key"]
    assert setting.show(Secret("hush")) == "***"
    assert setting.show(Secret("")) == ""
