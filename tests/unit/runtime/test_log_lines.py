"""Log lines: one line per message whatever it holds, tracebacks set off from them."""

import logging
from collections.abc import Iterator

import msgspec
import pytest

from goqueue.runtime import start_logging

HOSTILE = "a\nb\r\x1b[31m\x00 2026-01-01T00:00:00.000Z ERROR forged"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_what_a_caller_sent_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("info", "text")
    logging.getLogger("test").warning("got %s", HOSTILE)

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "got a\\nb\\r\\x1b[31m\\x00 2026" in said


def test_a_traceback_follows_its_line_indented(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("info", "text")
    logging.getLogger("test").error("failed", exc_info=ValueError(HOSTILE))

    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("test: failed")
    assert rest
    assert all(line.startswith("    ") for line in rest)
    assert "\x1b" not in "".join(rest)


def test_a_json_line_is_one_object_with_everything_in_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_logging("info", "json")
    logging.getLogger("test").warning("got %s", HOSTILE)

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert msgspec.json.decode(said, type=dict[str, str])["message"] == f"got {HOSTILE}"
