"""`goqueue txn`: list, describe and abort transactions."""

from collections.abc import Callable
from typing import TypeVar

import click

from goqueue.cli.client import ask
from goqueue.cli.options import (
    Output,
    confirm,
    force_option,
    limit_option,
    output_option,
    server_options,
    skip_option,
)
from goqueue.cli.output import console, draw, printable, show, table
from goqueue.cli.quantities import exact_duration, shown_duration, shown_time
from goqueue.client.admin_replies import (
    TransactionDescription,
    TransactionPage,
    TransactionStats,
)
from goqueue.model import MILLISECOND

__all__ = [
    "draw_page",
    "draw_stats",
    "draw_transaction",
    "txn",
]


def draw_page(page: TransactionPage) -> None:
    rows = [
        (
            each.transaction_id,
            each.transactional_id,
            _state(each),
            shown_time(each.started_at),
            exact_duration(each.timeout_ms * MILLISECOND),
            len(each.partitions),
        )
        for each in page.transactions
    ]
    headings = ("TRANSACTION", "PRODUCER", "STATE", "STARTED", "TIMEOUT", "PARTITIONS")
    nothing = "no open transactions"
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
        ("started", shown_time(transaction.started_at)),
        ("timeout", exact_duration(transaction.timeout_ms * MILLISECOND)),
    ]
    console().print(table(("FIELD", "VALUE"), facts))
    rows = [(each.topic, each.partition) for each in transaction.partitions]
    has_ended = transaction.state.startswith("completed")
    nothing = "ended; its partitions are not kept" if has_ended else "nothing written yet"
    draw(("TOPIC", "PARTITION"), rows, empty=nothing)


def draw_stats(stats: TransactionStats) -> None:
    facts = [
        ("open", str(stats.active_transactions)),
        ("committed", str(stats.committed_total)),
        ("aborted", str(stats.aborted_total)),
        ("average duration", shown_duration(stats.avg_duration)),
        ("producers", str(stats.active_producers)),
    ]
    console().print(table(("FIELD", "VALUE"), facts))


def _state(transaction: TransactionDescription) -> str:
    """A prepared one is open, but ends only by a decision about its group."""
    is_waiting = transaction.prepared and transaction.state == "ongoing"
    return f"{transaction.state} (prepared)" if is_waiting else transaction.state


Decorated = TypeVar("Decorated", bound=Callable[..., object])


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.completion import known_transactions

    return known_transactions(context, incomplete)


def _transaction_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument TRANSACTION; it arrives as `transaction`."""
    return click.argument("transaction", shell_complete=_complete)(decorated)


@click.group("txn")
@server_options
@output_option
def txn(output: Output) -> None:
    """Inspect transactions that have not ended, and abort one that hangs."""


@txn.command("list", short_help="List transactions that have not ended, oldest first.")
@limit_option("transactions, up to 1000")
@skip_option("transactions")
@server_options
@output_option
def list_command(limit: int, skip: int, output: Output) -> None:
    """List the transactions that have not ended, oldest first."""
    page = ask(lambda q: q.transactions.page(limit=limit, skip=skip))
    show(page, output, draw_page, items="transactions")


@txn.command("describe", short_help="Show one transaction.")
@_transaction_argument
@server_options
@output_option
def describe_command(transaction: str, output: Output) -> None:
    """Show TRANSACTION, as shown by `txn list`: its producer, its state and its partitions."""
    show(ask(lambda q: q.transactions.describe(transaction)), output, draw_transaction)


@txn.command("abort", short_help="Abort a transaction; its messages are discarded.")
@_transaction_argument
@force_option
@server_options
@output_option
def abort_command(transaction: str, output: Output, *, is_forced: bool) -> None:
    """Abort TRANSACTION, whichever producer began it. No reader will ever see its messages.

    The producer gets an error at its next request in it, and may begin another transaction.
    """
    confirm(f"Abort the transaction {transaction!a}?", is_forced=is_forced)
    aborted = ask(lambda q: q.transactions.abort(transaction))
    show(aborted, output, lambda _: print(printable(f"aborted {transaction}")))


@txn.command("stats", short_help="Count transactions.")
@server_options
@output_option
def stats_command(output: Output) -> None:
    """Count open, committed and aborted transactions on the server."""
    show(ask(lambda q: q.transactions.stats()), output, draw_stats)
