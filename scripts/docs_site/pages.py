"""Which files become pages of the site, and the address of each.

Every Markdown file below docs is a page without being listed anywhere; so are CONTRIBUTING and
CHANGELOG. A README is the index of its folder. Other files of the repository that a page links to
are copied below `files`, pictures included.
"""

import posixpath
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

__all__ = ["ROOT", "Target", "Tree"]

ROOT = Path(__file__).resolve().parents[2]
_ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
_FILES = "files"


class Target(msgspec.Struct, frozen=True):
    """What a link leads to: its address in the site, and the file to copy there, if any."""

    url: str
    copied_from: Path | None = None


class Tree:
    """The files of the repository as the site sees them. Paths are relative to the repository."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root

    def page_paths(self) -> Iterator[str]:
        """The Markdown files that are pages, in the order of their paths."""
        found = sorted((self._root / "docs").rglob("*.md"))
        yield from (path.relative_to(self._root).as_posix() for path in found)
        yield from (name for name in _ROOT_PAGES if (self._root / name).exists())

    def read(self, path: str) -> str:
        return (self._root / path).read_text(encoding="utf-8")

    def url(self, path: str) -> str:
        """The address of a page: lower case, below the site's root as below docs."""
        relative = PurePosixPath(path)
        if relative.parts[0] == "docs":
            relative = relative.relative_to("docs")
        stem = relative.stem.lower()
        return str(relative.with_name("index.html" if stem == "readme" else f"{stem}.html"))

    def target(self, page: str, link: str) -> Target | None:
        """What a relative link on a page leads to; None if there is no such file."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
        file = self._root / path
        if path.startswith("..") or not file.is_file():
            return None
        if path == "README.md":
            return Target("index.html")
        if path.endswith(".md"):
            is_page = path.startswith("docs/") or path in _ROOT_PAGES
            return Target(self.url(path)) if is_page else Target(f"{_FILES}/{path}", file)
        return Target(f"{_FILES}/{path}", file)
