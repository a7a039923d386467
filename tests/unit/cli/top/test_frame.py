"""What is drawn of a node, at every size: rows and columns that fit, and nothing that escapes."""

import datetime as dt
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.cli.top.frame import Frame, Size, draw_all, draw_frame
from goqueue.cli.top.model import Board
from goqueue.cli.top.render import (
    BARS,
    Line,
    Span,
    Style,
    age,
    fit,
    flow,
    rate,
    short,
    signed,
    sparkline,
    width_of,
)
from goqueue.cli.top.state import Choice, View
from goqueue.cli.top.tracks import MachineFacts
from goqueue.client.admin_replies import (
    GroupDescription,
    MemberDescription,
    Partition,
    ReadinessCheck,
)
from goqueue.client.dead_letter import DeadLetter, Place
from goqueue.client.message import Message
from tests.examples import examples
from tests.unit.cli.top.samples import NOON, group, lag_of, lanes, sample, topic, transaction

SERVER = "http://127.0.0.1:8080"

LATER = NOON + dt.timedelta(minutes=5)


def text_of(line: Line) -> str:
    return "".join(piece.text for piece in line)


def lines_of(frame: Frame) -> list[str]:
    return [text_of(line) for line in frame.lines]


def busy() -> Board:
    """A node of three topics and two groups, seen twice."""
    board = Board()
    for at_s, more in ((0.0, 0), (2.0, 40)):
        board.apply(
            sample(
                at_s,
                topics={
                    "orders": topic(220, 2048, published=3 * more, consumed=more),
                    "clicks": topic(90, 900, published=more, consumed=2 * more),
                    "quiet": topic(7, 5 << 30, published=0, consumed=0),
                },
                groups=(group("billing"), group("audit", members=0, state="empty")),
                lags={
                    "billing": lag_of("billing", lag=20 + more, end=100 + 3 * more),
                    "audit": lag_of("audit", lag=500 - more, end=1000),
                },
                letters={"orders.dlq": 3 + more},
                delayed={"orders": 2, "clicks": 9},
                dues={"orders": LATER},
                priorities=lanes(ready=4),
                transactions=(transaction("tx-1"), transaction("tx-2")),
            )
        )
    return board


def draw(board: Board, choice: Choice, width: int = 80, height: int = 24) -> Frame:
    return draw_frame(board, choice, Size(width, height), NOON, SERVER)


names = st.text(min_size=1, max_size=40)

counts = st.integers(0, 10**15)


@st.composite
def boards(draw_from: st.DrawFn) -> Board:
    """Boards after two samples of anything that a server, or something that is none, may say."""
    board = Board()
    topics = draw_from(st.lists(names, max_size=12, unique=True))
    crowd = draw_from(st.lists(names, max_size=12, unique=True))
    for at_s in (0.0, draw_from(st.floats(0.001, 1e6))):
        board.apply(
            sample(
                at_s,
                node_id=draw_from(names),
                topics={
                    name: topic(
                        draw_from(counts),
                        draw_from(counts),
                        published=draw_from(st.none() | counts),
                        consumed=draw_from(st.none() | counts),
                    )
                    for name in topics
                },
                groups=tuple(
                    group(name, members=draw_from(counts), state=draw_from(names)) for name in crowd
                ),
                lags={
                    name: lag_of(name, lag=draw_from(counts), end=draw_from(counts))
                    for name in crowd[::2]
                },
                letters={name: draw_from(counts) for name in topics[::3]},
                delayed={name: draw_from(counts) for name in topics[::2]},
                dues={name: draw_from(st.datetimes(timezones=st.just(dt.UTC))) for name in topics},
                status=draw_from(st.sampled_from(["pass", "fail"])),
                message=draw_from(st.text(max_size=100)),
                storage=draw_from(st.sampled_from(["pass", "warn", "fail", "odd"])),
                priorities=draw_from(st.none() | st.just(lanes(ready=10**12))),
                transactions=draw_from(
                    st.none() | st.just(tuple(transaction(name) for name in crowd))
                ),
            )
        )
    if draw_from(st.booleans()):
        board.lose(NOON, draw_from(st.text(max_size=60)))
    return board


choices = st.builds(
    Choice,
    view=st.sampled_from(View),
    order=st.integers(0, 20),
    is_reversed=st.booleans(),
    wanted=st.text(max_size=5),
    is_typing=st.booleans(),
    is_paused=st.booleans(),
    has_help=st.booleans(),
    cursor=st.integers(0, 10**6),
    opened=st.sampled_from(["", "t", "gone"]),
)


@settings(max_examples=examples(60), deadline=None)
@given(boards(), choices, st.integers(1, 220), st.integers(1, 60))
def test_no_frame_is_wider_or_higher_than_the_screen_or_holds_a_control_character(
    board: Board, choice: Choice, width: int, height: int
) -> None:
    lines = lines_of(draw(board, choice, width, height))
    assert len(lines) <= height
    assert all(width_of(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)


@settings(max_examples=examples(25), deadline=None)
@given(boards(), st.integers(1, 220), st.integers(1, 40))
def test_no_line_of_one_picture_is_wider_than_it_may_be(
    board: Board, width: int, rows: int
) -> None:
    lines = [text_of(line) for line in draw_all(board, width, rows, NOON, SERVER)]
    assert all(width_of(line) <= width and line.isprintable() for line in lines)


@given(st.lists(st.text(max_size=20)), st.integers(0, 60))
def test_fitted_and_flowing_lines_are_never_too_wide(texts: list[str], width: int) -> None:
    pieces = [Span(text) for text in texts]
    assert width_of(text_of(fit(pieces, width))) <= width
    assert width_of(text_of(flow(pieces, width))) <= width


def test_wide_characters_count_twice() -> None:
    assert text_of(fit([Span("日本語のトピック")], 7)) == "日本語…"


@given(st.lists(st.none() | st.floats(0, 1e12), max_size=80), st.integers(0, 80))
def test_a_sparkline_is_as_wide_as_asked(values: list[float | None], width: int) -> None:
    drawn = sparkline(values, width)
    assert len(drawn) == width
    assert set(drawn) <= {*BARS, " "}


def test_a_sparkline_shows_zero_as_the_lowest_bar_and_anything_more_above_it() -> None:
    assert sparkline([0, 0.001, 50, 100, None, 100], 8) == "  ▁▂▅█ █"
    assert sparkline([0, 0], 2) == "▁▁"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100.0k"),
        (999_949, "999.9k"),
        (999_950, "1.0M"),
        (12_345_678, "12.3M"),
        (-250_000, "-250.0k"),
    ],
)
def test_large_counts_are_short(count: int, words: str) -> None:
    assert short(count) == words


def test_rates_say_what_they_know() -> None:
    assert (rate(None), rate(0), rate(0.04), rate(0.5), rate(9.9)) == (
        "-",
        "0",
        "0.04",
        "0.5",
        "9.9",
    )
    assert (rate(12.6), rate(123_456)) == ("13", "123.5k")
    assert (signed(None), signed(0.0), signed(3.0), signed(-3.0)) == ("-", "0", "+3.0", "-3.0")


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0s"),
        (7, "7ms"),
        (59_000, "59s"),
        (61_000, "1m01s"),
        (7_260_000, "2h01m"),
        (180_000_000, "2d02h"),
    ],
)
def test_ages_have_two_units(milliseconds: int, words: str) -> None:
    assert age(milliseconds * 1_000_000) == words


def test_topics_are_shown_with_rates_and_sizes_the_busiest_first() -> None:
    lines = lines_of(draw(busy(), Choice()))
    assert lines[0].startswith("node-1  ready")
    assert lines[1].startswith("in 80/s  out 60/s  lag 520  dead 43")
    rows = lines[4:7]
    assert [row.split()[0] for row in rows] == ["orders", "clicks", "quiet"]
    assert rows[0].split()[1:7] == ["3", "220", "2.0", "KiB", "60", "20"]
    assert rows[0].endswith("█")


def test_groups_are_shown_with_the_largest_lag_first_and_how_it_changes() -> None:
    lines = lines_of(draw(busy(), Choice(view=View.GROUPS)))
    rows = lines[4:6]
    assert rows[0].split()[:6] == ["audit", "empty", "0", "460", "-20", "1m30s"]
    assert rows[1].split()[:6] == ["billing", "stable", "1", "60", "+20", "1m30s"]


def test_a_backlog_that_nobody_works_on_is_marked() -> None:
    frame = draw(busy(), Choice(view=View.GROUPS))
    marked = [piece.text.strip() for line in frame.lines for piece in line if piece.style == "bad"]
    assert "460" in marked
    assert "60" not in marked


def test_lanes_and_delays_share_a_screen() -> None:
    text = "\n".join(lines_of(draw(busy(), Choice(view=View.WAITING))))
    for words in ("critical", "background", "11 pending", "next in 5m00s", "clicks", "orders"):
        assert words in text


def test_dead_letters_are_shown_by_the_topic_that_keeps_them() -> None:
    text = "\n".join(lines_of(draw(busy(), Choice(view=View.DEAD_LETTERS))))
    for words in ("orders.dlq", "43", "+1,200", "1 rejected, 2 max_deliveries"):
        assert words in text


def test_the_node_tells_its_checks_and_open_transactions() -> None:
    text = "\n".join(lines_of(draw(busy(), Choice(view=View.NODE))))
    for words in ("goqueue 0.1.0", "storage", "pass", "up 1h30m", "tx-1", "worker of tx-2"):
        assert words in text


def test_a_warning_of_a_check_is_seen_on_every_view() -> None:
    board = Board()
    board.apply(sample(storage="warn"))
    for view in View:
        assert "ready, but see storage" in lines_of(draw(board, Choice(view=view)))[0]


@pytest.mark.parametrize("message", ["the disk is full, 2 logs", "1 ranges of records are damaged"])
def test_a_full_disk_and_damage_are_named_on_every_view(message: str) -> None:
    board = Board()
    board.apply(sample(status="degraded", message=message, storage="warn"))
    for view in View:
        assert f"degraded: {message}" in lines_of(draw(board, Choice(view=view)))[0]


def test_a_node_that_is_not_ready_says_why() -> None:
    board = Board()
    board.apply(sample(status="fail", message="it is starting"))
    assert "not ready: it is starting" in lines_of(draw(board, Choice()))[0]


def test_an_outage_is_told_with_its_beginning_and_the_old_rows_stay() -> None:
    board = busy()
    board.lose(NOON - dt.timedelta(seconds=75), "not reached")
    lines = lines_of(draw(board, Choice()))
    assert "not reached since 11:58:45Z (1m15s)" in lines[0]
    assert lines[4].startswith("orders")


def test_before_the_first_answer_there_is_a_frame_all_the_same() -> None:
    assert "asking" in lines_of(draw(Board(), Choice()))[0]


def test_a_filter_leaves_the_names_with_the_text_whatever_their_case() -> None:
    frame = draw(busy(), Choice(wanted="CLI"))
    assert frame.names == ("clicks",)
    assert "/CLI" in lines_of(frame)[-1]
    nothing = draw(busy(), Choice(wanted="zzz"))
    assert "nothing matches zzz" in "\n".join(lines_of(nothing))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (0, ("orders", "clicks", "quiet")),
        (1, ("clicks", "orders", "quiet")),  # as many partitions each: by name
        (2, ("orders", "clicks", "quiet")),
        (3, ("quiet", "orders", "clicks")),
        (4, ("clicks", "orders", "quiet")),
        (5, ("clicks", "orders", "quiet")),
        (6, ("orders", "clicks", "quiet")),
    ],
)
def test_the_order_goes_from_column_to_column_and_ends_with_the_name(
    order: int, expected: tuple[str, ...]
) -> None:
    assert draw(busy(), Choice(order=order)).names == expected


def test_the_order_can_be_turned_round() -> None:
    assert draw(busy(), Choice(is_reversed=True)).names == ("quiet", "clicks", "orders")


def crowded(count: int) -> Board:
    board = Board()
    board.apply(sample(topics={f"t{number:04}": topic(number) for number in range(count)}))
    return board


def test_scrolling_moves_the_rows_and_ends_at_the_last() -> None:
    board = crowded(3000)
    by_messages = Choice(order=2)
    first = draw(board, by_messages)
    assert first.names[0] == "t2999"
    assert len(first.names) == 19
    assert "19 of 3,000 shown" in lines_of(first)[-1]
    scrolled = draw(board, Choice(order=2, cursor=100))
    assert scrolled.under_cursor == "t2899"
    assert scrolled.under_cursor in scrolled.names
    end = draw(board, Choice(order=2, cursor=10**6))
    assert (end.names[-1], len(end.names)) == ("t0000", 19)
    assert (end.under_cursor, end.cursor) == ("t0000", 2999)


def test_a_narrow_screen_keeps_the_name_and_the_rates() -> None:
    lines = lines_of(draw(busy(), Choice(), width=40, height=10))
    assert lines[2] == "1 topics  2  3  4  5  6"
    assert lines[3].split() == ["TOPIC", "IN/s▾", "OUT/s"]
    assert lines[4].split() == ["orders", "60", "20"]


def test_a_wide_screen_shows_more_of_the_past() -> None:
    heading = lines_of(draw(busy(), Choice(), width=200))[3]
    assert len(heading) > 100


def test_help_names_every_key_at_the_usual_size() -> None:
    text = "\n".join(lines_of(draw(busy(), Choice(has_help=True))))
    for words in ("quit", "pause", "sort", "only names with this text", "scroll", "next view"):
        assert words in text


def test_one_picture_shows_every_view_and_how_much_is_left_out() -> None:
    text = "\n".join(text_of(line) for line in draw_all(crowded(50), 100, 20, NOON, SERVER))
    for words in ("TOPICS", "GROUPS", "PRIORITIES AND DELAYS", "DEAD LETTERS", "NODE", "… of 50"):
        assert words in text
    assert sum(line.startswith("t00") for line in text.splitlines()) == 20


def test_text_from_elsewhere_cannot_take_over_the_terminal() -> None:
    board = Board()
    board.apply(sample(topics={"\x1b[2Jevil": topic(1)}, message="\x07", status="fail"))
    text = "\n".join(lines_of(draw(board, Choice())))
    assert "\\x1b[2Jevil" in text
    assert "\x1b" not in text


def test_styles_are_words_of_the_picture_and_not_of_a_terminal() -> None:
    used = {piece.style for line in draw(busy(), Choice()).lines for piece in line}
    assert Style.CHOSEN in used
    assert used <= set(Style)


# What is opened


def opened(**asked: object) -> Board:
    board = Board()
    found = sample(
        1.0,
        topics={"orders": topic(120)},
        groups=(group("billing", members=1, topics=("orders",)), group("other")),
        lags={"billing": lag_of("billing", lag=46, end=100)},
    )
    board.apply(msgspec.structs.replace(found, **asked))
    return board


PARTITION = Partition(
    partition=7,
    leader="node-1",
    replicas=(),
    isr=(),
    version=1,
    earliest_offset=20,
    end_offset=120,
    high_watermark=120,
    size_bytes=2048,
)
MEMBER = MemberDescription(
    member_id="worker-1",
    client_id="python",
    assigned_partitions=("orders-0", "orders-1"),
    last_heartbeat=NOON - dt.timedelta(seconds=5),
    joined_at=NOON,
    in_flight=4,
)


def test_an_opened_topic_shows_its_partitions_and_the_groups_that_read_it() -> None:
    board = opened(partitions={"orders": (PARTITION,)})
    frame = draw(board, Choice(opened="orders"))
    text = "\n".join(lines_of(frame))
    assert "topic orders" in text
    assert re.search(r"^7 +100 +2\.0 KiB", text, re.MULTILINE)
    assert frame.names == ("billing",)
    assert frame.under_cursor == "billing"
    assert "other" not in text
    assert "escape back" in text


def test_an_opened_group_shows_its_members_and_its_lag() -> None:
    described = GroupDescription(
        group_id="billing",
        state="stable",
        mode="shared",
        protocol="eager",
        generation=1,
        topics=("orders",),
        members=(MEMBER,),
    )
    board = opened(described={"billing": described})
    frame = draw(board, Choice(view=View.GROUPS, opened="billing"))
    text = "\n".join(lines_of(frame))
    assert re.search(r"^worker-1 +python +2 +4 +5s ago", text, re.MULTILINE)
    assert re.search(r"^orders 0 +46 +1m30s", text, re.MULTILINE)
    assert frame.under_cursor == ""


def test_what_is_opened_and_not_known_yet_or_gone_is_said() -> None:
    assert "asking…" in "\n".join(lines_of(draw(opened(), Choice(opened="orders"))))
    gone = "\n".join(lines_of(draw(opened(), Choice(opened="nothing"))))
    assert "the topic nothing does not exist any more" in gone
    group_gone = draw(opened(), Choice(view=View.GROUPS, opened="nothing"))
    assert "the group nothing does not exist any more" in "\n".join(lines_of(group_gone))


def test_disk_space_and_errors_are_on_the_first_screen() -> None:
    board = opened(machine=MachineFacts(free_bytes=4, size_bytes=100, errors=1))
    later = sample(2.0, topics={"orders": topic(130)})
    machine = MachineFacts(free_bytes=4, size_bytes=100, errors=6)
    board.apply(msgspec.structs.replace(later, machine=machine))
    frame = draw(board, Choice())
    bad = [piece.text for line in frame.lines for piece in line if piece.style is Style.BAD]
    assert "disk 4% free" in bad
    assert "errors 5.0/s" in bad
    assert "disk" not in "\n".join(lines_of(draw(busy(), Choice())))


def test_one_picture_of_one_view_shows_no_other() -> None:
    lines = draw_all(busy(), 100, 20, NOON, SERVER, only=View.GROUPS)
    text = "\n".join(text_of(line) for line in lines)
    assert "GROUPS" in text
    assert "TOPICS" not in text
    filtered = draw_all(busy(), 100, 20, NOON, SERVER, only=View.TOPICS, wanted="xyzzy")
    assert "nothing matches xyzzy" in "\n".join(text_of(line) for line in filtered)


@pytest.mark.parametrize(
    ("latency", "shown"), [("349.769\u00b5s", "0.3ms"), ("12.34ms", "12ms"), ("1.5s", "1s")]
)
def test_the_latency_of_a_check_is_rounded(latency: str, shown: str) -> None:
    found = sample()
    checks = {"broker": ReadinessCheck(status="pass", latency=latency)}
    readiness = msgspec.structs.replace(found.readiness, checks=checks)
    board = Board()
    board.apply(msgspec.structs.replace(found, readiness=readiness))
    text = "\n".join(lines_of(draw(board, Choice(view=View.NODE))))
    assert f"pass  {shown}" in text
    assert "\u00b5" not in text


def letter(offset: int, reason: str, *, value: bytes = b"a value") -> DeadLetter:
    message = Message(
        topic="orders.dlq",
        partition=0,
        offset=offset,
        timestamp=offset,
        priority=2,
        key=b"customer-7",
        value=value,
    )
    return DeadLetter(
        message=message,
        origin=Place("orders", 1, 40 + offset),
        group="billing",
        cause="rejected",
        reason=reason,
        deliveries=3,
        dead_at=NOON,
    )


def test_dead_letters_are_opened_and_the_marked_one_is_shown_whole() -> None:
    board, opened = Board(), Choice(view=View.DEAD_LETTERS, opened="orders.dlq")
    board.apply(sample(0.0, letters={"orders.dlq": 2}))
    assert board.wants(shown=(), view="letters", opened="orders.dlq").letters == ("orders.dlq",)
    assert "asking" in "\n".join(lines_of(draw(board, opened)))

    letters = (letter(1, "no such customer"), letter(0, "bad\x1b[2J", value=b"\xff\x00"))
    found = sample(1.0, letters={"orders.dlq": 2})
    board.apply(msgspec.structs.replace(found, letters={"orders.dlq": letters}))

    text = "\n".join(lines_of(draw(board, opened)))
    for words in ("0:1", "0:0", "billing", "no such customer", "of orders 1:41", "customer-7"):
        assert words in text
    assert "goqueue dlq show orders 0:1" in text
    assert "a value" in text
    assert "\x1b" not in text
    below = "\n".join(lines_of(draw(board, msgspec.structs.replace(opened, cursor=1))))
    assert "goqueue dlq show orders 0:0" in below
    # They are read again when there are more or fewer.
    assert board.wants(shown=(), view="letters", opened="orders.dlq").letters == ()
    board.apply(sample(2.0, letters={"orders.dlq": 3}))
    assert board.wants(shown=(), view="letters", opened="orders.dlq").letters == ("orders.dlq",)
