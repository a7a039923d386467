"""Files of settings: which one is used, and what is told when it cannot be."""

import os
from pathlib import Path

import pytest

from goqueue.runtime.settings import (
    Problem,
    SettingsInvalid,
    find_settings_file,
    load_settings,
    read_settings,
    read_settings_file,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problem_with(path: str) -> Problem:
    with pytest.raises(SettingsInvalid) as invalid:
        read_settings({}, {}, read_settings_file(path), host_name="host")
    (problem,) = invalid.value.problems
    assert str(problem).isprintable()
    return problem


def level(name: str, words: str) -> None:
    Path(name).write_text(f'[log]\nlevel = "{words}"\n')


def test_the_flag_chooses_the_file_before_the_variable_before_the_working_directory() -> None:
    assert find_settings_file({}, {}) is None
    level("goqueue.toml", "debug")
    level("variable.toml", "warning")
    level("flag.toml", "error")
    environment = {"GOQUEUE_CONFIG": "variable.toml"}
    assert load_settings({}, {}).log.level == "debug"
    assert load_settings({}, {"GOQUEUE_CONFIG": ""}).log.level == "debug"
    assert load_settings({}, environment).log.level == "warning"
    assert load_settings({"config": "flag.toml"}, environment).log.level == "error"


def test_the_node_id_is_the_host_name_unless_set() -> None:
    assert load_settings({}, {}).broker.node_id == os.uname().nodename


def test_a_file_that_was_asked_for_and_is_not_there_is_a_problem() -> None:
    level("goqueue.toml", "debug")
    for path in ("absent.toml", "", "goqueue.toml/x", "a\x00b", "x" * 5000):
        assert problem_with(path).reason.startswith("cannot be read: ")


def test_a_dangling_link_is_not_taken_for_no_file(folder: Path) -> None:
    (folder / "goqueue.toml").symlink_to("absent")
    with pytest.raises(SettingsInvalid, match="No such file"):
        load_settings({}, {})


def test_a_directory_is_not_a_file(folder: Path) -> None:
    assert problem_with(str(folder)).reason == "is a directory, not a file"


def test_a_named_pipe_does_not_hold_up_the_start(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert problem_with("pipe").reason == "is not a regular file"


def test_a_file_that_may_not_be_read_is_a_problem(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may read everything, so the refusal of the system is staged.
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path, None, flags)

    level("goqueue.toml", "debug")
    monkeypatch.setattr(os, "open", refuse)
    found = read_settings_file(str(folder / "goqueue.toml"))
    assert found.fault == "cannot be read: Permission denied"


def test_a_file_of_any_size_is_not_read_whole() -> None:
    with Path("goqueue.toml").open("wb") as file:
        file.truncate(1 << 40)
    assert problem_with("goqueue.toml").reason == "has more than 1048576 bytes"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[log]\nlevel = \n", "line 2"),
        (b"[log]\n[log]\n", "line 2"),
        (b"a = 1\na = 2\n", "line 2"),
        (b"a = 'x\x00'\n", "line 1"),
        (b"a = 'x\n", "end of document"),
        (b"a = '\x1b[2J'\n", "line 1"),
        (b"a = '\xff'\n", "is not UTF-8: byte 5"),
        (b"\xef\xbb\xbfa = 1\n", "line 1"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"9" * 10_000, "is not TOML"),
    ],
)
def test_what_is_not_toml_is_told_with_its_place(content: bytes, words: str) -> None:
    Path("goqueue.toml").write_bytes(content)
    assert words in problem_with("goqueue.toml").reason


def test_a_broken_file_does_not_hide_the_other_problems() -> None:
    Path("goqueue.toml").write_text("a = ")
    with pytest.raises(SettingsInvalid) as invalid:
        load_settings({"log.level": "loud"}, {"GOQUEUE_LOG_FORMAT": "xml"})
    assert [problem.setting for problem in invalid.value.problems] == [
        "",
        "log.format",
        "log.level",
    ]


def test_a_name_of_a_file_cannot_take_over_the_terminal() -> None:
    assert "\\x1b[2J" in problem_with("\x1b[2J").origin


def test_an_empty_file_changes_nothing() -> None:
    Path("goqueue.toml").write_text("# nothing\n")
    settings = load_settings({}, {})
    assert {origin.source for origin in settings.origins} == {"default"}
