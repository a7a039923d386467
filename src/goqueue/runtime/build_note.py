"""The commit and time of the build, as recorded by the build.

Never runs git: where a node runs there may be none, or another project's repository.
"""

from pathlib import Path

import msgspec

import goqueue

__all__ = ["BuildNote", "read_build_note"]

_NOTE = "build.json"


class BuildNote(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the build; `unknown` if they are missing."""

    commit: str = "unknown"
    time: str = "unknown"


def read_build_note(package: Path | None = None) -> BuildNote:
    """The note beside the package; unreadable facts are `unknown`."""
    folder = Path(goqueue.__file__).parent if package is None else package
    try:
        return msgspec.json.decode((folder / _NOTE).read_bytes(), type=BuildNote)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return BuildNote()
