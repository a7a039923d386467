"""What `goqueue worker` prints of log records."""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from goqueue.cli.worker_log import start_worker_log


@contextmanager
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What a program prints whose root logger has no handlers yet; pytest gives it some."""
    root, errors = logging.getLogger(), io.StringIO()
    level = root.level
    monkeypatch.setattr(sys, "stderr", errors)
    with monkeypatch.context() as patched:
        patched.setattr(root, "handlers", [])
        yield errors
    root.setLevel(level)


def fail() -> None:
    error = LookupError("no \x1b[31m rule")
    logging.getLogger("goqueue.worker").error("orders 0:1: %s", "two\nlines", exc_info=error)


def test_a_line_has_time_level_logger_and_text_and_its_traceback_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with program(monkeypatch) as errors:
        start_worker_log("info", "text")
        fail()
        first, *trace = errors.getvalue().splitlines()
        assert first.endswith("Z ERROR   goqueue.worker: orders 0:1: two\\nlines")
        assert trace == ["    LookupError: no \\x1b[31m rule"]


def test_no_line_of_a_program_is_left_out_and_it_may_have_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with program(monkeypatch) as errors:
        start_worker_log("info", "text")
        for number in range(500):
            logging.getLogger("shop").info("order %d\nis here", number)
            logging.getLogger("shop").debug("not this")
        assert errors.getvalue().count("INFO    shop: order ") == 500
        assert errors.getvalue().count("\n") == 1000


def test_json_is_one_object_per_line_whatever_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    with program(monkeypatch) as errors:
        start_worker_log("info", "json")
        fail()
        logging.getLogger("shop").info("caf\udce9")
        failed, said = map(msgspec.json.decode, errors.getvalue().splitlines())
        assert failed["level"] == "error"
        assert failed["logger"] == "goqueue.worker"
        assert failed["message"] == "orders 0:1: two\nlines"
        assert failed["exception"].endswith("LookupError: no \x1b[31m rule")
        assert said["message"] == "caf\\udce9"


def test_a_program_that_configures_logging_keeps_what_it_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with program(monkeypatch) as errors:
        logging.basicConfig(stream=errors, format="mine %(message)s", level="INFO")
        start_worker_log("info", "json")
        logging.getLogger("shop").info("sold")
        assert errors.getvalue() == "mine sold\n"
