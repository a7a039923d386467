"""A data directory, held by one process at a time."""

import errno
import fcntl
import os
import secrets
import stat
from contextlib import suppress

from goqueue.runtime.os_files import OsFileSystem
from goqueue.storage import StagedLogs, atomic_write

__all__ = ["DataDirectory", "DataDirectoryUnusable"]

_LOCK_FILE = "lock"
_KEY_FILE = "receipt-key"
_SEAL_FILE = "node-secret"
_DIRECTORY_FILE = "directory-id"
_KEY_BYTES = 32
_DIRECTORY_BYTES = 16
# What the lock file holds after the id of a node, and after its clean stop instead of that.
_NODE = b" node\n"
_CLEAN = b"stopped\n"


class DataDirectoryUnusable(Exception):
    """Why this process cannot use the data directory; the message is for the operator."""


class DataDirectory:
    """Created if absent, and locked until closed or until the process ends."""

    def __init__(self, root: str, *, may_be_converted: bool = False) -> None:
        """`may_be_converted`: the caller completes a replacement of journals that was cut short."""
        self._root = root
        try:
            _make_durably(root)
            self._directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileExistsError, NotADirectoryError):
            raise DataDirectoryUnusable(f"{root} is a file, not a directory") from None
        except OSError as error:
            raise DataDirectoryUnusable(
                f"cannot create the data directory {root}: {error.strerror}"
            ) from error
        # What the process before left in the lock file.
        self._left = b""
        self._has_node = False
        try:
            self._lock = self._take_lock()
        except BaseException:
            os.close(self._directory)
            raise
        if not may_be_converted and StagedLogs(OsFileSystem(root)).is_pending:
            self.close()
            raise DataDirectoryUnusable(
                f"journals of {root} are being replaced, and that was cut short: run the same "
                "`goqueue cluster` command again"
            )

    @property
    def root(self) -> str:
        return self._root

    def receipt_key(self) -> bytes:
        """The secret that signs receipts, created on first use; readable by this user only.

        It is in no log, so that a reader of the logs cannot forge a receipt. Losing it only
        invalidates outstanding receipts: their messages are delivered again.
        """
        return self._read_secret(_KEY_FILE)

    def node_secret(self) -> bytes:
        """The secret that seals verifiers of keys, created on first use; likewise in no log.

        Losing it makes the keys useless that were made before, for SQS clients only.
        """
        return self._read_secret(_SEAL_FILE)

    def directory_id(self) -> str:
        """What this directory is called in a cluster, created on first use, in hexadecimal.

        A directory that was lost comes back as another one: it forgot what it promised.
        """
        return self._read_secret(_DIRECTORY_FILE, _DIRECTORY_BYTES).hex()

    def _read_secret(self, name: str, size: int = _KEY_BYTES) -> bytes:
        """Random bytes that only this user can read; created if the file has none."""
        path = os.path.join(self._root, name)
        try:
            with open(path, "rb") as file:
                key = file.read()
            if len(key) == size:
                return key
        except FileNotFoundError:
            pass
        key = secrets.token_bytes(size)
        others = os.umask(0o077)
        try:
            atomic_write(OsFileSystem(self._root), ".", name, key)
        finally:
            os.umask(others)
        return key

    @property
    def previous_end(self) -> str:
        """How the last node here ended: `clean`, `crash`, `none` if there was no other.

        Older versions did not record it: `unknown`.
        """
        if not self._left:
            return "none"
        if self._left.startswith(_CLEAN):
            return "clean"
        return "crash" if self._left.endswith(_NODE) else "unknown"

    def record_start(self) -> None:
        """A node runs here from now on: without `record_clean_stop` its end is a crash.

        Other processes leave the record of the last end as they found it.
        """
        self._has_node = True
        self._write(f"{os.getpid()}".encode() + _NODE)

    def record_clean_stop(self) -> None:
        """Everything is flushed: the next node need not recover anything."""
        self._write(_CLEAN)

    def _write(self, content: bytes) -> None:
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, content, 0)
            # A loss of power must not bring back what an earlier end said.
            os.fsync(self._lock)

    def close(self) -> None:
        if not self._has_node:
            self._write(self._left)
        os.close(self._lock)
        os.close(self._directory)

    def _take_lock(self) -> int:
        path = os.path.join(self._root, _LOCK_FILE)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags, 0o640)
        except OSError as error:
            hint = " (a link is not followed)" if error.errno == errno.ELOOP else ""
            raise DataDirectoryUnusable(f"cannot lock {path}: {error.strerror}{hint}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise DataDirectoryUnusable(f"cannot lock {path}: not a regular file")
        try:
            # Lock the directory itself, because a file may be removed. The file names the owner.
            fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.pread(descriptor, 32, 0).decode("ascii", "replace").split()
            holder = said[0] if said else "unknown"
            os.close(descriptor)
            raise DataDirectoryUnusable(
                f"{self._root} is in use by another process (pid {holder})"
            ) from None
        with suppress(OSError):
            # Only informs people and other processes; a full disk must not prevent the start.
            self._left = os.pread(descriptor, 32, 0)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor


def _make_durably(root: str) -> None:
    """Create a directory and its missing parents, durably."""
    parent = os.path.dirname(os.path.abspath(root))
    if not os.path.isdir(root):
        _make_durably(parent)
        os.mkdir(root, 0o750)
    try:
        # Also if it existed: its creator may have died before the sync.
        descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        # The parent belongs to another user, who created ours.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
