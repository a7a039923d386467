"""Keys: what they change, and how bytes of a terminal become keys."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.top.state import FILTER_MAX, Choice, View, press
from goqueue.cli.top.terminal import Keys


def after(*keys: str, choice: Choice | None = None) -> Choice:
    return functools.reduce(press, keys, choice or Choice())


def test_numbers_and_tab_choose_the_view() -> None:
    assert after("3").view is View.WAITING
    assert after("tab").view is View.GROUPS
    assert after("6", "tab").view is View.TOPICS
    assert after("back_tab").view is View.CLUSTER
    assert after("9").view is View.TOPICS


def test_another_view_begins_at_its_top_in_its_own_order_with_the_same_filter() -> None:
    chosen = after("/", "o", "enter", "s", "r", "down", "2")
    assert (chosen.order, chosen.is_reversed, chosen.cursor) == (0, False, 0)
    assert chosen.wanted == "o"


def test_pressing_the_number_of_the_view_that_is_shown_changes_nothing() -> None:
    chosen = after("s", "down")
    assert press(chosen, "1") == chosen


def test_a_filter_is_typed_kept_and_ended() -> None:
    assert after("/", "o", "r", "q").wanted == "orq"
    assert not after("/", "q").is_over
    assert after("/", "o", "x", "backspace", "enter") == Choice(wanted="o")
    assert after("/", "o", "escape") == Choice()
    assert after("/", "o", "enter", "escape") == Choice()
    assert after("/", "o", "erase").wanted == ""
    assert after("/", *("x" * 300)).wanted == "x" * FILTER_MAX


def test_pause_and_order_are_turned_on_and_off() -> None:
    assert after("p").is_paused
    assert not after("p", "p").is_paused
    assert after("r").is_reversed
    assert after("s", "s").order == 2


def test_any_key_ends_the_help_and_q_ends_the_program_from_there_too() -> None:
    assert after("?").has_help
    assert after("?", "2") == Choice()
    assert after("?", "q").is_over
    assert after("q").is_over


def test_scrolling_never_goes_above_the_first_row() -> None:
    assert after("up").cursor == 0
    assert after("down", "down", "page_down", "page_up").cursor == 2
    assert after("end", "home").cursor == 0


@given(st.lists(st.text(max_size=3) | st.sampled_from(["up", "tab", "enter", "escape", "/"])))
def test_no_row_of_keys_breaks_a_choice(keys: list[str]) -> None:
    chosen = after(*keys)
    assert len(chosen.wanted) <= FILTER_MAX
    assert chosen.cursor >= 0


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA\x1b[5~\x1b[6~", ["up", "page_up", "page_down"]),
        (b"\t\x1b[Z\r\x7f\x15", ["tab", "back_tab", "enter", "backspace", "erase"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[200~q\x1b[1;5C", ["q"]),  # sequences that nobody knows
        (b"\x01\x02", []),
        ("é日".encode(), ["é", "日"]),
    ],
)
def test_bytes_of_a_terminal_are_keys(data: bytes, keys: list[str]) -> None:
    assert Keys().feed(data) == keys


def test_a_character_may_come_in_pieces() -> None:
    keys = Keys()
    first, second = "é".encode()
    assert keys.feed(bytes([first])) == []
    assert keys.feed(bytes([second])) == ["é"]


@given(st.lists(st.binary(max_size=20)))
def test_no_bytes_break_the_keys(chunks: list[bytes]) -> None:
    keys = Keys()
    for chunk in chunks:
        assert all(keys.feed(chunk))


def test_enter_opens_dead_letters_of_which_none_leads_further() -> None:
    opened = press(after("4"), "enter", "orders.dlq")
    assert (opened.view, opened.opened) == (View.DEAD_LETTERS, "orders.dlq")
    assert press(opened, "enter", "0:1") == opened
    assert press(opened, "escape").opened == ""


def test_enter_opens_the_row_under_the_cursor_and_escape_goes_back() -> None:
    opened = press(after("/", "o", "enter", "s", "down"), "enter", "orders")
    assert (opened.view, opened.opened, opened.cursor) == (View.TOPICS, "orders", 0)
    # The filter was for the list.
    assert opened.wanted == ""
    assert press(opened, "escape").opened == ""
    assert press(opened, "backspace").opened == ""
    # A group of the topic is opened in the view of groups.
    group = press(opened, "enter", "billing")
    assert (group.view, group.opened) == (View.GROUPS, "billing")
    assert press(group, "enter", "orders 0") == group
    assert press(group, "1").opened == ""
    assert press(opened, "1") == Choice()


def test_priorities_and_the_node_are_not_opened() -> None:
    for key in ("3", "5"):
        assert press(after(key), "enter", "x") == after(key)
    assert press(Choice(), "enter", "") == Choice()
