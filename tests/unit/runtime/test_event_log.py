"""The log: levels, repeats that are counted, libraries, and the page that lists the events."""

import contextlib
import logging
import os
import re
import time
import typing
from collections.abc import Iterator

import msgspec
import pytest

from goqueue.model import NodeRecovered, NodeReport
from goqueue.runtime import start_logging
from goqueue.runtime.event_log import WINDOW_S
from goqueue.runtime.log_events import EVENTS, Level
from goqueue.runtime.log_lines import LINES_MAX, Value
from scripts.log_events import PAGE, reference
from tests.unit.runtime.event_lines import EventLines


def create(lines: EventLines, topic: str = "orders") -> None:
    lines.log("topic_created", topic=topic, partitions=1)


def refuse(lines: EventLines, code: str) -> None:
    fields: dict[str, str] = dict.fromkeys(EVENTS["request_refused"].fields, "") | {"code": code}
    lines.log("request_refused", **fields)


def test_events_below_the_level_are_not_written() -> None:
    lines = EventLines(Level.WARNING)
    create(lines)
    lines.log("disk_free", full_s=1.0)
    assert lines.names() == ["disk_free"]


def test_an_event_without_the_fields_of_its_row_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="topic_created has the fields"):
        EventLines().log("topic_created", topic="orders")


def test_repeats_are_counted_and_told_once_when_their_time_is_over() -> None:
    lines = EventLines()
    burst = EVENTS["topic_created"].burst
    for _ in range(burst + 812):
        create(lines)
    assert lines.names() == ["topic_created"] * burst
    lines.pass_time(WINDOW_S - 1)
    assert lines.log.close_windows() == pytest.approx(1.0)
    assert lines.take() == []
    lines.pass_time(1)
    assert lines.log.close_windows() is None
    [line] = lines.lines
    assert line["message"] == "repeated 812 times in 10 s"
    assert lines.take() == [
        {"level": "info", "event": "topic_created", "repeated": 812, "window_s": 10}
    ]
    create(lines)
    assert lines.names() == ["topic_created"]


def test_repeats_are_also_told_by_the_next_event_and_at_the_end() -> None:
    lines = EventLines()
    burst = EVENTS["topic_created"].burst
    for _ in range(burst + 1):
        create(lines)
    lines.pass_time(WINDOW_S)
    lines.take()
    lines.log("disk_free", full_s=1.0)
    assert lines.names() == ["topic_created", "disk_free"]
    for _ in range(burst + 1):
        create(lines)
    lines.take()
    lines.log.close_all_windows()
    assert [line["repeated"] for line in lines.take()] == [1]


def test_one_noisy_code_does_not_hide_another() -> None:
    lines = EventLines()
    burst = EVENTS["request_refused"].burst
    for _ in range(100):
        refuse(lines, "topic_not_found")
    refuse(lines, "name_invalid")
    assert [line["code"] for line in lines.take()] == ["topic_not_found"] * burst + ["name_invalid"]
    lines.pass_time(WINDOW_S)
    lines.log.close_windows()
    [told] = lines.take()
    assert (told["code"], told["repeated"]) == ("topic_not_found", 100 - burst)


def test_any_number_of_different_values_leads_to_a_bounded_number_of_lines() -> None:
    lines = EventLines()
    for number in range(100_000):
        refuse(lines, f"code-{number}")
    written = len(lines.take())
    assert written < 100
    lines.pass_time(WINDOW_S)
    lines.log.close_windows()
    assert sum(line["repeated"] for line in lines.take()) == 100_000 - written


def test_every_report_of_the_core_has_a_row_with_its_fields() -> None:
    for report in typing.get_args(NodeReport):
        row = EVENTS[report.__struct_config__.tag]
        fields = list(row.fields)
        if report is NodeRecovered:
            # The shell adds what it measured.
            fields = fields[: len(report.__struct_fields__)]
        assert fields == list(report.__struct_fields__)


def test_no_field_hides_what_every_line_has() -> None:
    reserved = {"time", "level", "event", "message", "repeated", "window_s"}
    for row in EVENTS.values():
        assert not reserved & row.fields.keys(), row.name
        assert not row.per or row.per in row.fields, row.name


def test_the_page_of_log_events_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make log-events`"


PATIENCE_S = 20.0


# The log of a process

HOSTILE = "a\nb\r\x1b[31m\x00 2026-01-01T00:00:00.000Z ERROR forged"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_what_a_library_logs_stays_on_its_line(pipe: tuple[int, int]) -> None:
    log = start_logging("info", "text", descriptor=pipe[1])
    logging.getLogger("library").warning("got %s", HOSTILE)
    logging.getLogger("library").debug("not this")
    log.close()

    said = os.read(pipe[0], 65536).decode()
    assert said.count("\n") == 1
    assert "WARNING message: got a\\nb\\r\\x1b[31m\\x00 2026" in said
    assert said.endswith("logger=library\n")


def test_a_traceback_follows_its_line_indented(pipe: tuple[int, int]) -> None:
    log = start_logging("info", "text", descriptor=pipe[1])
    logging.getLogger("library").error("failed", exc_info=ValueError(HOSTILE))
    log.close()

    first, *rest = os.read(pipe[0], 65536).decode().splitlines()
    assert first.endswith("ERROR   message: failed logger=library")
    assert rest
    assert all(line.startswith("    ") for line in rest)
    assert "\x1b" not in "".join(rest)


def test_a_json_line_is_one_object_with_everything_in_it(pipe: tuple[int, int]) -> None:
    log = start_logging("info", "json", descriptor=pipe[1])
    logging.getLogger("library").error("got %s", HOSTILE, exc_info=ValueError("cause"))
    log.close()

    said = os.read(pipe[0], 65536)
    assert said.count(b"\n") == 1
    line = msgspec.json.decode(said, type=dict[str, str])
    assert line["message"] == f"got {HOSTILE}"
    assert line["exception"].endswith("ValueError: cause")


def test_the_last_repeats_are_written_when_the_process_ends(pipe: tuple[int, int]) -> None:
    log = start_logging("info", "text", descriptor=pipe[1])
    for _ in range(EVENTS["topic_created"].burst + 7):
        log.events("topic_created", topic="orders", partitions=1)
    log.close()
    assert b"repeated 7 times in 10 s" in os.read(pipe[0], 65536)


def test_lines_that_nobody_read_in_time_are_counted_in_the_log(pipe: tuple[int, int]) -> None:
    log = start_logging("info", "text", descriptor=pipe[1])
    access: dict[str, Value] = dict.fromkeys(EVENTS["access"].fields, "x" * 20)
    # More than a pipe and the queue hold.
    for _ in range(LINES_MAX * 2):
        log.events.write("access", access)
    said = bytearray()
    os.set_blocking(pipe[0], False)
    deadline = time.monotonic() + PATIENCE_S
    while b"log_lines_lost" not in said:
        assert time.monotonic() < deadline
        with contextlib.suppress(BlockingIOError):
            said += os.read(pipe[0], 1 << 20)
    [count] = re.findall(rb"log_lines_lost: .* count=(\d+)\n", said)
    assert 0 < int(count) < LINES_MAX * 2
