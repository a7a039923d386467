"""Contexts: kept for their owner alone, changed as a whole, outweighed by environment and flags."""

import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.client_settings import (
    ClientSettings,
    ClientSettingsInvalid,
    Context,
    Contexts,
    change_contexts,
    load_client_settings,
    read_contexts,
    resolve_client_settings,
)
from goqueue.model import Secret
from tests.unit.cli.data_directories import Terminal

KEPT = Contexts(
    current="near",
    contexts={
        "near": Context(server="http://near:1", api_key=Secret("near-key"), timeout=1.0),
        "far": Context(server="http://far:2"),
    },
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SERVER", "API_KEY", "API_KEY_FILE", "CA_FILE", "CONTEXT", "TIMEOUT"):
        monkeypatch.delenv(f"GOQUEUE_{name}", raising=False)
    return tmp_path


@pytest.fixture
def file(home: Path) -> Path:
    return home / ".goqueue" / "config.toml"


def plain(context: Context) -> dict[str, object]:
    """What a context says, with its key."""
    fields = msgspec.structs.asdict(context)
    shown = {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in fields.items()
    }
    return {name: value for name, value in shown.items() if value is not None}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The commands


def test_a_context_is_made_chosen_shown_and_forgotten(terminal: Terminal) -> None:
    assert "no contexts" in terminal.run("context", "list").out
    made = terminal.run(
        "context", "set", "a", "--server", "http://h:1/", "--api-key", "hush", "--timeout", "2.5"
    )
    assert (made.code, made.err) == (0, "")
    assert made.out == "created context a: http://h:1; use it with: goqueue context use a\n"
    assert terminal.run("context", "set", "b", "-s", "far:2").code == 0
    assert terminal.run("context", "use", "a").out == "using context a: http://h:1\n"
    first = {
        "name": "a",
        "current": True,
        "server": "http://h:1",
        "api_key": "***",
        "timeout": 2.5,
    }
    second = {"name": "b", "current": False, "server": "http://far:2"}
    assert terminal.run("context", "list", "-o", "json").json() == {"contexts": [first, second]}
    assert terminal.run("context", "show", "-o", "json").json() == first
    assert terminal.run("context", "show", "b", "-o", "json").json() == second
    lines = terminal.run("context", "list", "-o", "jsonl").out.splitlines()
    assert [msgspec.json.decode(line) for line in lines] == [first, second]
    assert terminal.run("context", "delete", "a", "-f").out == "deleted context a\n"
    assert terminal.run("context", "list", "-o", "json").json() == {"contexts": [second]}
    assert terminal.run("context", "show").code == 2


def test_a_key_is_never_shown(terminal: Terminal) -> None:
    terminal.run("context", "set", "a", "--server", "http://h:1", "--api-key", "hush")
    terminal.run("context", "use", "a")
    for command in ("list", "show"):
        for output in ("table", "json", "jsonl", "yaml"):
            answer = terminal.run("context", command, "-o", output)
            assert answer.code == 0
            assert "***" in answer.out
            assert "hush" not in answer.out + answer.err


def test_what_is_not_given_stays_and_an_empty_value_takes_it_away(
    terminal: Terminal, file: Path
) -> None:
    terminal.run("context", "set", "a", "--server", "http://h:1", "--timeout", "5")
    terminal.run("context", "set", "a", "--api-key", "k", "--timeout", "")
    assert plain(read_contexts(str(file)).contexts["a"]) == {"server": "http://h:1", "api_key": "k"}


def test_only_the_owner_may_read_the_file_whatever_the_umask(
    terminal: Terminal, file: Path
) -> None:
    before = os.umask(0)
    try:
        terminal.run("context", "set", "a", "--server", "http://h:1", "--api-key", "hush")
        assert mode(file) == 0o600
        assert mode(file.parent) == 0o700
        file.chmod(0o644)
        terminal.run("context", "use", "a")
        assert mode(file) == 0o600
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_a_link_is_kept_and_what_it_leads_to_is_replaced(
    terminal: Terminal, home: Path, file: Path
) -> None:
    (home / "kept").mkdir()
    file.parent.mkdir()
    file.symlink_to(home / "kept" / "contexts.toml")
    assert terminal.run("context", "set", "a", "--server", "http://h:1").code == 0
    assert file.is_symlink()
    assert "a" in read_contexts(str(home / "kept" / "contexts.toml")).contexts


def test_deleting_without_a_terminal_needs_force(terminal: Terminal, file: Path) -> None:
    terminal.run("context", "set", "a", "--server", "http://h:1")
    before = file.read_bytes()
    answer = terminal.run("context", "delete", "a")
    assert answer.code == 2
    assert "--yes" in answer.err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("use", "x"), 'context "x" does not exist; there are: a'),
        (("show", "x"), 'context "x" does not exist; there are: a'),
        (("show", "aa"), 'context "aa" does not exist; did you mean a?'),
        (("check", "x"), 'context "x" does not exist; there are: a'),
        (("delete", "x", "-y"), 'context "x" does not exist; there are: a'),
        (("set", "x"), 'context "x" is new: add --server URL'),
        (("show",), "no context is in use"),
        (("set", "x y", "--server", "h"), "the name of a context"),
        (("set", "..", "--server", "h"), "the name of a context"),
        (("set", "x", "--server", "h:1:2"), "--server is not an address"),
        (("set", "x", "--server", "ftp://h"), "--server is not an address"),
        (("set", "x", "--server", "http://u:p@h"), "--server is not an address"),
        (("set", "x", "--server", "http://h:99999"), "--server is not an address"),
        (("set", "x", "--server", "http://h\n"), "--server is not an address"),
        (("set", "a", "--api-key", "hu sh"), "--api-key is not a key"),
        (("set", "a", "--api-key", "hush\n"), "--api-key is not a key"),
        (("set", "a", "--timeout", "0"), "--timeout is not a duration"),
        (("set", "a", "--timeout", "nan"), "--timeout is not a duration"),
        (("set", "a", "--timeout", "-1"), "--timeout is not a duration"),
        (("set", "a", "--timeout", "25h"), "--timeout is not a duration"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    terminal: Terminal, file: Path, arguments: tuple[str, ...], words: str
) -> None:
    terminal.run("context", "set", "a", "--server", "http://h:1")
    before = file.read_bytes()
    answer = terminal.run("context", *arguments)
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert words in answer.err
    assert "hush" not in answer.err
    assert file.read_bytes() == before


BROKEN = [
    b"current = ",
    b"current = 3\n",
    b'current = "gone"\n',
    b"other = 1\n",
    b"[contexts.a]\nkey = 'hush'\n",
    b"[contexts.a]\napi_key = 3\n",
    b"[contexts.a]\napi_key = 'hu sh'\n",
    b"[contexts.a]\nserver = 'h h'\n",
    b"[contexts.a]\ntimeout = nan\n",
    b"[contexts.a]\ntimeout = -1\n",
    b"[contexts.'a b']\n",
    b"contexts = []\n",
    b"\xff\xfe",
    b"a = " + b"[" * 100_000,
    b"#" * (2 << 20),
]


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("command", [("list",), ("set", "b"), ("use", "a")])
def test_a_broken_file_is_one_line_and_left_alone(
    terminal: Terminal, file: Path, content: bytes, command: tuple[str, ...]
) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    answer = terminal.run("context", *command)
    assert answer.code == 2
    assert answer.err.startswith(f"goqueue: {file} ")
    assert answer.err.count("\n") == 1
    assert "hush" not in answer.err
    assert file.read_bytes() == content


@pytest.mark.parametrize("place", ["", "relative"])
def test_without_a_home_there_is_no_place_for_contexts(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("HOME", place)
    for command in (("list",), ("set", "a")):
        answer = terminal.run("context", *command)
        assert answer.code == 2
        assert "HOME is not set" in answer.err
    monkeypatch.delenv("HOME")
    assert terminal.run("context", "list").code == 2


def test_a_place_that_cannot_be_written_is_one_line(terminal: Terminal, home: Path) -> None:
    (home / ".goqueue").write_text("a file")
    answer = terminal.run("context", "set", "a")
    assert answer.code == 2
    assert "cannot be used" in answer.err
    assert answer.err.count("\n") == 1


def test_a_home_that_does_not_exist_is_not_made(
    terminal: Terminal, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home / "absent"))
    assert terminal.run("context", "list").code == 0
    answer = terminal.run("context", "set", "a")
    assert answer.code == 2
    assert "No such file or directory" in answer.err
    assert not (home / "absent").exists()


@pytest.mark.parametrize(("word", "code"), [("yes", 0), ("y", 0), ("Y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_deleting_asks_for_yes(
    terminal: Terminal, file: Path, monkeypatch: pytest.MonkeyPatch, word: str, code: int
) -> None:
    terminal.run("context", "set", "a", "--server", "http://h:1")
    keyboard, screen = os.openpty()
    os.write(keyboard, f"{word}\n".encode())
    with os.fdopen(screen) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        answer = terminal.run("context", "delete", "a")
    os.close(keyboard)
    assert answer.code == code
    assert "--help" not in answer.err
    assert ("a" in read_contexts(str(file)).contexts) == (code != 0)


def test_a_directory_in_the_place_of_the_file_is_one_line(terminal: Terminal, file: Path) -> None:
    file.mkdir(parents=True)
    for command in (("list",), ("set", "a")):
        answer = terminal.run("context", *command)
        assert answer.code == 2
        assert "cannot be read: Is a directory" in answer.err


def test_a_key_may_come_from_standard_input(
    terminal: Terminal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = os.pipe()
    os.write(sink, b"hush\n")
    os.close(sink)
    with os.fdopen(source) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        terminal.run("context", "set", "a", "--server", "http://h:1", "--api-key", "-")
    assert plain(read_contexts(str(file)).contexts["a"])["api_key"] == "hush"


names = st.text("abcXYZ019._-", min_size=1, max_size=8).filter(lambda name: name.strip("."))
keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
contexts = st.builds(
    Context,
    server=st.none() | st.just("https://h.example:1/base"),
    api_key=st.none() | keys.map(Secret),
    ca_file=st.none() | st.just("/etc/ca.pem"),
    allow_plaintext=st.none() | st.booleans(),
    timeout=st.none() | st.integers(1, 10_000).map(lambda number: number / 8),
)


@given(st.dictionaries(names, contexts, max_size=4))
def test_whatever_was_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, kept: dict[str, Context]
) -> None:
    path = str(tmp_path_factory.mktemp("home") / "config.toml")
    wanted = Contexts(current=min(kept, default=None), contexts=kept)
    change_contexts(path, lambda _: wanted)
    found = read_contexts(path)
    assert found.current == wanted.current
    assert {name: plain(each) for name, each in found.contexts.items()} == {
        name: plain(each) for name, each in wanted.contexts.items()
    }


def test_two_that_change_the_file_at_once_lose_nothing(file: Path) -> None:
    def add(name: str) -> None:
        def put(kept: Contexts) -> Contexts:
            return Contexts(contexts={**kept.contexts, name: Context()})

        change_contexts(str(file), put)

    file.parent.mkdir()
    threads = [threading.Thread(target=add, args=(f"c{number}",)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_contexts(str(file)).contexts) == 40


# Whom a command speaks to


def test_without_anything_a_command_speaks_to_this_machine() -> None:
    assert resolve_client_settings({}, {}, None) == ClientSettings(
        server="http://127.0.0.1:8080", credentials=None, timeout_s=30
    )


@pytest.mark.parametrize("has_flag", [True, False])
@pytest.mark.parametrize("has_variable", [True, False])
@pytest.mark.parametrize("has_context", [True, False])
def test_flag_outweighs_environment_outweighs_context_outweighs_default(
    has_flag: bool, has_variable: bool, has_context: bool
) -> None:
    flags = {"server": "http://flag", "api-key": "flag-key", "timeout": "2"}
    variables = {
        "GOQUEUE_SERVER": "http://variable",
        "GOQUEUE_API_KEY": "variable-key",
        "GOQUEUE_TIMEOUT": "3",
    }
    settings = resolve_client_settings(
        flags if has_flag else {}, variables if has_variable else {}, KEPT if has_context else None
    )
    wanted = [
        (has_flag, ("http://flag", "flag-key", "--api-key", 2)),
        (has_variable, ("http://variable", "variable-key", "GOQUEUE_API_KEY", 3)),
        (has_context, ("http://near:1", "near-key", "api-key of the context", 1)),
        (True, ("http://127.0.0.1:8080", None, None, 30)),
    ]
    credentials = settings.credentials
    key = None if credentials is None else credentials.key.reveal()
    source = None if credentials is None else credentials.source
    found = (settings.server, key, source, settings.timeout_s)
    assert found == next(each for is_given, each in wanted if is_given)


def test_a_context_may_be_asked_for_by_flag_or_variable() -> None:
    far = ClientSettings(server="http://far:2")
    assert resolve_client_settings({"context": "far"}, {}, KEPT) == far
    assert resolve_client_settings({}, {"GOQUEUE_CONTEXT": "far"}, KEPT) == far
    near = resolve_client_settings({"context": "near"}, {"GOQUEUE_CONTEXT": "far"}, KEPT)
    assert near.server == "http://near:1"
    assert resolve_client_settings({}, {"GOQUEUE_CONTEXT": ""}, KEPT).server == near.server


@pytest.mark.parametrize(
    ("flags", "environment", "words"),
    [
        ({"context": "x"}, {}, 'context "x" does not exist; there are: far, near'),
        ({}, {"GOQUEUE_CONTEXT": "x"}, 'context "x" does not exist'),
        ({"server": ""}, {}, "--server is not"),
        ({}, {"GOQUEUE_SERVER": "x y"}, "GOQUEUE_SERVER is not"),
        ({}, {"GOQUEUE_API_KEY": "hu\nsh"}, "GOQUEUE_API_KEY is not"),
        ({}, {"GOQUEUE_TIMEOUT": "soon"}, "GOQUEUE_TIMEOUT is not"),
        ({"timeout": "1e9"}, {}, "--timeout is not"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(
    flags: dict[str, str], environment: dict[str, str], words: str
) -> None:
    with pytest.raises(ClientSettingsInvalid, match=words) as invalid:
        resolve_client_settings(flags, environment, KEPT)
    assert "hu" not in str(invalid.value)


def test_without_a_home_commands_work_unless_they_ask_for_a_context() -> None:
    assert load_client_settings({}, {}) == ClientSettings()
    with pytest.raises(ClientSettingsInvalid, match='context "a" does not exist'):
        load_client_settings({"context": "a"}, {})


def test_the_contexts_of_the_user_are_found(terminal: Terminal, home: Path) -> None:
    terminal.run("context", "set", "a", "--server", "http://h:1")
    terminal.run("context", "use", "a")
    assert load_client_settings({}, {"HOME": str(home)}).server == "http://h:1"


def test_a_key_may_be_in_a_file_and_the_nearest_place_wins(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    near.write_text("file-key\n")
    far.write_text("other-key")
    settings = resolve_client_settings({"api-key-file": str(near)}, {}, KEPT)
    assert settings.credentials is not None
    assert settings.credentials.key.reveal() == "file-key"
    assert settings.credentials.source == f"the file {near}"
    by_flag = resolve_client_settings(
        {"api-key": "flag-key"}, {"GOQUEUE_API_KEY_FILE": str(far)}, KEPT
    )
    assert by_flag.credentials is not None
    assert by_flag.credentials.key.reveal() == "flag-key"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"api-key": "a", "api-key-file": "b"}, "--api-key and --api-key-file are both given"),
        ({"api-key-file": "/nowhere"}, "api_key_file /nowhere cannot be read"),
        ({"ca-file": "a\nb"}, "--ca-file is not the path of a file"),
        ({"allow-plaintext": "yes"}, "--allow-plaintext is neither true nor false"),
    ],
)
def test_a_connection_that_cannot_be_made_so_is_told(flags: dict[str, str], words: str) -> None:
    with pytest.raises(ClientSettingsInvalid, match=words):
        resolve_client_settings(flags, {}, None)


def test_files_of_tls_come_from_flags_variables_and_contexts() -> None:
    kept = Contexts(
        current="a",
        contexts={"a": Context(ca_file="/ca", client_cert="/cert", allow_plaintext=True)},
    )
    settings = resolve_client_settings(
        {"client-cert": "/flag"}, {"GOQUEUE_CLIENT_KEY": "/variable"}, kept
    )
    assert (settings.ca_file, settings.client_cert) == ("/ca", "/flag")
    assert (settings.client_key, settings.allow_plaintext) == ("/variable", True)


def test_paths_in_a_context_are_absolute_and_shown(terminal: Terminal) -> None:
    given = ("--api-key-file", "key", "--ca-file", "/ca.pem", "--allow-plaintext")
    terminal.run("context", "set", "a", "--server", "https://h:1", *given)
    assert terminal.run("context", "show", "a", "-o", "json").json() == {
        "name": "a",
        "current": False,
        "server": "https://h:1",
        "api_key_file": str(Path.cwd() / "key"),
        "ca_file": "/ca.pem",
        "allow_plaintext": True,
    }


def test_a_new_kind_of_key_replaces_the_old_one(terminal: Terminal, file: Path) -> None:
    terminal.run("context", "set", "a", "--server", "https://h:1", "--api-key", "hush")
    terminal.run("context", "set", "a", "--api-key-file", "/key")
    assert plain(read_contexts(str(file)).contexts["a"]).keys() == {"server", "api_key_file"}
    terminal.run("context", "set", "a", "--api-key", "hush")
    assert plain(read_contexts(str(file)).contexts["a"]).keys() == {"server", "api_key"}


def test_neither_contexts_nor_settings_show_a_key_to_whoever_prints_them() -> None:
    settings = resolve_client_settings({"api-key": "hush"}, {}, KEPT)
    assert "hush" not in f"{settings!r} {settings}"
    assert "near-key" not in repr(KEPT)
