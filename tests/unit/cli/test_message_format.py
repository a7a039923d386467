"""`consume --format`: every code, escapes, and what reaches a terminal."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.message_format import read_format
from tests.unit.cli.test_message_filter import item

MESSAGE = item(
    partition=1,
    offset=22,
    key="k",
    value="two\tcups",
    headers={"b": "2", "a": "1"},
    priority="high",
    delivery_count=3,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%p:%o %k %v", b"1:22 k two\tcups\n"),
        ("%t %K %V %d %P", b"t 1 8 3 high\n"),
        ("%h [%{a}] [%{none}]", b"a=1,b=2 [1] []\n"),
        ("%T", b"2026-01-01T12:00:00.000Z\n"),
        ("100%% %v", b"100% two\tcups\n"),
        (r"%v\t%k\n", b"two\tcups\tk\n"),
        (r"%v\0", b"two\tcups\0"),
        (r"\x41\\%k", b"A\\k\n"),
        (r"%v\n.", b"two\tcups\n.\n"),
        ("", b"\n"),
    ],
)
def test_a_message_is_shown_as_the_format_says(text: str, shown: bytes) -> None:
    assert read_format(text).apply(MESSAGE, is_terminal=False) == shown


@pytest.mark.parametrize("text", ["%", "%z", "%{open", "\\", r"\q", r"\x4"])
def test_an_unknown_code_is_one_line(text: str) -> None:
    with pytest.raises(click.UsageError, match="--format"):
        read_format(text)


def test_bytes_that_are_not_text_are_written_as_they_are() -> None:
    message = item(value="/w==", encoding="base64")
    assert read_format("%v").apply(message, is_terminal=False) == b"\xff\n"
    assert read_format("%v").apply(message, is_terminal=True) == b"\\xff\n"


@given(value=st.text(), key=st.text())
def test_nothing_of_a_message_acts_on_a_terminal(value: str, key: str) -> None:
    message = item(value=value, key=key, headers={"a": value})
    shown = read_format("%k %v %h %{a}").apply(message, is_terminal=True).decode()
    assert shown.removesuffix("\n").isprintable()
