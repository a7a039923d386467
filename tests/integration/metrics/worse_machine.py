"""A node on a machine that obeys: files in the folder FAULTS tell what goes wrong there.

`slow`: each sync takes a while. `broken`: syncs of logs of the topic that it names fail. `full`:
there is no space for the topic that it names. `grown`: the file system is twice as large.
Everything else is the node as it is.
"""

import errno
import os
import sys
import time
from pathlib import Path
from typing import Any

_FAULTS = Path(os.environ["FAULTS"])
_SLOW_S = 0.2


def _obeying(sync: Any) -> Any:  # noqa: ANN401 - whatever the module os has
    def obey(descriptor: int) -> None:
        if (_FAULTS / "slow").exists():
            time.sleep(_SLOW_S)
        broken = _FAULTS / "broken"
        if broken.exists():
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if f"/logs/{broken.read_text()}/" in path:
                raise OSError(errno.EIO, "the disk is broken")
        sync(descriptor)

    return obey


def _filling(pwrite: Any) -> Any:  # noqa: ANN401 - whatever the module os has
    def fill(descriptor: int, data: Any, position: int) -> object:  # noqa: ANN401 - as above
        full = _FAULTS / "full"
        if full.exists():
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if f"/logs/{full.read_text()}/" in path:
                raise OSError(errno.ENOSPC, "the disk is full")
        return pwrite(descriptor, data, position)

    return fill


def _growing(statvfs: Any) -> Any:  # noqa: ANN401 - whatever the module os has
    def grow(path: str) -> object:
        found = statvfs(path)
        if not (_FAULTS / "grown").exists():
            return found
        fields = list(found)
        fields[2] *= 2
        return os.statvfs_result(fields)

    return grow


def main() -> None:
    os.fsync = _obeying(os.fsync)
    os.fdatasync = _obeying(os.fdatasync)
    os.pwrite = _filling(os.pwrite)
    os.statvfs = _growing(os.statvfs)
    from goqueue.cli import main as goqueue
    from goqueue.runtime import OsFile, OsFileSystem
    from goqueue.storage import commit_in_turn

    # A group commit is one compiled call, which does not ask the module os; single calls do.
    patched: Any = OsFileSystem
    patched.commit = lambda _, commits: commit_in_turn(commits)
    patched = OsFile
    patched.write_all_at = lambda file, position, parts: file.write_at(position, b"".join(parts))
    sys.argv[0] = "goqueue"
    goqueue()


if __name__ == "__main__":
    main()
