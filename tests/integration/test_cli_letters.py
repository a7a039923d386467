"""`goqueue dlq`, `topic trim` and `topic purge` against a real node, also one that is killed."""

import re
import signal
import time
from pathlib import Path

import httpx
import msgspec
import pytest

import goqueue
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess, serving
from tests.integration.small_disk import mounted


def kill_letters(node: ServerProcess, topic: str, group: str, *values: str) -> None:
    """Publish messages that a group rejects, each for the reason `no <value>`."""
    with goqueue.connect_sync(node.url) as q:
        for value in values:
            q.publish(topic, value, key=value)
        with q.consume(topic, group=group, prefetch=1) as consumer:
            for _ in values:
                message = next(consumer)
                message.reject(f"no {message.text}")


def letters(program: Program, topic: str, *flags: str) -> dict[str, str]:
    """The place of each letter by its value."""
    lines = program.do("dlq", "export", topic, *flags).lines
    found = [msgspec.json.decode(line) for line in lines]
    return {each["value"]: f"{each['partition']}:{each['offset']}" for each in found}


def consumed(program: Program, topic: str, group: str) -> list[str]:
    return sorted(program.do("consume", topic, "-g", group, "-n", "0", "--values").lines)


def test_one_letter_is_redriven_and_no_other(
    program: Program, node: ServerProcess, topic: str
) -> None:
    kill_letters(node, topic, f"{topic}.g", "a", "b", "c")
    places = letters(program, topic)
    done = program.do("dlq", "redrive", topic, places["b"], "-y").text
    assert done == "moved 1 dead letter\n"
    assert consumed(program, topic, f"{topic}.g") == ["b"]
    # Each letter is moved once.
    again = program.do("dlq", "redrive", topic, places["b"], "-y", "-o", "json").json()
    assert again == {"moved": 0, "absent": []}
    assert program.do("dlq", "redrive", topic, "-y").text == "moved 2 dead letters\n"


def test_a_place_without_a_letter_is_named_and_the_others_are_redriven(
    program: Program, node: ServerProcess, topic: str
) -> None:
    kill_letters(node, topic, f"{topic}.g", "a")
    place = letters(program, topic)["a"]
    missed = program.run("dlq", "redrive", topic, "0:77", place, "99:0", "-y")
    assert (missed.code, missed.text) == (1, "moved 1 dead letter\n")
    assert f"there is no dead letter 0:77, 99:0 of {topic}" in missed.err
    again = program.run("dlq", "redrive", topic, "0:77", "-y", "-o", "json")
    assert again.code == 1
    assert again.json() == {"moved": 0, "absent": ["0:77"]}
    assert msgspec.json.decode(again.err)["code"] == "message_not_found"


def test_no_letter_of_a_topic_without_letters_is_redriven(program: Program, topic: str) -> None:
    assert program.run("dlq", "redrive", topic, "0:0", "-y").code == 1
    assert program.do("dlq", "redrive", topic, "-y").text == "moved 0 dead letters\n"


def test_letters_are_selected_by_group_reason_and_age(
    program: Program, node: ServerProcess, topic: str
) -> None:
    kill_letters(node, topic, f"{topic}.one", "a", "b")
    kill_letters(node, topic, f"{topic}.two", "c")
    assert set(letters(program, topic, "--group", f"{topic}.one")) == {"a", "b"}
    # The second group rejected the first message that it got.
    assert len(letters(program, topic, "--group", f"{topic}.two")) == 1
    assert set(letters(program, topic, "--reason", "no b", "--since", "1h")) == {"b"}
    assert letters(program, topic, "--before", "1h") == {}
    listed = program.do("dlq", "list", topic, "--group", f"{topic}.one", "-o", "wide").text
    assert "no a" in listed
    assert f"{topic}.two" not in listed
    moved = program.do("dlq", "redrive", topic, "--group", f"{topic}.one", "--since", "1h", "-y")
    assert moved.text == "moved 2 dead letters\n"
    nothing = program.do("dlq", "redrive", topic, "--before", "1h", "-y").text
    assert nothing == "moved 0 dead letters\n"


def test_letters_are_exported_as_lines_that_can_be_published(
    program: Program, node: ServerProcess, topic: str, tmp_path: Path
) -> None:
    kill_letters(node, topic, f"{topic}.g", "a", "b")
    file = tmp_path / "letters.jsonl"
    file.write_bytes(program.do("dlq", "export", topic).out)
    other = f"{topic}.again"
    program.do("topic", "create", other, "-p", "2")
    program.do("produce", other, "-f", file, "--format", "json")
    assert sorted(program.do("consume", other, "--values").lines) == ["a", "b"]


def test_a_letter_is_edited_on_its_way_back(
    program: Program, node: ServerProcess, topic: str, tmp_path: Path
) -> None:
    kill_letters(node, topic, f"{topic}.g", "teh", "fine")
    exported = program.do("dlq", "export", topic).out
    file = tmp_path / "letters.jsonl"
    file.write_bytes(exported.replace(b'"teh"', b'"the"'))

    program.do("produce", topic, "-f", file, "--format", "json")
    program.do("dlq", "purge", topic, "-y")

    stored = program.do("consume", topic, "--values", "-n", "0").lines
    assert sorted(stored) == sorted(["teh", "fine", "the", "fine"])
    assert letters(program, topic) == {}


def test_letters_are_purged(program: Program, node: ServerProcess, topic: str) -> None:
    assert program.do("dlq", "purge", topic, "-y", "-o", "json").json()["deleted_offsets"] == 0
    kill_letters(node, topic, f"{topic}.g", "a", "b")
    program.do("dlq", "purge", topic, "--before", "1h", "-y")
    assert set(letters(program, topic)) == {"a", "b"}
    program.do("dlq", "purge", topic, "--before", "1ms", "-y")
    assert letters(program, topic) == {}
    assert program.do("dlq", "list", topic).text == f"no dead letters of {topic}\n"
    assert program.do("dlq", "redrive", topic, "-y").text == "moved 0 dead letters\n"


def test_letters_of_topics_that_share_a_dead_letter_topic_are_kept_apart(
    program: Program, node: ServerProcess, topic: str
) -> None:
    shared = ("--set", f"dead_letter_topic={topic}.shared", "-p", "1")
    one, other = f"{topic}.one", f"{topic}.other"
    for each, value in ((one, "a"), (other, "b")):
        program.do("topic", "create", each, *shared)
        kill_letters(node, each, f"{each}.g", value)
    assert set(letters(program, one)) == {"a"}
    with goqueue.connect_sync(node.url) as q:
        assert [letter.text for letter in q.dead_letters.list(other)] == ["b"]
    refused = program.run("dlq", "purge", one, "-y")
    assert refused.code == 1
    assert f"{topic}.shared also has dead letters of {other}" in refused.err
    assert set(letters(program, other)) == {"b"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "{topic}", "0:0"), 1, "there is no dead letter 0:0 of {topic}"),
        (("redrive", "{topic}", "0:0", "--group", "g", "-y"), 2, "not both"),
        (("redrive", "{topic}", "x", "-y"), 2, "is not PARTITION:OFFSET"),
        (("purge", "{topic}"), 2, "add --yes"),
        (("list", "{topic}", "--since", "soon"), 2, "--since is neither"),
        (("list", "{topic}x"), 1, "did you mean {topic}"),
    ],
)
def test_what_is_wrong_is_one_line(
    program: Program, topic: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    refused = program.run("dlq", *(each.format(topic=topic) for each in arguments))
    assert (refused.code, refused.out) == (code, b"")
    assert words.format(topic=topic) in refused.err
    assert refused.err.count("\n") == 1


# Trim and purge


def test_a_topic_is_trimmed_by_place_and_by_time(program: Program, topic: str) -> None:
    program.do("produce", topic, "-p", "0", typed=b"a\nb\nc\n")
    program.do("produce", topic, "-p", "1", typed=b"d\n")
    program.do("topic", "trim", topic, "0:2", "-y")
    assert program.do("consume", topic, "--format", "%p:%o %v").lines == ["0:2 c", "1:0 d"]
    kept = program.do("topic", "trim", topic, "--before", "1h", "-y", "-o", "json").json()
    assert isinstance(kept["partitions"], list)
    assert [each["deleted_offsets"] for each in kept["partitions"]] == [0, 0]
    program.do("topic", "trim", topic, "--before", "1ms", "-y")
    assert program.do("consume", topic).out == b""
    program.do("produce", topic, "-p", "0", "-m", "next")
    assert program.do("consume", topic, "--format", "%o").lines == ["3"]


def delay_between(program: Program, topic: str) -> None:
    """A pending delayed message at 0:1, with messages before and behind it."""
    program.do("produce", topic, "-p", "0", "-m", "now")
    program.do("produce", topic, "-p", "0", "-m", "later", "-d", "1h")
    program.do("produce", topic, "-p", "0", "-m", "more")


@pytest.mark.parametrize("command", [("purge",), ("trim", "0:3")])
def test_a_pending_delayed_message_keeps_what_follows_and_is_said_with_code_1(
    program: Program, topic: str, command: tuple[str, ...]
) -> None:
    delay_between(program, topic)
    name, *places = command
    kept = program.run("topic", name, topic, *places, "-y")
    assert kept.code == 1
    assert "a pending delayed message" in kept.text
    assert f"a pending delayed message of {topic} needs what is left from 0:1 on" in kept.err
    assert "--delayed" in kept.err
    assert program.do("consume", topic, "--values").lines == ["more"]
    machine = program.run("topic", name, topic, *places, "-y", "-o", "json")
    assert machine.code == 1
    assert msgspec.json.decode(machine.err)["code"] == "kept_by_delayed_message"
    assert len(program.do("delayed", "list", topic, "-o", "jsonl").lines) == 1


def test_a_trim_that_ends_before_a_delayed_message_is_complete(
    program: Program, topic: str
) -> None:
    delay_between(program, topic)
    program.do("topic", "trim", topic, "0:1", "-y")


def test_a_purge_can_cancel_delayed_messages(program: Program, topic: str) -> None:
    delay_between(program, topic)
    program.do("produce", topic, "-p", "1", "-m", "later", "-d", "1h")
    program.do("topic", "purge", topic, "--delayed", "-y")
    assert program.do("consume", topic).out == b""
    assert program.do("delayed", "list", topic, "-o", "jsonl").out == b""


def test_a_trim_cancels_only_the_delayed_messages_that_it_deletes(
    program: Program, topic: str
) -> None:
    delay_between(program, topic)
    program.do("produce", topic, "-p", "0", "-m", "kept", "-d", "1h")
    program.do("produce", topic, "-p", "1", "-m", "kept", "-d", "1h")
    program.do("topic", "trim", topic, "0:3", "--delayed", "-y")
    pending = map(msgspec.json.decode, program.do("delayed", "list", topic, "-o", "jsonl").lines)
    assert sorted((each["partition"], each["offset"]) for each in pending) == [(0, 3), (1, 0)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("trim", "{topic}", "-y"), 2, "give either"),
        (("trim", "{topic}", "0:1", "--before", "1h", "-y"), 2, "give either"),
        (("trim", "{topic}", "0:1", "0:2", "-y"), 2, "named twice"),
        (("trim", "{topic}", "0:1"), 2, "add --yes"),
        (("trim", "{topic}", "0:99", "-y"), 1, "(offset_out_of_range)"),
        (("trim", "{topic}", "9:0", "-y"), 1, "(partition_not_found)"),
        (("purge", "__groups", "-y"), 1, "(topic_internal)"),
    ],
)
def test_a_wrong_trim_changes_nothing(
    program: Program, topic: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    program.do("produce", topic, "-p", "0", "-m", "x")
    refused = program.run("topic", *(each.format(topic=topic) for each in arguments))
    assert refused.code == code
    assert words in refused.err
    assert program.do("consume", topic, "--values").lines == ["x"]


def test_what_was_trimmed_stays_away_after_kill_nine(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as process:
        program = Program(process.url, tmp_path)
        program.do("topic", "create", "t", "-p", "2")
        program.do("produce", "t", "-p", "0", typed=b"x\n" * 100)
        program.do("produce", "t", "-p", "1", typed=b"y\n" * 100)
        program.do("topic", "trim", "t", "0:40", "-y")
        program.do("topic", "trim", "t", "1:100", "-y")
        process.signal(signal.SIGKILL)
        process.wait()
    with serving(tmp_path / "data") as process:
        program = Program(process.url, tmp_path)
        found = program.do("consume", "t", "-n", "0", "--format", "%p:%o").lines
        assert found == [f"0:{offset}" for offset in range(40, 100)]
        assert program.do("produce", "t", "-p", "1", "-m", "z").text == "t 1:100\n"
    program.do("log", "verify", tmp_path / "data")


def fill(process: ServerProcess, topic: str) -> int:
    """Publish until the disk is full; how many messages were taken."""
    taken = 0
    with httpx.Client(base_url=process.url, timeout=60) as api:
        while True:
            messages = [{"value": "x" * 1000, "partition": 0}] * 100
            answer = api.post(f"/topics/{topic}/messages", json={"messages": messages})
            results = answer.json().get("results", [])
            done = sum("code" not in each or not each["code"] for each in results)
            taken += done
            if done < len(messages):
                return taken


@pytest.mark.parametrize("how", ["trim", "purge"])
def test_deleting_messages_makes_room_on_a_full_disk(tmp_path: Path, how: str) -> None:
    with mounted(tmp_path / "disk", 24 << 20) as disk, serving(disk / "data") as process:
        program = Program(process.url, tmp_path)
        program.do("topic", "create", "t", "-p", "1", "--set", "segment_bytes=1MiB")
        taken = fill(process, "t")
        assert taken > 1000
        if how == "trim":
            program.do("topic", "trim", "t", f"0:{taken // 2}", "-y")
        else:
            program.do("topic", "purge", "t", "-y")
        partition = program.do("topic", "partitions", "t", "-o", "jsonl").json()
        assert partition["earliest_offset"] == (taken // 2 if how == "trim" else taken)
        # Retried until the node tries the disk again.
        program.do("produce", "t", "-p", "0", "-f", "-", typed=b"room again\n")
        assert program.do("consume", "t", "--offset", str(taken), "--values").lines == [
            "room again"
        ]
        assert fill(process, "t") > taken // 4


def test_a_full_disk_ends_a_long_produce_once_and_says_how_much_was_sent(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 24 << 20) as disk, serving(disk / "data") as process:
        program = Program(process.url, tmp_path)
        program.do("topic", "create", "t", "-p", "1")
        lines = b"".join(b"%06d" % number + b"x" * 99_994 + b"\n" for number in range(400))
        began = time.monotonic()
        done = program.run("produce", "t", "--timeout", "2s", typed=lines)
        assert time.monotonic() - began < 20  # and not 2 s for each of the requests
        assert done.code == 1
        assert "The disk is full and nothing was written" in done.err
        sent = re.search(r"sent ([0-9]+) messages before that", done.err)
        assert sent is not None
        assert (
            int(sent[1])
            == program.do("topic", "describe", "t", "-o", "json").json()["total_messages"]
        )
