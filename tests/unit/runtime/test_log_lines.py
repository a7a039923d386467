"""Log lines: one line per event whatever it holds, the same fields in both formats, no waiting."""

import os
import threading

import msgspec
import pytest

from goqueue.runtime.log_events import Level
from goqueue.runtime.log_lines import (
    VALUE_CHARACTERS_MAX,
    Format,
    LineWriter,
    Value,
    json_line,
    text_line,
)

HOSTILE = 'a\nb\r\x1b[31m\x00\u2028\ud800 x=1 "quoted" \\'
# A line end of its own, or acted upon by terminals: C1 (CSI, NEL), DEL, U+2028 and U+2029, bidi.
UNSEEN = "\x7f\x80\x85\x9b31m\x9f\u2028\u2029\u202e\u2066\ufeff\U000e0001"
WALL_NS = 1_794_820_867_412_999_999
PATIENCE_S = 10.0


def text(**fields: Value) -> str:
    return text_line(WALL_NS, Level.INFO, "event", "message", fields).decode()


def decoded(**fields: Value) -> dict[str, object]:
    line = json_line(WALL_NS, Level.WARNING, "event", "message", fields)
    assert line.count(b"\n") == 1
    return msgspec.json.decode(line, type=dict[str, object])


def test_times_are_rfc_3339_with_milliseconds_and_zone() -> None:
    assert text() == "2026-11-16T09:21:07.412Z INFO    event: message\n"
    assert decoded() == {
        "time": "2026-11-16T09:21:07.412Z",
        "level": "warning",
        "event": "event",
        "message": "message",
    }


def test_plain_values_are_bare_and_others_are_quoted() -> None:
    fields: dict[str, Value] = {
        "n": 3,
        "share": 0.5,
        "yes": True,
        "topic": "orders",
        "said": "two words",
        "none": "",
        "path": "C:\\x",
    }
    assert text(**fields).endswith(
        'n=3 share=0.5 yes=true topic=orders said="two words" none="" path="C:\\\\x"\n'
    )


def test_a_hostile_value_stays_in_its_field() -> None:
    line = text(reason=HOSTILE)
    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    quoted = line[line.index("reason=") + 7 :].rstrip("\n")
    assert quoted == '"a\\nb\\r\\x1b[31m\\x00\\u2028\\ud800 x=1 \\"quoted\\" \\\\"'
    assert decoded(reason=HOSTILE)["reason"] == HOSTILE.replace("\ud800", "\\ud800")


@pytest.mark.parametrize("to_line", [text_line, json_line])
@pytest.mark.parametrize("where", ["message", "field", "item"])
def test_no_line_holds_what_a_terminal_acts_upon_or_ends_a_line_at(
    to_line: Format, where: str
) -> None:
    message = UNSEEN if where == "message" else "message"
    fields: dict[str, Value] = {
        "topic": UNSEEN if where == "field" else "t",
        "members": (UNSEEN if where == "item" else "m",),
    }
    line = to_line(WALL_NS, Level.INFO, "event", message, fields).decode()
    assert len(line.splitlines()) == 1
    assert line.rstrip("\n").isprintable()


def test_json_says_the_same_whatever_is_escaped() -> None:
    assert decoded(topic=UNSEEN, name="Zoë 東京 🦀") == {
        **decoded(),
        "topic": UNSEEN,
        "name": "Zoë 東京 🦀",
    }


def test_a_traceback_cannot_forge_lines_of_the_log() -> None:
    forged = "ValueError: \x85\u20282026-01-01T00:00:00.000Z ERROR   node_halted: forged\x9b2J"
    line = text_line(WALL_NS, Level.ERROR, "message", "m", {"exception": forged}).decode()
    for each in line.splitlines()[1:]:
        assert each.startswith("    ")
        assert each.isprintable()


@pytest.mark.parametrize("length", [VALUE_CHARACTERS_MAX, VALUE_CHARACTERS_MAX + 1, 1_000_000])
def test_a_long_value_is_cut(length: int) -> None:
    value = "v" * length
    shown = str(decoded(reason=value)["reason"])
    assert len(shown) == VALUE_CHARACTERS_MAX
    assert shown.endswith("…") == (length > VALUE_CHARACTERS_MAX)
    assert f"reason={shown}\n" in text(reason=value)


def test_a_long_list_shows_its_first_items_and_how_many_there_are() -> None:
    members = tuple(f"m{number}" for number in range(1000))
    assert decoded(members=members)["members"] == ["m0", "m1", "m2", "m3", "m4", "and 995 more"]
    assert 'members="m0, m1, m2, m3, m4, and 995 more"' in text(members=members)


class Reader:
    """A pipe whose reader reads when the test says so."""

    def __init__(self, lines_max: int) -> None:
        self.reading, self.writing = os.pipe()
        self.writer = LineWriter(self.writing, lambda: None, lines_max=lines_max)
        self.writer.start()

    def read_all(self) -> bytes:
        """Read until the writer has nothing left, in a thread that the writer does not wait for."""
        said: list[bytes] = []

        def read() -> None:
            while data := os.read(self.reading, 65536):
                said.append(data)

        thread = threading.Thread(target=read)
        thread.start()
        assert self.writer.flush(PATIENCE_S)
        os.close(self.writing)
        thread.join(PATIENCE_S)
        os.close(self.reading)
        return b"".join(said)


def test_nobody_waits_for_a_reader_that_does_not_read_and_dropped_lines_are_counted() -> None:
    reader = Reader(lines_max=100)
    line = b"x" * 1000 + b"\n"
    # A pipe holds 64 KiB, the writer 256 lines and the queue 100: far less than this.
    for _ in range(5_000):
        reader.writer.put(line)
    assert not reader.writer.flush(0.0)
    lost = reader.writer.take_lost()
    assert lost > 4_000
    assert reader.read_all() == line * (5_000 - lost)
    assert reader.writer.take_lost() == 0


def test_a_reader_that_has_gone_costs_its_lines_and_nothing_else() -> None:
    reader = Reader(lines_max=100)
    os.close(reader.reading)
    for _ in range(3):
        reader.writer.put(b"line\n")
        assert reader.writer.flush(PATIENCE_S)
    # Nobody could read that lines are lost, so nothing says so, again and again.
    assert reader.writer.take_lost() == 0
    os.close(reader.writing)
