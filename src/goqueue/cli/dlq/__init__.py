"""`goqueue dlq`: messages that were rejected or failed too often, and the way back."""

from goqueue.cli.dlq.commands import dlq

__all__ = ["dlq"]
