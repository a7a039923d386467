"""What a node knows of its build: from a note, or from the files of its checkout."""

from pathlib import Path

import pytest

from goqueue.runtime.build_note import BuildNote, read_build_note


def test_the_note_of_a_build_is_read(tmp_path: Path) -> None:
    text = '{"commit": "0123456789ab", "time": "2026-01-31T12:00:00Z"}'
    (tmp_path / "build.json").write_text(text)
    expected = BuildNote(commit="0123456789ab", time="2026-01-31T12:00:00Z")
    assert read_build_note(tmp_path) == expected


@pytest.mark.parametrize("text", [None, b"", b"{", b"[]", b"\xff", b'{"commit": 7}'])
def test_without_a_note_a_build_is_unknown(tmp_path: Path, text: bytes | None) -> None:
    if text is not None:
        (tmp_path / "build.json").write_bytes(text)
    assert read_build_note(tmp_path) == BuildNote(commit="unknown", time="unknown")


OLD, NEW = "0123456789ab", "ab" * 20


def checkout(root: Path, name: str = "goqueue") -> Path:
    """The package in a repository whose last build was of an older commit."""
    package = root / "src" / "goqueue"
    package.mkdir(parents=True)
    (package / "build.json").write_text(f'{{"commit": "{OLD}", "time": "2026-01-31T12:00:00Z"}}')
    (root / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    git = root / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs" / "heads" / "main").write_text(NEW + "\n")
    return package


def test_in_a_checkout_the_commit_is_the_one_that_is_checked_out(tmp_path: Path) -> None:
    package = checkout(tmp_path)
    assert read_build_note(package) == BuildNote(commit=NEW[:12], time="unknown")

    (tmp_path / ".git" / "refs" / "heads" / "main").write_text(OLD + "0" * 28)
    assert read_build_note(package) == BuildNote(commit=OLD, time="2026-01-31T12:00:00Z")


def test_a_commit_is_found_detached_packed_and_in_a_second_work_tree(tmp_path: Path) -> None:
    package = checkout(tmp_path / "first")
    git = tmp_path / "first" / ".git"
    (git / "refs" / "heads" / "main").unlink()
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{NEW} refs/heads/main\n")
    assert read_build_note(package).commit == NEW[:12]
    (git / "HEAD").write_text("cd" * 20)
    assert read_build_note(package).commit == "cd" * 6

    second = tmp_path / "second"
    package = checkout(second)
    (second / ".git").rename(tmp_path / "unused")
    state = git / "worktrees" / "second"
    state.mkdir(parents=True)
    (second / ".git").write_text(f"gitdir: {state}\n")
    (state / "HEAD").write_text("ref: refs/heads/main\n")
    (state / "commondir").write_text("../..\n")
    assert read_build_note(package).commit == NEW[:12]


def test_a_checkout_whose_commit_cannot_be_told_is_unknown(tmp_path: Path) -> None:
    package = checkout(tmp_path)
    for head in ("", "ref: refs/heads/gone", "ref: ../../secret", "no commit"):
        (tmp_path / ".git" / "HEAD").write_text(head)
        assert read_build_note(package) == BuildNote()


def test_the_repository_of_another_project_is_not_asked(tmp_path: Path) -> None:
    assert read_build_note(checkout(tmp_path, name="another")).commit == OLD
