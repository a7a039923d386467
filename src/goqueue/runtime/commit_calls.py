"""The interpreted twin of `commit_calls.h`: writes and syncs of several files.

Never compiled: `commit_calls.pxd` gives the same name to compiled modules as a C function, which
gives up the interpreter lock once for all of them.
"""

import errno
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from goqueue.records import Buffer

_SYNCS_AT_ONCE = 8
_PARTS_MAX = os.sysconf("SC_IOV_MAX")

# Starts threads only when it is used.
_threads = ThreadPoolExecutor(_SYNCS_AT_ONCE - 1, thread_name_prefix="goqueue-sync")


def commit_all(
    jobs: list[tuple[int, int, list[Buffer], bool]],
) -> list[tuple[int, int, int]]:
    """Write and sync files.

    Jobs are (descriptor, position, list of buffers, whether to sync); the outcomes are (error of
    the write, error of the sync, duration of the sync).
    """
    written = [_write(descriptor, position, parts) for descriptor, position, parts, _ in jobs]
    waiting = [index for index, job in enumerate(jobs) if job[3] and not written[index]]
    synced = dict(zip(waiting, _sync_all([jobs[index][0] for index in waiting]), strict=True))
    return [(written[index], *synced.get(index, (0, 0))) for index in range(len(jobs))]


def _write(descriptor: int, position: int, parts: list[Buffer]) -> int:
    try:
        for first in range(0, len(parts), _PARTS_MAX):
            position = _write_group(descriptor, position, parts[first : first + _PARTS_MAX])
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _write_group(descriptor: int, position: int, parts: list[Buffer]) -> int:
    """Write at most `IOV_MAX` buffers; the position behind them."""
    end = position + sum(len(part) for part in parts)
    while position < end:
        written = os.pwritev(descriptor, parts, position)
        if not written:
            raise OSError(errno.EIO, "the disk took no more bytes")
        position += written
        while parts and written >= len(parts[0]):
            written -= len(parts[0])
            parts = parts[1:]
        if written:
            parts = [memoryview(parts[0])[written:], *parts[1:]]
    return end


def _sync_all(descriptors: Sequence[int]) -> Sequence[tuple[int, int]]:
    """Sync files side by side, one of them in the calling thread."""
    others = [_threads.submit(_sync, descriptor) for descriptor in descriptors[1:]]
    first = [_sync(descriptor) for descriptor in descriptors[:1]]
    return first + [other.result() for other in others]


def _sync(descriptor: int) -> tuple[int, int]:
    began = time.monotonic_ns()
    number = 0
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        number = error.errno or errno.EIO
    return number, time.monotonic_ns() - began
