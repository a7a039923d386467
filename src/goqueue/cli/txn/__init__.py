"""`goqueue txn`: transactions that are open, and how to end one that hangs."""

from goqueue.cli.txn.commands import txn

__all__ = ["txn"]
