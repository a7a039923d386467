"""The exit codes of the program. A command returns one, or nothing when it is done.

Imports nothing of GoQueue, because every `--help` imports it.
"""

import enum

__all__ = ["ExitCode"]


class ExitCode(enum.IntEnum):
    """How a command ended; 130 and 141 are what a shell reports for Ctrl-C and a closed pipe."""

    DONE = 0
    FAILED = 1
    MISUSED = 2
    UNREACHED = 3
    INTERRUPTED = 130
    PIPE_CLOSED = 141
