"""`goqueue config`: every setting with its origin, every problem at once, and no secret."""

from pathlib import Path

import click
import msgspec
import pytest

from goqueue.cli.config import given_flags, setting_options
from goqueue.cli.dev import dev
from goqueue.client.entry import DEFAULT_SERVER
from goqueue.runtime.settings import SETTINGS
from tests.unit.cli.data_directories import Answer, Terminal


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no variable of ours."""
    monkeypatch.chdir(tmp_path)
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.delenv("GOQUEUE_CONFIG", raising=False)
    return tmp_path


def shown(answer: Answer) -> dict[str, tuple[str, str]]:
    document = answer.json()
    assert isinstance(document, dict)
    return {row["setting"]: (row["value"], row["place"]) for row in document["settings"]}


def test_show_tells_every_setting_and_where_it_came_from(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("goqueue.toml").write_text('[log]\nlevel = "debug"\nformat = "json"\n')
    monkeypatch.setenv("GOQUEUE_LOG_FORMAT", "text")
    answer = terminal.run("config", "show", "--all", "--http", "off", "-o", "json")
    assert answer.code == 0
    rows = shown(answer)
    assert list(rows) == [setting.name for setting in SETTINGS]
    assert rows["broker.datadir"] == ("./data", "default")
    assert rows["log.level"] == ("debug", 'file "goqueue.toml", key log.level')
    assert rows["log.format"] == ("text", "variable GOQUEUE_LOG_FORMAT")
    assert rows["listeners.http"] == ("off", "flag --listeners-http")
    assert "nobody can reach this node" in answer.err


def test_show_draws_a_table_or_writes_yaml(terminal: Terminal) -> None:
    for arguments in ((), ("-o", "yaml")):
        answer = terminal.run("config", "show", "--all", *arguments)
        assert answer.code == 0
        assert all(setting.name in answer.out for setting in SETTINGS)


def test_settings_of_features_to_come_are_shown_only_when_asked_for(terminal: Terminal) -> None:
    rows = shown(terminal.run("config", "show", "-o", "json"))
    assert "broker.datadir" in rows
    assert "listeners.kafka" not in rows
    assert len(rows) < len(SETTINGS)
    assert "listeners.kafka" in shown(terminal.run("config", "show", "--all", "-o", "json"))


def test_the_help_of_serve_groups_its_flags(terminal: Terminal) -> None:
    words = terminal.run("serve", "--help").out
    assert "Settings of the broker:" in words
    assert words.index("Options:") < words.index("Settings of the broker:")
    assert "--data-dir PATH" in words
    assert "--log-level debug|info|warning|error" in words


@pytest.mark.parametrize("output", ["table", "json"])
def test_every_problem_is_reported_and_the_exit_code_is_two(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    Path("goqueue.toml").write_text("[http]\nbody_limits = 1\n")
    monkeypatch.setenv("GOQUEUE_LOG_LEVEL", "loud\x1b[2J")
    monkeypatch.setenv("GOQUEUE_CLUSTER_SECRET", "hush")
    answer = terminal.run("config", "show", "--cluster", "-o", output)
    assert answer.code == 2
    assert not answer.out
    assert "hush" not in answer.err
    if output == "json":
        document = msgspec.json.decode(answer.err)
        assert (document["code"], len(document["problems"])) == ("settings_invalid", 4)
        return
    lines = answer.err.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("goqueue: ") and line.isprintable() for line in lines)


def test_an_unknown_flag_is_misuse(terminal: Terminal) -> None:
    answer = terminal.run("config", "show", "--broker-nodeit", "x")
    assert answer.code == 2
    assert "No such option" in answer.err


def test_flags_of_features_to_come_are_taken_and_refused_but_not_offered(
    terminal: Terminal,
) -> None:
    offered = terminal.run("config", "show", "--help").out
    assert "--data-dir" in offered
    assert "--auth-enabled" in offered
    assert "--kafka" not in offered
    answer = terminal.run("config", "show", "--kafka", "127.0.0.1:9092")
    assert answer.code == 2
    assert "not available in this version" in answer.err


def test_check_judges_a_file_by_itself(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_LOG_LEVEL", "loud")
    Path("other.toml").write_text('[log]\nlevel = "debug"\n')
    answer = terminal.run("config", "check", "other.toml")
    assert (answer.code, answer.out) == (0, "other.toml: no problem found\n")
    assert not answer.err


def test_check_without_a_file_judges_what_a_node_here_would_use(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no file" in terminal.run("config", "check").out
    Path("goqueue.toml").write_text('[log]\nlevel = "debug"\n')
    assert terminal.run("config", "check").out.startswith("goqueue.toml and environment: ")
    monkeypatch.setenv("GOQUEUE_LOG_FORMAT", "xml")
    answer = terminal.run("config", "check")
    assert answer.code == 2
    assert "GOQUEUE_LOG_FORMAT" in answer.err


def test_check_tells_its_problems_as_a_document_too(terminal: Terminal) -> None:
    Path("bad.toml").write_text('[log]\nlevel = "loud"\n')
    answer = terminal.run("config", "check", "bad.toml", "-o", "json")
    assert answer.code == 2
    assert answer.json() == {
        "file": "bad.toml",
        "problems": [
            {
                "setting": "log.level",
                "origin": 'file "bad.toml", key log.level',
                "given": '"loud"',
                "reason": "is not debug, info, warning or error",
                "allowed": "debug, info, warning or error",
            }
        ],
        "warnings": [],
    }


@pytest.mark.parametrize("path", ["absent.toml", ".", "\x1b[2J"])
def test_a_file_that_cannot_be_read_is_one_line(terminal: Terminal, path: str) -> None:
    answer = terminal.run("config", "check", path)
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "\x1b" not in answer.err


# Settings as flags


def collect(*arguments: str) -> dict[str, str]:
    @click.command()
    @setting_options
    def command() -> dict[str, str]:
        return given_flags(click.get_current_context())

    collected = command.main(list(arguments), standalone_mode=False)
    assert isinstance(collected, dict)
    return collected


def test_only_flags_that_were_given_are_collected() -> None:
    assert collect() == {}


def test_short_and_systematic_flags_name_the_same_setting() -> None:
    for flag in ("--data-dir", "--broker-datadir"):
        assert collect(flag, "x") == {"broker.datadir": "x"}
    for protocol in ("http", "grpc", "kafka", "sqs"):
        assert collect(f"--{protocol}", "off") == {f"listeners.{protocol}": "off"}
    assert collect("--trusted-proxies", "::1", "--config", "f") == {
        "trusted_proxies": "::1",
        "config": "f",
    }


def test_a_switch_may_be_named_alone_or_given_a_value() -> None:
    for arguments in (("--cluster",), ("--cluster=true",), ("--cluster-enabled", "true")):
        assert collect(*arguments, "--http", "off") == {
            "cluster.enabled": "true",
            "listeners.http": "off",
        }
    assert collect("--auth-enabled=false") == {"auth.enabled": "false"}


def test_a_flag_keeps_what_was_typed_and_the_last_one_counts() -> None:
    assert collect("--http-body-limit", "", "--log-level", "a", "--log-level", " b ") == {
        "http.body_limit": "",
        "log.level": " b ",
    }


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_a_flag(setting: object) -> None:
    name = getattr(setting, "name", "")
    for flag in getattr(setting, "flags", ()):
        assert collect(flag, "x") == {name: "x"}


def test_a_node_listens_where_clients_look_for_one() -> None:
    listeners = {setting.name: setting.default for setting in SETTINGS}
    assert f"http://{listeners['listeners.http']}" == DEFAULT_SERVER
    port = next(parameter for parameter in dev.params if parameter.name == "port")
    assert f"http://127.0.0.1:{port.default}" == DEFAULT_SERVER
