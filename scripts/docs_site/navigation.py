"""The order of the pages: sections by folder, pages within them as docs/README.md links to them.

A page that docs/README.md does not name comes last in its section, so a new page is in the
navigation at once and gets its place later.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from scripts.docs_site.markdown import Page

__all__ = ["HOME", "Section", "sections"]

HOME = "docs/README.md"

# Sections by the folder below docs, in the order in which readers need them.
_SECTIONS = {
    "": "Start",
    "guides": "Guides",
    "migration": "Coming from",
    "reference": "Reference",
    "development": "Development",
    "adr": "Decisions",
}
# Pages outside of their folder's section.
_INSIDE = ("docs/ARCHITECTURE.md", "docs/GLOSSARY.md", "CONTRIBUTING.md", "CHANGELOG.md")
_FIGURES = ("docs/performance.md",)


class Section(msgspec.Struct, frozen=True):
    """A heading of the navigation and its pages, in order."""

    title: str
    pages: tuple[Page, ...]


def sections(pages: Iterable[Page]) -> tuple[Section, ...]:
    """All pages but the home page, in order; sections without pages are left out."""
    known = {page.path: page for page in pages}
    order = _order(known[HOME])
    titles = list(dict.fromkeys((*_SECTIONS.values(), *map(_title, known))))
    found = []
    for title in titles:
        inside = [page for path, page in known.items() if _title(path) == title and path != HOME]
        if inside:
            inside.sort(key=lambda page: (order.get(page.url, len(order)), page.path))
            found.append(Section(title, tuple(inside)))
    return tuple(found)


def _order(home: Page) -> dict[str, int]:
    """The rank of each page that the home page links to, by its address."""
    urls = dict.fromkeys(target.url for target in home.targets)
    return {url: rank for rank, url in enumerate(urls)}


def _title(path: str) -> str:
    """The section of a page; a folder without a title of its own is called by its name."""
    if path in _INSIDE:
        return _SECTIONS["development"]
    if path in _FIGURES:
        return _SECTIONS["reference"]
    folder = PurePosixPath(path).relative_to("docs").parts[:-1]
    name = folder[0] if folder else ""
    return _SECTIONS.get(name, name.capitalize())
