"""Files that hold a secret or a private key: their modes, and reading them.

A file that everybody on the machine can read is no secret: it is refused. One that its group can
read is accepted with a warning, because orchestrators mount secrets so. Links are followed: that is
how they replace them.
"""

import os
import stat

from goqueue.model import Secret

__all__ = ["SecretFileUnusable", "check_private", "read_secret_file"]

_BYTES_MAX = 64 * 1024


class SecretFileUnusable(Exception):
    """Why a file is not used; the text continues the name of the file."""


def read_secret_file(path: str, lines_max: int = 1) -> Secret:
    """The content without white space around its lines; raises SecretFileUnusable."""
    check_private(path)
    try:
        with open(path, "rb") as file:
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise SecretFileUnusable(f"cannot be read: {error.strerror}") from None
    try:
        text = content.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    lines = [line.strip() for line in text.split("\n")]
    is_visible = all(line and line.isprintable() for line in lines)
    if not is_visible or len(lines) > lines_max or len(content) > _BYTES_MAX:
        most = "one line" if lines_max == 1 else f"one to {lines_max} lines"
        raise SecretFileUnusable(f"does not hold {most} of visible ASCII characters")
    return Secret("\n".join(lines))


def check_private(path: str) -> str:
    """Raise SecretFileUnusable if everybody can use the file; a warning if its group can."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such path"
        raise SecretFileUnusable(f"cannot be read: {reason}") from None
    if not stat.S_ISREG(mode):
        raise SecretFileUnusable("is not a regular file")
    if mode & 0o007:
        raise SecretFileUnusable(f"is open to every user of the machine: chmod 600 {path}")
    return f"{path} can be used by its group: chmod 600 is safer" if mode & 0o070 else ""
