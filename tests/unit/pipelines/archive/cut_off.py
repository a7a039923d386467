"""A commit to an archive that is cut off at every step, each time in a process of its own.

Run as a program: `cut_off TEMPLATE FOLDER [without-exchange]`. For each number n it copies the
template to FOLDER/n, and a child commits `commit.json` of the template there, but ends without a
word before its n-th call to the system that changes a name or flushes. The last child is not cut
off. The number of children is printed.
"""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from goqueue.pipelines.archive.directory import open_archive
from goqueue.pipelines.archive.manifest import Commit, Layout

CALLS = ("fsync", "link", "mkdir", "replace", "rmdir", "unlink")

CUT_OFF = 77


class Steps:
    """Counts calls, and ends the process before one of them."""

    def __init__(self, last: int) -> None:
        self._left = last

    def before(self, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **more: object) -> object:
            if self._left == 0:
                os._exit(CUT_OFF)
            self._left -= 1
            return call(*arguments, **more)

        return counted


def commit(folder: Path, last: int) -> None:
    decided = msgspec.json.decode((folder / "commit.json").read_bytes(), type=Commit)
    with open_archive(Layout(folder / "lake")) as shelf:
        stage = shelf.begin(decided.query, decided.batch)
        for file in (folder / "stage").iterdir():
            shutil.copy(file, stage)
        steps = Steps(last)
        for name in CALLS:
            setattr(os, name, steps.before(getattr(os, name)))
        shelf.commit(decided)


def main(template: Path, folder: Path, *, has_exchange: bool) -> None:
    if not has_exchange:
        ctypes.CDLL = lambda *_, **__: None  # type: ignore[assignment, misc]  # A system without it.
    last = 0
    while True:
        shutil.copytree(template, folder / str(last))
        child = os.fork()
        if child == 0:
            commit(folder / str(last), last)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        last += 1
        if code == 0:
            break
        assert code == CUT_OFF, code
    sys.stdout.write(f"{last}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), has_exchange=len(sys.argv) < 4)
