"""`goqueue log`: verify, dump, count and re-index the log files of a data directory.

Reads the files themselves, beside a running broker or without one; only `rebuild-index` writes.
"""

from goqueue.cli.log.command import log

__all__ = ["log"]
