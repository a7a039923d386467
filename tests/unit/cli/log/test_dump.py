"""`goqueue log dump`: records shown as messages of the API."""

import base64
import shutil
from pathlib import Path

import pytest

from goqueue.cli.log.dump import show, timestamp_text
from goqueue.log import epoch_start
from goqueue.model import LogId, Message, Record
from goqueue.records import Codec, Flag, compress
from goqueue.storage import NameKind
from tests.unit.cli.data_directories import (
    LOG,
    Terminal,
    append,
    segment,
    spoil,
    write_log,
)


def shown(terminal: Terminal, *arguments: str | Path) -> list[dict[str, object]]:
    answer = terminal.run("log", "dump", *arguments, "-o", "json")
    document = answer.json()
    assert isinstance(document, list)
    return document


def record(
    value: bytes | None = b"v", key: bytes = b"", headers: tuple[tuple[str, bytes], ...] = ()
) -> Record:
    return Record(offset=7, timestamp=1, priority=0, flags=0, key=key, value=value, headers=headers)


# One message


def test_a_message_has_the_fields_of_the_contract_and_no_empty_ones(
    tmp_path: Path, terminal: Terminal
) -> None:
    write_log(
        tmp_path,
        messages=[
            Message(value=b"v", timestamp=1_700_000_000_000_000_000),
            Message(key=b"k", value=b"\xc3\xa9", headers=(("a", b"1"),), priority=0, timestamp=1),
        ],
    )
    assert shown(terminal, tmp_path) == [
        {
            "topic": "orders",
            "partition": 0,
            "offset": 0,
            "timestamp": "2023-11-14T22:13:20Z",
            "value": "v",
            "priority": "normal",
            "flags": 0,
        },
        {
            "topic": "orders",
            "partition": 0,
            "offset": 1,
            "timestamp": "1970-01-01T00:00:00.000000001Z",
            "key": "k",
            "value": "é",
            "priority": "critical",
            "headers": {"a": "1"},
            "flags": int(Flag.HEADERS),
        },
    ]


@pytest.mark.parametrize(("key", "value"), [(b"\xff", b"v"), (b"k", b"\x80"), (b"\xc3", b"\xc3")])
def test_if_key_or_value_is_binary_both_are_base64(key: bytes, value: bytes) -> None:
    message = show(record(key=key, value=value), LOG)
    assert message.encoding == "base64"
    assert message.key == base64.b64encode(key).decode()
    assert message.value == base64.b64encode(value).decode()


def test_a_tombstone_has_a_null_value(tmp_path: Path, terminal: Terminal) -> None:
    write_log(tmp_path, messages=[Message(key=b"k", value=None)])
    [message] = shown(terminal, tmp_path)
    assert message["value"] is None
    assert message["flags"] == int(Flag.TOMBSTONE)


def test_a_tombstone_with_a_binary_key_stays_null() -> None:
    message = show(record(key=b"\xff", value=None), LOG)
    assert message.value is None
    assert message.encoding == "base64"


def test_a_binary_header_is_base64_and_named(tmp_path: Path, terminal: Terminal) -> None:
    write_log(tmp_path, messages=[Message(value=b"v", headers=(("a", b"1"), ("b", b"\xff")))])
    [message] = shown(terminal, tmp_path)
    assert message["headers"] == {"a": "1", "b": "/w=="}
    assert message["base64_headers"] == ["b"]


def test_of_headers_with_the_same_name_the_last_is_shown() -> None:
    message = show(record(headers=(("a", b"\xff"), ("a", b"2"))), LOG)
    assert message.headers == {"a": "2"}
    assert not message.base64_headers


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compressed_value_is_shown_whole_and_keeps_its_flags(
    tmp_path: Path, terminal: Terminal, codec: Codec
) -> None:
    write_log(tmp_path, messages=[compress(Message(value=b"hello" * 100), codec)])
    [message] = shown(terminal, tmp_path)
    assert message["value"] == "hello" * 100
    assert message["flags"] == int(Flag.COMPRESSED | Flag.HEADERS)
    assert "headers" not in message


def test_a_compressed_value_is_shown_as_stored_when_asked(
    tmp_path: Path, terminal: Terminal
) -> None:
    packed = compress(Message(value=b"hello" * 100), Codec.ZSTD)
    write_log(tmp_path, messages=[packed])
    [message] = shown(terminal, tmp_path, "--raw")
    assert message["encoding"] == "base64"
    assert base64.b64decode(str(message["value"])) == packed.value
    assert message["headers"] == {"gq.codec": "zstd"}


def test_a_value_that_cannot_be_decompressed_is_shown_as_stored(
    tmp_path: Path, terminal: Terminal
) -> None:
    broken = Message(value=b"no zstd", headers=(("gq.codec", b"zstd"),), is_compressed=True)
    write_log(tmp_path, messages=[broken])
    [message] = shown(terminal, tmp_path)
    assert message["value"] == "no zstd"
    assert message["headers"] == {"gq.codec": "zstd"}


def test_control_records_are_shown_with_their_flag(tmp_path: Path, terminal: Terminal) -> None:
    write_log(tmp_path, messages=[epoch_start(3)])
    [message] = shown(terminal, tmp_path)
    assert message["key"] == "gq.epoch"
    assert message["flags"] == int(Flag.CONTROL)


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
        ((1 << 63) - 1, "2262-04-11T23:47:16.854775807Z"),
    ],
)
def test_times_are_rfc_3339_to_the_nanosecond(timestamp: int, text: str) -> None:
    assert timestamp_text(timestamp) == text


# Which messages


def test_all_messages_come_in_the_order_of_their_offsets(
    tmp_path: Path, terminal: Terminal
) -> None:
    write_log(tmp_path)
    assert [message["offset"] for message in shown(terminal, tmp_path)] == list(range(25))


@pytest.mark.parametrize("first", [0, 9, 10, 24, 25, 99])
def test_from_and_limit_choose_a_range(tmp_path: Path, terminal: Terminal, first: int) -> None:
    write_log(tmp_path)
    found = shown(terminal, tmp_path, "--from", str(first), "--limit", "3")
    assert [message["offset"] for message in found] == list(range(25))[first : first + 3]


def test_topic_and_partition_choose_logs(tmp_path: Path, terminal: Terminal) -> None:
    for log in (LogId("a", 0), LogId("a", 1), LogId("b", 0)):
        write_log(tmp_path, 1, log)
    by_topic = shown(terminal, tmp_path, "--topic", "a")
    assert [message["partition"] for message in by_topic] == [0, 1]
    by_partition = shown(terminal, tmp_path, "--partition", "0")
    assert [message["topic"] for message in by_partition] == ["a", "b"]


def test_asking_for_a_log_that_is_not_there_is_a_mistake(
    tmp_path: Path, terminal: Terminal
) -> None:
    write_log(tmp_path)
    answer = terminal.run("log", "dump", tmp_path, "--topic", "order")
    assert answer.code == 2
    assert "the logs here are: orders-0" in answer.err


def test_an_empty_log_is_an_empty_list(tmp_path: Path, terminal: Terminal) -> None:
    (tmp_path / "logs").mkdir()
    assert shown(terminal, tmp_path) == []


def test_a_leftover_of_a_merge_does_not_repeat_messages(tmp_path: Path, terminal: Terminal) -> None:
    directory = write_log(tmp_path)
    append(segment(directory, 0), segment(directory, 10).read_bytes())
    assert [message["offset"] for message in shown(terminal, tmp_path)] == list(range(25))


# Damage


def test_messages_on_both_sides_of_damage_are_shown_and_the_damage_is_told(
    tmp_path: Path, terminal: Terminal
) -> None:
    directory = write_log(tmp_path)
    spoil(segment(directory, 0), 350)
    answer = terminal.run("log", "dump", tmp_path, "-o", "json")
    assert answer.code == 1
    document = answer.json()
    assert isinstance(document, list)
    assert [message["offset"] for message in document] == [0, 1, 2, *range(4, 25)]
    assert answer.err.startswith("goqueue: damage in orders-0, segment 0, byte 300: crc: ")


def test_a_torn_tail_is_told_and_is_no_failure(tmp_path: Path, terminal: Terminal) -> None:
    directory = write_log(tmp_path)
    append(segment(directory, 20), b"GQ\x01")
    answer = terminal.run("log", "dump", tmp_path, "-o", "json")
    assert answer.code == 0
    assert "torn in orders-0" in answer.err


def test_good_records_of_quarantined_segments_are_shown_when_asked(
    tmp_path: Path, terminal: Terminal
) -> None:
    directory = write_log(tmp_path)
    spoil(segment(directory, 10), 350)
    segment(directory, 10).replace(segment(directory, 10, NameKind.QUARANTINED))
    without = [message["offset"] for message in shown(terminal, tmp_path)]
    assert without == [*range(10), *range(20, 25)]
    found = [message["offset"] for message in shown(terminal, tmp_path, "--quarantined")]
    assert found == [*range(13), *range(14, 25)]


def test_a_copy_of_a_partition_is_read_wherever_it_lies(tmp_path: Path, terminal: Terminal) -> None:
    directory = write_log(tmp_path)
    shutil.copytree(directory, tmp_path / "evidence")
    shutil.copytree(directory, tmp_path / "returns" / "3")
    [unnamed] = shown(terminal, tmp_path / "evidence", "--limit", "1")
    assert (unnamed["topic"], unnamed["partition"]) == ("evidence", -1)
    [named] = shown(terminal, tmp_path / "returns" / "3", "--limit", "1")
    assert (named["topic"], named["partition"]) == ("returns", 3)


# For people


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_nothing_in_a_message_reaches_the_terminal_as_a_control(
    tmp_path: Path, terminal: Terminal, output: str
) -> None:
    hostile = "\x1b[2J\x07\x7f\x9b31m\r\n[bold]".encode()
    write_log(
        tmp_path, messages=[Message(key=hostile, value=hostile, headers=(("\x1b", hostile),))]
    )
    answer = terminal.run("log", "dump", tmp_path, "-o", output)
    assert all(line.isprintable() for line in answer.out.split("\n"))


def test_the_table_cuts_long_values_and_names_flags(tmp_path: Path, terminal: Terminal) -> None:
    write_log(tmp_path, messages=[Message(value=b"x" * 500), Message(key=b"k", value=None)])
    heading, long, tombstone = terminal.run("log", "dump", tmp_path).out.splitlines()
    assert heading.split() == ["log", "offset", "timestamp", "priority", "flags", "key", "value"]
    assert long.endswith("x" * 79 + "…")
    assert "tombstone" in tombstone
    assert tombstone.endswith("(null)")
