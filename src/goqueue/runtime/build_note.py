"""Which commit was built and when, as the build wrote it down.

Never asks git: where a node runs there may be none, or one of another project.
"""

from pathlib import Path

import msgspec

import goqueue

__all__ = ["BuildNote", "read_build_note"]

_NOTE = "build.json"


class BuildNote(msgspec.Struct, frozen=True, kw_only=True):
    """What the build knew; `unknown` where it knew nothing."""

    commit: str = "unknown"
    time: str = "unknown"


def read_build_note(package: Path | None = None) -> BuildNote:
    """The note beside the package; what cannot be read is unknown."""
    folder = Path(goqueue.__file__).parent if package is None else package
    try:
        return msgspec.json.decode((folder / _NOTE).read_bytes(), type=BuildNote)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return BuildNote()
