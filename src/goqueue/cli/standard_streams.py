"""Standard streams as every command expects them: open, and written as a whole."""

import io
import os
import sys

__all__ = ["prepare_standard_streams"]


def prepare_standard_streams() -> None:
    """Make them usable, whatever the caller and the environment made of them."""
    _open_closed()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            _buffer(name, stream)
            # Characters that the terminal cannot show are escaped instead of ending the program.
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _open_closed() -> None:
    """Put something in the place of streams that were closed by who started us.

    The first file opened would get their number, and whatever is printed would go into it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one: those below are open by now.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))


def _buffer(name: str, stream: io.TextIOWrapper) -> None:
    """Write all or fail, also with `PYTHONUNBUFFERED`.

    Without a buffer one write may take a part of the bytes and say so to nobody: a message that
    was cut at a full disk or a closed pipe would count as printed.
    """
    raw = stream.buffer
    if isinstance(raw, io.FileIO):
        buffered = io.BufferedWriter(raw)
        setattr(sys, name, io.TextIOWrapper(buffered, stream.encoding, line_buffering=True))
