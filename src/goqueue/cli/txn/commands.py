"""The commands of `goqueue txn`: arguments in, a request, its answer out."""

from collections.abc import Callable
from typing import TypeVar

import click

from goqueue.cli.confirmation import confirm, force_option
from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

__all__ = ["txn"]

DONE = 0

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.asking import known_transactions

    return known_transactions(context, incomplete)


def _transaction_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument TRANSACTION; it arrives as `transaction`."""
    return click.argument("transaction", shell_complete=_complete)(decorated)


@click.group("txn")
@server_options
@output_option
def txn(output: Output) -> None:
    """Look at transactions that have not ended, and abort one that hangs."""


@txn.command("list", short_help="List transactions that have not ended, oldest first.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="At most so many; the server gives no more than 1000.",
)
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Pass over so many.")
@server_options
@output_option
def list_command(limit: int, skip: int, output: Output) -> int:
    """List the transactions that have not ended, the oldest first."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.txn.tables import Page, draw_page
    from goqueue.client.transport import get

    show(ask(get("transactions", limit=limit, skip=skip)), output, Page, draw_page)
    return DONE


@txn.command("describe", short_help="Show one transaction.")
@_transaction_argument
@server_options
@output_option
def describe_command(transaction: str, output: Output) -> int:
    """Show TRANSACTION, as `txn list` names it: whose it is, how it stands, where it writes."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.txn.tables import draw_transaction
    from goqueue.client.admin import TransactionDescription
    from goqueue.client.transport import get

    body = ask(get("transactions", transaction))
    show(body, output, TransactionDescription, draw_transaction)
    return DONE


@txn.command("abort", short_help="Abort a transaction: nobody will see any of it.")
@_transaction_argument
@force_option
@server_options
@output_option
def abort_command(transaction: str, output: Output, *, is_forced: bool) -> int:
    """Abort TRANSACTION, whoever began it: nobody will ever see any of its messages.

    Its producer is refused when it goes on with it, and may begin another.
    """
    from goqueue.cli.asking import Session, run_session, show
    from goqueue.cli.txn.abortion import abort_transaction
    from goqueue.cli.txn.tables import Ended, draw_ended

    confirm(f"Abort the transaction {transaction!a}?", is_forced=is_forced)

    async def scene(session: Session) -> bytes:
        return await abort_transaction(session, transaction)

    show(run_session(scene), output, Ended, lambda ended: draw_ended(transaction, ended))
    return DONE


@txn.command("stats", short_help="Count transactions.")
@server_options
@output_option
def stats_command(output: Output) -> int:
    """Count the transactions of the server: those that are open, committed and aborted."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.txn.tables import draw_stats
    from goqueue.client.admin import TransactionStats
    from goqueue.client.transport import get

    show(ask(get("transactions", "stats")), output, TransactionStats, draw_stats)
    return DONE
