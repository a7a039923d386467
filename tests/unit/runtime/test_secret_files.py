"""Files that hold secrets: how many lines they may have, and what keeps them from being used."""

from pathlib import Path

import pytest

from goqueue.runtime.secret_files import SecretFileUnusable, read_secret_file


def write(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize("text", ["one\n", "  one  ", "\n one\n\n"])
def test_white_space_around_a_secret_is_none_of_it(tmp_path: Path, text: str) -> None:
    assert read_secret_file(write(tmp_path / "secret", text)).reveal() == "one"


def test_a_file_of_two_lines_is_two_secrets_where_two_are_wanted(tmp_path: Path) -> None:
    path = write(tmp_path / "secret", " one \r\n\ttwo\n")
    assert read_secret_file(path, 2).reveal() == "one\ntwo"
    with pytest.raises(SecretFileUnusable, match="one line"):
        read_secret_file(path)


@pytest.mark.parametrize("text", ["", " \n ", "a\n\nb", "a\nb\nc", "a\n\x07", "caf\u00e9"])
def test_what_is_not_one_or_two_visible_lines_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SecretFileUnusable, match="one to 2 lines"):
        read_secret_file(write(tmp_path / "secret", text), 2)
