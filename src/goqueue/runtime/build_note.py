"""The commit and time of the build, as recorded by the build.

In a checkout the code is newer than its last build: there the commit is the one that is checked
out. Never runs git: where a node runs there may be none, or another project's repository.
"""

import re
from contextlib import suppress
from pathlib import Path

import msgspec

import goqueue

__all__ = ["BuildNote", "read_build_note"]

_NOTE = "build.json"
_COMMIT = re.compile("[0-9a-f]{40,64}")
_SHORT = 12
_FILE_BYTES_MAX = 16 * 1024 * 1024


class BuildNote(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the build; `unknown` if they are missing."""

    commit: str = "unknown"
    time: str = "unknown"


def read_build_note(package: Path | None = None) -> BuildNote:
    """The note beside the package; what is unreadable or older than the code is `unknown`.

    Changes that are not committed are not seen.
    """
    folder = Path(goqueue.__file__).parent if package is None else package
    note = BuildNote()
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        note = msgspec.json.decode((folder / _NOTE).read_bytes(), type=BuildNote)
    root = folder.parent.parent
    if not _is_checkout(root):
        return note
    commit = _checked_out(root)[:_SHORT] or "unknown"
    return note if commit == note.commit else BuildNote(commit=commit)


def _is_checkout(root: Path) -> bool:
    """Whether the package is used from its own repository, not from one that encloses it."""
    return (root / ".git").exists() and '\nname = "goqueue"\n' in _read(root / "pyproject.toml")


def _checked_out(root: Path) -> str:
    """The commit that is checked out; empty if it cannot be told."""
    folder = root / ".git"
    if folder.is_file():
        # A second work tree: the file says where its state is.
        folder = root / _read(folder).removeprefix("gitdir:").strip()
    head = _read(folder / "HEAD").strip()
    if not head.startswith("ref: "):
        return head if _COMMIT.fullmatch(head) else ""
    name = head.removeprefix("ref: ").strip()
    if ".." in name:
        return ""
    common = folder / (_read(folder / "commondir").strip() or ".")
    for place in (folder, common):
        found = _read(place / name).strip()
        if _COMMIT.fullmatch(found):
            return found
    for line in _read(common / "packed-refs").splitlines():
        commit, _, named = line.partition(" ")
        if named == name and _COMMIT.fullmatch(commit):
            return commit
    return ""


def _read(path: Path) -> str:
    """The text of a file; empty if there is none."""
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            return ""
        return path.read_text("utf-8", "replace")
    except (OSError, ValueError):
        return ""
