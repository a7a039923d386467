"""How messages are shown, where reading begins, and what hints a failure carries; no server."""

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.errors import as_failure, describe, explained
from goqueue.cli.messages import as_line, report_damage
from goqueue.cli.quantities import read_time
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.client.pages import DamageSkipped, PageMessage, decode_page
from goqueue.model import LogId
from tests.unit.cli.data_directories import Terminal

NOON = 1_767_268_800 * 10**9


def item(**fields: object) -> PageMessage:
    whole = {
        "topic": "t",
        "partition": 1,
        "offset": 22,
        "timestamp": "2026-01-01T12:00:00.5Z",
        "value": "v",
        **fields,
    }
    return decode_page(msgspec.json.encode({"messages": [whole]})).messages[0]


def test_a_line_shows_place_time_key_and_value() -> None:
    assert as_line(item(key="k")) == f"1:22      2026-01-01T12:00:00.500Z  {'k':<12}  v"
    assert as_line(item(value=None)).endswith(f"  {'-':<12}  (null)")
    assert as_line(item(delivery_count=1)).endswith("  v")
    assert as_line(item(delivery_count=3)).endswith("  v  (delivery 3)")
    assert as_line(item(value="/w==", encoding="base64")).endswith("  \\xff")


@given(value=st.text(), key=st.text())
def test_a_line_is_always_one_line_that_a_terminal_can_show(value: str, key: str) -> None:
    assert as_line(item(value=value, key=key)).isprintable()


@pytest.mark.parametrize(("first", "words"), [(3, "offsets 3 to 7"), (None, "offsets up to 7")])
def test_damage_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], first: int | None, words: str
) -> None:
    report_damage(DamageSkipped(LogId("t", 1), first, 8))
    assert capsys.readouterr().err == f"goqueue: t 1: {words} are damaged and were skipped\n"


def test_a_time_is_a_moment_or_an_age() -> None:
    assert read_time("since", "2026-01-01T13:00:00+01:00", NOON) == "2026-01-01T12:00:00Z"
    assert read_time("since", "1h30m", NOON) == "2026-01-01T10:30:00Z"
    with pytest.raises(click.UsageError, match=r"--since is neither .* 'yesterday'"):
        read_time("since", "yesterday", NOON)


def test_a_hint_takes_the_place_of_advice_that_is_not_for_people() -> None:
    sentence = "There is no such topic: topic x. GET /topics lists them."
    assert describe("topic_not_found", sentence) == (
        "There is no such topic: topic x (topic_not_found); "
        "see: goqueue topic list; create it with: goqueue topic create TOPIC"
    )
    assert explained("topic_not_found", sentence, {"topic": "x"}).format_message() == (
        'topic "x" does not exist (topic_not_found); '
        "see: goqueue topic list; create it with: goqueue topic create x"
    )
    meant = explained("topic_not_found", sentence, {"topic": "x"}, near=["x1", "x2"])
    assert meant.hint == "did you mean x1 or x2?"
    assert describe("storage_full", "The disk is full. Free some.") == (
        "The disk is full. Free some (storage_full)"
    )


def test_a_server_that_is_not_reached_is_looked_for_where_it_should_be() -> None:
    lost = ServerUnreachable("cannot connect")
    near = as_failure(lost, "http://localhost:8080")
    far = as_failure(lost, "https://queue.example")
    assert (near.exit_code, far.exit_code) == (3, 3)
    assert near.hint.endswith("start one with: goqueue dev")
    assert "is https://queue.example the right address?" in far.hint
    assert as_failure(GoQueueError("x", "y"), "http://localhost").exit_code == 1


@pytest.mark.parametrize("command", ["topic", "group", "dlq", "delayed", "txn", "bench"])
def test_every_command_of_a_noun_has_help(terminal: Terminal, command: str) -> None:
    listed = terminal.run(command, "--help").out.split("Commands:")[1]
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
    assert names
    for name in names:
        answer = terminal.run(command, name, "--help")
        assert answer.code == 0
        assert "--server" in answer.out or (command, name) == ("topic", "settings")
