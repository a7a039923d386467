"""Transactions drawn for a person."""

import datetime as dt

import msgspec

from goqueue.cli.asking import draw
from goqueue.cli.render import console, printable, table
from goqueue.client.admin import TransactionDescription, TransactionStats
from goqueue.model import MILLISECOND, SECOND, format_duration, parse_duration

__all__ = ["Ended", "Page", "draw_ended", "draw_page", "draw_stats", "draw_transaction"]


class Page(msgspec.Struct, frozen=True):
    """The answer that lists those that have not ended."""

    transactions: tuple[TransactionDescription, ...]
    total: int
    skip: int


class Ended(msgspec.Struct, frozen=True):
    """The answer to an abort."""

    status: str


def draw_page(page: Page) -> None:
    rows = [
        (
            each.transaction_id,
            each.transactional_id,
            _state(each),
            _time(each.started_at),
            format_duration(each.timeout_ms * MILLISECOND),
            len(each.partitions),
        )
        for each in page.transactions
    ]
    headings = ("TRANSACTION", "PRODUCER", "STATE", "STARTED", "TIMEOUT", "PARTITIONS")
    nothing = "no transaction is open"
    draw(headings, rows, empty=f"{nothing} beyond these {page.total}" if page.total else nothing)
    following = page.skip + len(rows)
    if rows and following < page.total:
        print(f"{page.total - following} more: --skip {following}")


def draw_transaction(transaction: TransactionDescription) -> None:
    facts = [
        ("transaction", transaction.transaction_id),
        ("transactional id", transaction.transactional_id),
        ("producer", str(transaction.producer_id)),
        ("epoch", str(transaction.epoch)),
        ("state", _state(transaction)),
        ("started", _time(transaction.started_at)),
        ("timeout", format_duration(transaction.timeout_ms * MILLISECOND)),
    ]
    console().print(table(("FIELD", "VALUE"), facts))
    rows = [(each.topic, each.partition) for each in transaction.partitions]
    has_ended = transaction.state.startswith("completed")
    nothing = "it has ended: where it wrote is not kept" if has_ended else "nothing written yet"
    draw(("TOPIC", "PARTITION"), rows, empty=nothing)


def draw_ended(transaction: str, ended: Ended) -> None:
    print(printable(f"{ended.status} {transaction}"))


def draw_stats(stats: TransactionStats) -> None:
    facts = [
        ("open", str(stats.active_transactions)),
        ("committed", str(stats.committed_total)),
        ("aborted", str(stats.aborted_total)),
        ("average duration", _span(stats.avg_duration)),
        ("producers", str(stats.active_producers)),
    ]
    console().print(table(("FIELD", "VALUE"), facts))


def _state(transaction: TransactionDescription) -> str:
    """A prepared one is open, but ends only by a decision about its group."""
    is_waiting = transaction.prepared and transaction.state == "ongoing"
    return f"{transaction.state} (prepared)" if is_waiting else transaction.state


def _span(text: str) -> str:
    """A duration without what nobody can follow: below a second by milliseconds."""
    span_ns = parse_duration(text)
    unit = SECOND if span_ns >= SECOND else MILLISECOND
    return format_duration(span_ns - span_ns % unit)


def _time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
