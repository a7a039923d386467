"""The program as a whole: exit codes, one helpful line for each mistake, what DIR may be."""

import os
from pathlib import Path

import msgspec
import pytest
from click.shell_completion import ShellComplete

import goqueue
from goqueue.cli.program import program
from goqueue.model import LogId
from goqueue.records import COMPILED
from goqueue.runtime import OsFileSystem
from goqueue.storage import Entry
from tests.unit.cli.data_directories import Terminal, write_log

COMMANDS = ["verify", "dump", "stats", "rebuild-index"]


def test_help_lists_every_command(terminal: Terminal) -> None:
    for flag in ("-h", "--help"):
        answer = terminal.run(flag)
        assert answer.code == 0
        assert "log" in answer.out
        assert "version" in answer.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_log_has_help(terminal: Terminal, command: str) -> None:
    assert command in terminal.run("log", "--help").out
    answer = terminal.run("log", command, "--help")
    assert answer.code == 0
    assert "DIR" in answer.out


@pytest.mark.parametrize("arguments", [(), ("log",)])
def test_a_bare_group_shows_its_help_and_counts_as_misuse(
    terminal: Terminal, arguments: tuple[str, ...]
) -> None:
    answer = terminal.run(*arguments)
    assert answer.code == 2
    assert "ommands:" in answer.err


@pytest.mark.parametrize("port", ["99999", "-1", "http"])
def test_a_port_that_there_is_not_is_one_line(terminal: Terminal, port: str) -> None:
    answer = terminal.run("dev", "--port", port)
    assert answer.code == 2
    assert "--port" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("cluster", "forget", "", "--force"),
        ("cluster", "elect", "orders-0", "", "--unclean", "--force"),
        ("schedule", "delete", "", "--force"),
        ("key", "revoke", "", "--force"),
        ("acl", "delete", "", "--force"),
        ("tenant", "show", ""),
        ("backup", "show", ""),
        ("trace", "show", ""),
        ("txn", "abort", "", "--force"),
        ("schema", "versions", ""),
    ],
    ids=" ".join,
)
def test_an_empty_name_is_misuse_that_no_server_hears_of(
    terminal: Terminal, arguments: tuple[str, ...]
) -> None:
    """A script with a variable that is not set: no other path of the API, no other node."""
    answer = terminal.run(*arguments)
    assert answer.code == 2, answer.err
    assert answer.err.count("\n") == 1


def test_the_version_says_whether_compiled_extensions_are_used(terminal: Terminal) -> None:
    records = "compiled" if COMPILED else "interpreted"
    # No server listens on this port, and none has to.
    alone = ("version", "-s", "http://127.0.0.1:1")
    first, second = terminal.run(*alone).out.splitlines()
    way = "with compiled" if COMPILED else "interpreted, without compiled"
    assert first == f"goqueue {goqueue.__version__}, {way} extensions"
    assert second.startswith("server not reached at http://127.0.0.1:1: ")
    document = {"version": goqueue.__version__, "records": records, "server": None}
    assert terminal.run(*alone, "-o", "json").json() == document


def test_the_version_of_the_program_is_a_flag_too(terminal: Terminal) -> None:
    answer = terminal.run("--version")
    assert (answer.code, answer.out) == (0, f"goqueue {goqueue.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("topc",), "topic"),
        (("grop", "list"), "group"),
        (("topic", "lst"), "list"),
        (("topic", "list", "--ouput", "json"), "--output"),
    ],
)
def test_a_mistyped_command_or_flag_is_answered_with_the_one_that_was_meant(
    terminal: Terminal, arguments: tuple[str, ...], meant: str
) -> None:
    answer = terminal.run(*arguments)
    assert answer.code == 2
    assert "Did you mean" in answer.err
    assert repr(meant) in answer.err


def test_the_beginning_of_a_command_is_answered_with_its_whole_name(terminal: Terminal) -> None:
    answer = terminal.run("group", "reset", "billing")
    assert answer.code == 2
    assert "No such command 'reset'; did you mean 'reset-offsets'?" in answer.err


@pytest.mark.parametrize("flags", [("-o", "json"), ("-ojson",), ("--output=json",)])
def test_a_failure_is_a_document_where_json_was_asked_for(
    terminal: Terminal, flags: tuple[str, ...]
) -> None:
    for arguments, exit_code, code in (
        (("topic", "lst", *flags), 2, "usage"),
        (("topic", "list", *flags, "-s", "http://127.0.0.1:1"), 3, "server_unreachable"),
        (("log", "verify", "/nowhere", *flags), 2, "usage"),
    ):
        answer = terminal.run(*arguments)
        document = msgspec.json.decode(answer.err)
        assert (answer.code, answer.out) == (exit_code, "")
        assert (document["code"], document["exit_code"]) == (code, exit_code)
        assert document["error"]
        assert document["hint"]


def test_a_failure_is_one_line_of_json_or_yaml(terminal: Terminal) -> None:
    line = terminal.run("topic", "lst", "-o", "jsonl").err
    assert line.count("\n") == 1
    assert msgspec.json.decode(line)["code"] == "usage"
    assert msgspec.yaml.decode(terminal.run("topic", "lst", "-o", "yaml").err)["code"] == "usage"


def test_the_help_of_a_command_has_one_row_for_all_global_options(terminal: Terminal) -> None:
    words = terminal.run("group", "list", "--help").out
    assert words.count("--") == 4  # the row with two of them, where to look, and --help
    assert "goqueue --help" in words
    whole = terminal.run("--help").out
    for flag in ("--server", "--context", "--api-key", "--timeout", "--output", "--local-time"):
        assert flag in whole


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("topic list -o ", ["table", "wide", "json", "jsonl", "yaml"]),
        ("topic list --ou", ["--output"]),
        ("produce t --priority h", ["high"]),
        ("serve --log-level w", ["warning"]),
        ("serve --log-format ", ["text", "json"]),
        ("topic alter t --set flush_policy=", ["flush_policy=commit", "flush_policy=interval"]),
        ("top --view n", ["node"]),
    ],
)
def test_values_are_completed(typed: str, offered: list[str]) -> None:
    *words, incomplete = typed.split(" ")
    shell = ShellComplete(program, {}, "goqueue", "_GOQUEUE_COMPLETE")
    assert [item.value for item in shell.get_completions(words, incomplete)] == offered


def test_the_output_may_be_chosen_before_the_command(terminal: Terminal, tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    first = terminal.run("-o", "json", "log", "verify", tmp_path)
    assert first.out == terminal.run("log", "verify", tmp_path, "-o", "json").out
    last_wins = terminal.run("-o", "json", "log", "verify", tmp_path, "-o", "table")
    assert last_wins.out.startswith("1 record in")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("frobnicate",), "No such command 'frobnicate' (see goqueue --help)"),
        (("log", "frob"), "No such command 'frob' (see goqueue log --help)"),
        (("log", "verify"), "Missing argument 'DIR' (see goqueue log verify --help)"),
        (("log", "verify", "x", "-o", "xml"), "'xml' is not one of"),
        (("log", "dump", "x", "--from", "-1"), "-1 is less than 0"),
        (("log", "dump", "x", "--limit", "0"), "0 is less than 1"),
        (("log", "stats", "x", "--fast"), "No such option"),
    ],
)
def test_misuse_is_one_helpful_line(
    terminal: Terminal, arguments: tuple[str, ...], words: str
) -> None:
    answer = terminal.run(*arguments)
    assert answer.code == 2
    assert not answer.out
    assert answer.err.startswith("goqueue: ")
    assert answer.err.count("\n") == 1
    assert words in answer.err


# What DIR may be


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_that_is_unsuitable_is_refused_and_left_alone(
    terminal: Terminal, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    empty = tmp_path / "empty"
    empty.mkdir()
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "logs").symlink_to(empty)
    for path, words in (
        (tmp_path / "nowhere", "does not exist"),
        (file, "is a file, not a directory"),
        (empty, "is neither a data directory"),
        (linked, "is a link, not a directory"),
    ):
        answer = terminal.run("log", command, path)
        assert answer.code == 2
        assert words in answer.err
    assert not list(empty.iterdir())
    assert not (tmp_path / "nowhere").exists()


def test_a_name_that_would_take_over_the_terminal_is_escaped(
    terminal: Terminal, tmp_path: Path
) -> None:
    answer = terminal.run("log", "verify", tmp_path / "\x1b[2J")
    assert "\x1b" not in answer.err
    assert "\\x1b[2J does not exist" in answer.err


def test_a_data_directory_without_logs_is_sound(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("")
    answer = terminal.run("log", "verify", tmp_path)
    assert answer.code == 0
    assert answer.out == "0 records in 0 segments (0 B): no problem found\n"


def test_a_partition_is_known_by_its_place(terminal: Terminal, tmp_path: Path) -> None:
    directory = write_log(tmp_path, 1)
    write_log(tmp_path, 5, LogId("other", 0))
    answer = terminal.run("log", "verify", directory)
    assert answer.out.startswith("1 record in 1 segment")


def test_foreign_things_among_the_logs_are_noted(terminal: Terminal, tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    (tmp_path / "logs" / "lost+found").mkdir()
    (tmp_path / "logs" / "orders" / "00").mkdir()
    os.symlink(tmp_path, tmp_path / "logs" / "loop")
    answer = terminal.run("log", "verify", tmp_path)
    assert answer.code == 0
    for path in ("logs/lost+found", "logs/loop", "logs/orders/00"):
        assert f"note: {path}: not ours" in answer.out


# When the system refuses


@pytest.mark.parametrize("command", COMMANDS)
def test_a_permission_error_is_a_clear_sentence(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    write_log(tmp_path, 1)

    def refuse(_: OsFileSystem, directory: str) -> list[Entry]:
        raise PermissionError(13, "Permission denied", f"{tmp_path}/{directory}")

    monkeypatch.setattr(OsFileSystem, "entries", refuse)
    answer = terminal.run("log", command, tmp_path)
    assert answer.code == 1
    assert answer.err.startswith(f"goqueue: {tmp_path}")
    assert "permission denied; run this as the user of the broker" in answer.err


def test_another_refusal_of_the_system_is_told_with_the_name(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, 1)

    def fail(_: OsFileSystem, directory: str) -> list[Entry]:
        raise OSError(5, "Input/output error", f"{tmp_path}/{directory}")

    monkeypatch.setattr(OsFileSystem, "entries", fail)
    answer = terminal.run("log", "verify", tmp_path)
    assert answer.code == 1
    assert answer.err == f"goqueue: {tmp_path}/: Input/output error\n"
