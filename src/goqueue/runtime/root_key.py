"""The root key: an admin key that exists as long as the process, in no journal and in no list.

It comes by a file or by the environment. The memory of a process that holds it, or another secret,
is neither written to a core dump nor shown to other processes of its user.
"""

import ctypes
import re
import sys

from goqueue.runtime.settings import ApiSettings

__all__ = ["RootKeyUnusable", "forbid_memory_dumps", "read_root_key"]

_CHARACTERS_MIN = 32
# Of <linux/prctl.h>.
_PR_SET_DUMPABLE = 4
_KEY = re.compile(r"[!-~]{32,4096}")


class RootKeyUnusable(Exception):
    """Why there is no root key although one was configured; the message is for the operator."""


def read_root_key(settings: ApiSettings) -> bytes | None:
    """The configured root key; None if none is. Raises RootKeyUnusable."""
    if not settings.root_key:
        return None
    key = settings.root_key.reveal()
    if not _KEY.fullmatch(key):
        raise RootKeyUnusable(
            f"api.root_key is not a key: it needs {_CHARACTERS_MIN} or more visible characters, "
            "and no spaces"
        )
    return key.encode()


def forbid_memory_dumps() -> None:
    """Keep the memory and the first environment of this process to itself, where Linux can.

    A limit of zero on core files would not do: it is ignored by dumps into a pipe.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
