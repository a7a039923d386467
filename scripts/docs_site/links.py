"""Checks a built site: every link inside leads somewhere, and nothing loads from outside.

Reads the HTML that was written, not the Markdown, so the navigation and generated links are checked
as well. Links to other sites are not followed.
"""

import posixpath
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["finds_broken_links"]

# Attributes by which a browser loads something while it shows the page.
_LOADED = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("source", "src"),
    ("iframe", "src"),
}


class _Document(HTMLParser):
    """The ids, links and loaded files of one HTML file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.repeated_ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                if value in self.ids:
                    self.repeated_ids.append(value)
                self.ids.add(value)
            elif (tag, name) in _LOADED:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def finds_broken_links(site: Path) -> Iterator[str]:
    """One line for each fault of the site in a folder."""
    documents = {
        path.relative_to(site).as_posix(): _Document(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
    }
    for page, document in documents.items():
        for name in document.repeated_ids:
            yield f"{page}: the id {name} occurs twice"
        for link in document.loaded:
            if urlsplit(link).scheme or link.startswith("//"):
                yield f"{page}: loads {link} from outside"
            elif not (site / _resolved(page, link)).is_file():
                yield f"{page}: loads {link}, which does not exist"
        for link in document.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            path = _resolved(page, parts.path) if parts.path else page
            if not (site / path).is_file():
                yield f"{page}: links to {link}, which does not exist"
            elif parts.fragment and unquote(parts.fragment) not in documents[path].ids:
                yield f"{page}: links to {link}, which has no such heading"


def _resolved(page: str, link: str) -> str:
    """The path of a relative link below the root of the site."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(link)))
