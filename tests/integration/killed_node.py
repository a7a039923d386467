"""A node that kills itself before one operation on a file: `python killed_node.py POINT serve …`.

POINT is `operation:part of the path`, where the operation is a method of `OsFileSystem`.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable

from goqueue.cli.program import main
from goqueue.runtime.os_files import OsFileSystem


def _kill_before(operation: str, part: str) -> None:
    original: Callable[..., object] = getattr(OsFileSystem, operation)

    @functools.wraps(original)
    def checked(self: OsFileSystem, *paths: str) -> object:
        if any(part in path for path in paths):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, *paths)

    setattr(OsFileSystem, operation, checked)


if __name__ == "__main__":
    point = sys.argv.pop(1)
    if point != "never":
        _kill_before(*point.split(":"))
    main()
