"""Rules of the layout: few doors, whole concepts.

A folder below a room is worth its door with four modules; a path is short; the name of a file says
which one is meant.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.tidy.sources import Finding, Source

__all__ = ["finds_deep_modules", "finds_namesakes", "finds_small_folders"]

MODULES_MIN = 4
_DEPTH_MAX = {"gateways": 3}
# A command with a folder begins in its `command.py`; the sync client mirrors the other.
_MIRRORS = ("command.py", "client/sync/")


def finds_deep_modules(source: Source) -> Iterator[Finding]:
    path = source.path.removeprefix("src/goqueue/")
    depth_max = _DEPTH_MAX.get(path.partition("/")[0], 2)
    if path.count("/") > depth_max:
        yield Finding(source.path, 1, f"at most {depth_max} folders below goqueue")


def finds_small_folders(paths: Iterable[str]) -> Iterator[Finding]:
    """Folders below a room with fewer modules than a door is worth."""
    folders: dict[str, int] = defaultdict(int)
    for path in _modules(paths):
        folders[path.rpartition("/")[0]] += 1
    for folder, count in sorted(folders.items()):
        if "/" in folder and count < MODULES_MIN:
            yield Finding(folder, 1, f"{count} modules: they belong into the room")


def finds_namesakes(paths: Iterable[str]) -> Iterator[Finding]:
    """Two files of one name in a room."""
    seen: dict[tuple[str, str], str] = {}
    for path in sorted(_modules(paths)):
        if any(mirror in path for mirror in _MIRRORS):
            continue
        key = (path.partition("/")[0], path.rpartition("/")[2])
        if key in seen:
            yield Finding(path, 1, f"has the name of {seen[key]}")
        seen[key] = path


def _modules(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        inside = path.removeprefix("src/goqueue/")
        if "/" in inside and not inside.endswith(("__init__.py", "__main__.py")):
            yield inside
