"""What a node knows of its build: from a note, and never from git."""

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
