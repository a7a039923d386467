"""Writes the site: pages with their navigation, the search index, the stylesheet, copied files.

The output depends on the files of the repository alone: the same tree gives the same bytes.
"""

import html
import posixpath
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from string import Template

import msgspec
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]  # no types

from scripts.docs_site.markdown import Page, render
from scripts.docs_site.navigation import HOME, Section, sections
from scripts.docs_site.pages import Tree

__all__ = ["build"]

_ASSETS = Path(__file__).resolve().parent / "assets"
_TEMPLATE = Template((_ASSETS / "page.html").read_text(encoding="utf-8"))
_NAME = "GoQueue"
_CONTENTS_LEVELS = (2, 3)


def build(tree: Tree, folder: Path) -> tuple[Page, ...]:
    """Write the site into a folder, which is replaced; raises PageInvalid."""
    pages = tuple(render(path, tree) for path in tree.page_paths())
    order = sections(pages)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    neighbours = _neighbours(pages, order)
    for page in pages:
        file = folder / page.url
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_document(page, order, neighbours[page.url]), encoding="utf-8")
        for target in page.targets:
            if target.copied_from is not None:
                copied = folder / target.url
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(target.copied_from, copied)
    (folder / "site.css").write_text(_stylesheet(), encoding="utf-8")
    for asset in ("search.js", "icon.svg"):
        shutil.copyfile(_ASSETS / asset, folder / asset)
    (folder / "search-index.js").write_bytes(_search_index(pages))
    return pages


def _neighbours(
    pages: Sequence[Page], order: Sequence[Section]
) -> dict[str, tuple[Page | None, Page | None]]:
    """The page before and the page after each page, in the order of the navigation."""
    home = next(page for page in pages if page.path == HOME)
    listed = [None, home, *(page for section in order for page in section.pages), None]
    before = {after.url: first for first, after in pairwise(listed) if after is not None}
    after = {first.url: second for first, second in pairwise(listed) if first is not None}
    return {page.url: (before[page.url], after[page.url]) for page in pages}


def _document(
    page: Page, order: Sequence[Section], neighbours: tuple[Page | None, Page | None]
) -> str:
    previous, following = neighbours
    is_home = page.path == HOME
    contents = list(_contents(page))
    return _TEMPLATE.substitute(
        title=html.escape(_NAME if is_home else f"{page.title} · {_NAME}"),
        root=posixpath.relpath(".", posixpath.dirname(page.url) or "."),
        home=_relative(page, "index.html"),
        navigation="\n".join(_navigation(page, order)),
        body=page.body,
        # Without a list of headings its column belongs to the text.
        wide="" if contents else " wide",
        contents="\n".join(contents),
        previous=_neighbour(page, previous, "prev"),
        following=_neighbour(page, following, "next"),
    )


def _relative(page: Page, url: str) -> str:
    return posixpath.relpath(url, posixpath.dirname(page.url) or ".")


def _navigation(page: Page, order: Sequence[Section]) -> Iterator[str]:
    for section in order:
        # On the home page those that a new reader needs: the first two.
        is_open = page in section.pages or (page.path == HOME and section in order[:2])
        yield f"<details{' open' if is_open else ''}><summary>{section.title}</summary><ul>"
        for each in section.pages:
            here = ' aria-current="page"' if each is page else ""
            address = html.escape(_relative(page, each.url))
            yield f'<li><a href="{address}"{here}>{html.escape(each.title)}</a></li>'
        yield "</ul></details>"


def _contents(page: Page) -> Iterator[str]:
    listed = [each for each in page.headings if each.level in _CONTENTS_LEVELS]
    if len(listed) < 2:
        return
    yield "<p>On this page</p><ul>"
    for heading in listed:
        text = html.escape(heading.text)
        yield f'<li class="level-{heading.level}"><a href="#{heading.anchor}">{text}</a></li>'
    yield "</ul>"


def _neighbour(page: Page, other: Page | None, direction: str) -> str:
    if other is None:
        return ""
    address = html.escape(_relative(page, other.url))
    return (
        f'<a class="{direction}" rel="{direction}" href="{address}">{html.escape(other.title)}</a>'
    )


def _stylesheet() -> str:
    """The stylesheet, with the colours of code for light and dark screens."""
    ours = (_ASSETS / "site.css").read_text(encoding="utf-8")
    light = HtmlFormatter(style="friendly").get_style_defs(".code")
    dark = HtmlFormatter(style="monokai").get_style_defs(".code")
    dark = "\n".join(line for line in dark.splitlines() if line.startswith(".code ."))
    light = "\n".join(line for line in light.splitlines() if line.startswith(".code ."))
    return f"{ours}\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _search_index(pages: Sequence[Page]) -> bytes:
    """A script that holds all texts: a page opened from a disk may load scripts, but no data."""
    entries = [
        {
            "page": page.title,
            "heading": entry.heading,
            "url": page.url if index == 0 else f"{page.url}#{entry.anchor}",
            "text": entry.text,
            "defines": entry.defines,
        }
        for page in pages
        for index, entry in enumerate(page.entries)
    ]
    return b"window.goqueueSearchIndex = " + msgspec.json.encode(entries) + b";\n"
