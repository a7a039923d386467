"""Values of settings: what each kind takes, what this version lacks, how far a listener reaches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.runtime.settings import (
    SETTINGS,
    Feature,
    Listener,
    Settings,
    SettingsInvalid,
    Source,
    clear_secrets,
    read_settings,
)
from tests.unit.runtime.settings.given_settings import BY_NAME, key, origins, problems, read, toml

# What each kind takes

WRONG = [
    ("broker.datadir", ["", "a\x00b", "a\nb", "a\x1b[2J", "x" * 5000, "\ud800"]),
    ("broker.nodeid", ["", ".", "..", "a b", "a/b", "a\n", "é", "x" * 250]),
    ("broker.journal_reserve", ["", "-1", "5%", "2GiB"]),
    (
        "listeners.http",
        [
            "",
            "8080",
            ":8080",
            "localhost",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "localhost:-1",
            "localhost:8080\n",
            "::1:8080",
            "[::1]",
            "[::1",
            "[127.0.0.1]:80",
            "[]:80",
            "127.0.0.256:80",
            "1.2.3:80",
            "-a:80",
            "a b:80",
            "http://localhost:80",
            "OFF",
            "x" * 5000 + ":80",
            "localhost:٨٠",
        ],
    ),
    (
        "http.body_limit",
        ["", "0", "1", "-1", "1MB", "1mib", "1.5MiB", "MiB", "2GiB", "9" * 400, "1MiB\n", "٤MiB"],
    ),
    (
        "http.cors_origins",
        ["a", "null", "https://", "https://a/", "https://a/b", "https://a b", ",", "https://a,,"],
    ),
    ("trusted_proxies", ["a", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0,", "300.1.1.1", "1" * 5000]),
    ("log.level", ["", "INFO", "loud", "info "]),
    ("log.format", ["", "xml"]),
    ("auth.enabled", ["", "yes", "1", "True", "FALSE"]),
    ("limits.max_delay", ["", "5", "-1s", "1y", "9000h"]),
    ("audit.retention_hours", ["", "0", "0h", "90m", "-1", "1y", "10000001"]),
    ("broker.group_retention_hours", ["", "1.5h", "87601h"]),
    ("cluster.quorum", ["", "-1", "x", "1" * 50]),
    ("tracing.sampling", ["", "nan", "inf", "1.1", "-0.1", "1e-1"]),
    ("tracing.exporters", ["jaeger", "file,", "File", "file;otlp"]),
    ("tracing.file_bytes", ["", "1KiB", "65GiB"]),
    ("tracing.file_count", ["", "0", "-1", "10001", "1.5"]),
    ("tracing.otlp_protocol", ["", "thrift", "HTTP"]),
    (
        "tracing.otlp_endpoint",
        ["collector", "ftp://a:1", "http://", "a b:1", "a:99999", "x" * 5000],
    ),
    ("tracing.queue_spans", ["", "999", "10000001"]),
]


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in WRONG for text in texts]
)
def test_a_wrong_value_is_a_problem_that_says_where_and_what_is_allowed(
    name: str, text: str
) -> None:
    setting = BY_NAME[name]
    for found, origin in (
        (problems(flags={name: text}), f"flag {setting.flags[0]}"),
        (problems(environment={setting.variable: text}), f"variable {setting.variable}"),
    ):
        (problem,) = found
        assert (problem.setting, problem.origin) == (name, origin)
        assert problem.allowed == setting.kind.allowed
        assert str(problem).isprintable()
        assert len(str(problem)) < 1000


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("off", None),
        ("127.0.0.1:0", Listener("127.0.0.1", 0)),
        ("LocalHost:65535", Listener("localhost", 65535)),
        ("[0:0::1]:80", Listener("::1", 80)),
    ],
)
def test_a_listener_is_an_address_or_off(text: str, listener: Listener | None) -> None:
    assert read(flags={"listeners.http": text}).listeners.http == listener


@pytest.mark.parametrize(
    ("text", "hours", "shown"),
    [("2160", 2160, "90d"), ("90d", 2160, "90d"), ("36h", 36, "1d12h"), ("1", 1, "1h")],
)
def test_hours_are_a_number_or_a_duration_and_are_shown_in_days(
    text: str, hours: int, shown: str
) -> None:
    settings = read(flags={"audit.retention_hours": text})
    assert settings.audit.retention_hours == hours
    assert origins(settings)["audit.retention_hours"][0] == shown
    assert read(file=toml(key("audit.retention_hours", f'"{text}"'))).audit == settings.audit


def test_a_word_that_is_no_choice_is_told_the_choices_once() -> None:
    (problem,) = problems(flags={"log.level": "loud"})
    assert str(problem) == 'flag --log-level: "loud" is not debug, info, warning or error'


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024", 1024), ("1KiB", 1024), ("3 MiB", 3 << 20), ("1GiB", 1 << 30), ("1025", 1025)],
)
def test_a_size_is_bytes_or_has_a_unit(text: str, size: int) -> None:
    settings = read(flags={"http.body_limit": text})
    assert settings.http.body_limit == size
    shown = origins(settings)["http.body_limit"][0]
    assert read(flags={"http.body_limit": shown}).http.body_limit == size


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("broker.datadir", "3"),
        ("broker.datadir", "true"),
        ("broker.datadir", "[]"),
        ("broker.datadir", "{a = 1}"),
        ("broker.nodeid", "1979-05-27"),
        ("listeners.http", "8080"),
        ("listeners.http", "false"),
        ("http.body_limit", "true"),
        ("http.body_limit", "1.5"),
        ("http.body_limit", "-1"),
        ("http.body_limit", "9" * 400),
        ("http.cors_origins", '"https://a.example"'),
        ("http.cors_origins", "[1]"),
        ("http.cors_origins", '[["https://a.example"]]'),
        ("http.cors_origins", str([f"https://a{n}" for n in range(300)])),
        ("trusted_proxies", "{}"),
        ("auth.enabled", '"false"'),
        ("auth.enabled", "0"),
        ("limits.max_delay", "5"),
        ("cluster.quorum", "true"),
        ("tracing.sampling", "nan"),
        ("tracing.sampling", "true"),
        ("tracing.exporters", '"file"'),
        ("tracing.file_count", "true"),
        ("tracing.otlp_endpoint", "4318"),
    ],
)
def test_a_wrong_type_in_the_file_is_a_problem(name: str, value: str) -> None:
    (problem,) = problems(file=toml(key(name, value)))
    assert problem.setting == name
    assert problem.origin == f'file "goqueue.toml", key {name}'
    assert str(problem).isprintable()


@given(st.sampled_from(sorted(BY_NAME)), st.text(max_size=30))
def test_any_text_is_a_value_that_reads_back_or_a_printable_problem(name: str, text: str) -> None:
    setting = BY_NAME[name]
    try:
        value = setting.kind.from_text(text)
    except ValueError:
        assert str(problems(flags={name: text})[0]).isprintable()
    else:
        if setting.is_secret:
            assert setting.kind.show(value) in ("", "***")
        else:
            assert setting.kind.from_text(setting.kind.show(value)) == value


def test_a_host_name_that_is_no_name_is_a_problem_until_an_id_is_given() -> None:
    (problem,) = problems(host_name="my host")
    assert "set broker.nodeid" in str(problem)
    assert read({"broker.nodeid": "a"}, host_name="my host").broker.node_id == "a"


# Exporters of spans


def test_spans_have_a_file_in_the_data_directory_and_the_usual_collector_unless_told() -> None:
    tracing = read({"broker.datadir": "/d"}).tracing
    assert tracing.file == "/d/traces/spans.jsonl"
    assert tracing.otlp_endpoint == "http://127.0.0.1:4318"
    assert read({"tracing.otlp_protocol": "grpc"}).tracing.otlp_endpoint == "127.0.0.1:4317"
    given_both = {"tracing.file": "/f", "tracing.otlp_endpoint": "https://tempo/v1/traces"}
    assert read(given_both).tracing.file == "/f"
    assert read(given_both).tracing.otlp_endpoint == "https://tempo/v1/traces"


def test_otlp_over_http_needs_a_url() -> None:
    flags = {"tracing.exporters": "otlp", "tracing.otlp_endpoint": "tempo:4318"}
    (problem,) = problems(flags)
    assert (problem.setting, problem.given) == ("tracing.otlp_endpoint", '"tempo:4318"')
    assert read({**flags, "tracing.otlp_protocol": "grpc"}).tracing.exporters == ("otlp",)


def test_otlp_without_its_packages_is_a_problem_only_if_it_is_asked_for() -> None:
    def read_without(flags: dict[str, str]) -> Settings:
        return read_settings(flags, {}, None, host_name="host", has_module=lambda _: False)

    assert read_without({"tracing.exporters": "file,stdout"}).tracing.exporters
    with pytest.raises(SettingsInvalid, match=r"pip install '\.\[otlp\]'"):
        read_without({"tracing.exporters": "file,otlp"})


# Features to come, and the reach of a listener

ASKING = {
    "listeners.kafka": "127.0.0.1:9092",
    "listeners.sqs": "127.0.0.1:9324",
}


def test_each_feature_to_come_is_asked_for_below() -> None:
    assert sorted(ASKING) == sorted(s.name for s in SETTINGS if not s.feature.is_here)


@pytest.mark.parametrize("name", ASKING)
def test_asking_for_a_feature_to_come_is_a_problem_and_never_ignored(name: str) -> None:
    (problem,) = problems(environment={BY_NAME[name].variable: ASKING[name]})
    assert "not available in this version" in problem.reason
    assert BY_NAME[name].feature.value in problem.reason


@pytest.mark.parametrize("name", ASKING)
def test_giving_the_default_of_a_feature_to_come_is_fine(name: str) -> None:
    setting = BY_NAME[name]
    settings = read(environment={setting.variable: setting.kind.show(setting.default)})
    assert origins(settings)[name][1] == Source.ENVIRONMENT


def test_a_feature_that_is_turned_off_again_is_not_asked_for() -> None:
    file = toml('[listeners]\nkafka = "127.0.0.1:9092"')
    assert len(problems(file=file)) == 1
    assert read(flags={"listeners.kafka": "off"}, file=file).warnings == ()


def test_grpc_without_its_package_is_a_problem_only_if_it_is_asked_for() -> None:
    def read_without(flags: dict[str, str]) -> Settings:
        return read_settings(flags, {}, None, host_name="host", has_module=lambda _: False)

    assert read_without({}).listeners.grpc is None
    with pytest.raises(SettingsInvalid, match=r"pip install '\.\[grpc\]'"):
        read_without({"listeners.grpc": "127.0.0.1:9000"})


def test_a_grpc_listener_beyond_loopback_asks_for_keys_and_tls() -> None:
    flags = {"listeners.grpc": "0.0.0.0:9000"}
    assert "0.0.0.0:9000 is not loopback" in str(problems(flags)[0].reason)
    settings = read({**flags, "tls.enabled": "false"})
    assert settings.auth.is_enabled
    assert any("0.0.0.0:9000" in warning for warning in settings.warnings)


def test_some_features_are_here_and_some_are_to_come() -> None:
    assert Feature.HTTP.is_here
    assert not Feature.KAFKA.is_here


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_authentication(host: str) -> None:
    settings = read(flags={"listeners.http": f"{host}:80"})
    assert settings.listeners.http is not None
    assert settings.listeners.http.is_loopback
    assert settings.warnings == ()


EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the address that is to be refused


@pytest.mark.parametrize(
    "host",
    [EVERY_ADDRESS, "[::]", "10.0.0.1", "example.com", "localhost.example.com", "[fe80::1]"],
)
def test_beyond_loopback_keys_are_required_unless_the_operator_lets_everybody_in(host: str) -> None:
    flags = {"listeners.http": f"{host}:80", "tls.enabled": "true", "tls.self_signed": "true"}
    assert read(flags).auth.is_enabled
    assert read(flags).warnings == ()

    everybody = read(flags, {"GOQUEUE_AUTH_ENABLED": "false"})
    assert not everybody.auth.is_enabled
    (warning,) = everybody.warnings
    assert "every client that can connect is an admin" in warning


def test_on_loopback_authentication_is_off_unless_it_is_chosen() -> None:
    assert not read({}).auth.is_enabled
    assert read({"auth.enabled": "true"}).auth.is_enabled
    assert not read({"auth.enabled": "false"}).auth.is_enabled


def test_every_origin_is_let_in_only_with_authentication() -> None:
    (problem,) = problems({"http.cors_origins": "https://a.example,*", "auth.enabled": "false"})
    assert problem.setting == "http.cors_origins"
    assert problem.given == '"*"'
    assert read({"http.cors_origins": "*", "auth.enabled": "true"}).http.cors_origins == ("*",)


def test_a_node_that_nobody_can_reach_is_warned_about() -> None:
    assert "nobody can reach" in read(flags={"listeners.http": "off"}).warnings[0]


# TLS

FILES = {"tls.enabled": "true", "tls.cert_file": "c.pem", "tls.key_file": "k.pem"}


def test_tls_is_off_on_loopback_until_it_is_switched_on() -> None:
    assert not read().tls.is_enabled
    assert not read({"tls.enabled": "false"}).tls.is_enabled
    tls = read({**FILES, "tls.ca_file": "a.pem", "tls.client_auth": "require"}).tls
    assert (tls.is_enabled, tls.cert_file, tls.key_file) == (True, "c.pem", "k.pem")
    assert (tls.ca_file, tls.client_auth, tls.min_version) == ("a.pem", "require", "1.2")


@pytest.mark.parametrize(
    ("flags", "setting", "words"),
    [
        ({"tls.enabled": "true"}, "tls.cert_file", "or tls.self_signed"),
        ({"tls.enabled": "true", "tls.cert_file": "c"}, "tls.key_file", "is empty"),
        ({**FILES, "tls.self_signed": "true"}, "tls.self_signed", "excludes"),
        ({**FILES, "tls.client_auth": "verify"}, "tls.client_auth", "needs tls.ca_file"),
        ({"tls.cert_file": "c", "tls.key_file": ""}, "tls.cert_file", "set tls.enabled"),
        ({"tls.self_signed": "true"}, "tls.self_signed", "set tls.enabled"),
    ],
)
def test_half_of_tls_is_a_problem(flags: dict[str, str], setting: str, words: str) -> None:
    (problem,) = problems(flags)
    assert problem.setting == setting
    assert words in problem.reason


def test_certificates_of_tls_may_be_kept_while_it_is_switched_off() -> None:
    assert read({**FILES, "tls.enabled": "false"}).warnings == ()


def test_an_authority_without_a_policy_is_warned_about() -> None:
    (warning,) = read({**FILES, "tls.ca_file": "a.pem"}).warnings
    assert "tls.ca_file has no effect" in warning


def test_beyond_loopback_tls_is_switched_on_or_off_and_never_forgotten() -> None:
    flags = {"listeners.http": f"{EVERY_ADDRESS}:80", "auth.enabled": "false"}
    (problem,) = problems(flags)
    assert (problem.setting, problem.origin) == ("tls.enabled", "default")
    assert "is not loopback" in problem.reason
    warnings = read({**flags, "tls.enabled": "false"}).warnings
    assert any("can be read on the way" in each for each in warnings)
    assert read({**flags, **FILES}).tls.is_enabled


def test_a_certificate_for_development_needs_its_extra() -> None:
    flags = {"tls.enabled": "true", "tls.self_signed": "true"}
    with pytest.raises(SettingsInvalid, match=r"pip install '\.\[tls\]'.*openssl req -x509"):
        read_settings(flags, {}, None, host_name="host", has_module=lambda _: False)


# Secrets

SECRETS = [setting.name for setting in SETTINGS if setting.is_secret]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_as_a_flag_is_refused_and_told_where_it_belongs(name: str) -> None:
    (problem,) = problems({name: "hush"})
    variable = BY_NAME[name].variable
    assert f"set {variable} or {variable}_FILE" in problem.reason
    assert "hush" not in str(problem)
    assert BY_NAME[f"{name}_file"].secret == name


def test_secrets_leave_the_environment_when_they_were_read() -> None:
    environment = {BY_NAME[name].variable: "hush" for name in SECRETS}
    environment |= {"GOQUEUE_API_KEY": "hush", "GOQUEUE_API_KEY_FILE": "/f", "PATH": "/bin"}
    clear_secrets(environment)
    assert environment == {"GOQUEUE_API_KEY_FILE": "/f", "PATH": "/bin"}
