"""One page: Markdown to HTML, with its headings and the texts that a search looks through.

CommonMark with tables, as repositories show it. Comments are left out; other HTML is refused, so
that a page looks the same here and in a repository. Code is coloured by Pygments, by classes that
the stylesheet of the site defines.

Invariant: the anchor of a heading is the one that repositories give it, so a link with an anchor
works in both.
"""

import html
import posixpath
import re
from collections.abc import Sequence

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight  # type: ignore[import-untyped]  # it ships no types
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]  # it ships no types
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # it ships no types
from pygments.util import ClassNotFound  # type: ignore[import-untyped]  # it ships no types

from scripts.docs_site.pages import Target, Tree

__all__ = ["Heading", "Page", "PageInvalid", "SearchEntry", "anchor_of", "render"]

_COMMENT = re.compile(r"\s*(<!--.*?-->\s*)+", re.DOTALL)
_FORMATTER = HtmlFormatter(nowrap=True)
# Languages by the names that our fences use.
_LEXERS = {"sh": "bash"}


class PageInvalid(Exception):
    """A page cannot become HTML, or links to a file that does not exist."""


class Heading(msgspec.Struct, frozen=True):
    """A heading and its anchor; level 1 is the title of the page."""

    level: int
    text: str
    anchor: str


class SearchEntry(msgspec.Struct, frozen=True):
    """The text below one heading; `defines` are the names that its tables explain."""

    heading: str
    anchor: str
    text: str
    defines: tuple[str, ...] = ()


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the site."""

    path: str
    url: str
    title: str
    body: str
    headings: tuple[Heading, ...]
    entries: tuple[SearchEntry, ...]
    # Targets of relative links, in order; those with a file are copied into the site.
    targets: tuple[Target, ...]


def anchor_of(text: str) -> str:
    """The anchor of a heading, without regard to earlier headings of the same text."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def render(path: str, tree: Tree) -> Page:
    """The page of a Markdown file; raises PageInvalid."""
    return _Renderer(path, tree).render()


class _Renderer:
    """Renders one page."""

    def __init__(self, path: str, tree: Tree) -> None:
        self._path = path
        self._tree = tree
        self._url = tree.url(path)
        self._headings: list[Heading] = []
        self._targets: list[Target] = []
        self._markdown = MarkdownIt("commonmark", {"html": True}).enable("table")

    def render(self) -> Page:
        tokens = self._markdown.parse(self._tree.read(self._path))
        for position, token in enumerate(tokens):
            if token.type == "heading_open":
                self._add_heading(token, tokens[position + 1])
            elif token.type == "html_block":
                self._drop_comment(token)
            elif token.type == "fence":
                self._colour(token)
            for child in token.children or ():
                self._rewrite(child)
        if not self._headings or self._headings[0].level != 1:
            raise PageInvalid(f"{self._path}: does not begin with a title")
        body = self._markdown.renderer.render(tokens, self._markdown.options, {})
        return Page(
            path=self._path,
            url=self._url,
            title=self._headings[0].text,
            body=_scrollable_tables(body),
            headings=tuple(self._headings),
            entries=tuple(self._entries(tokens)),
            targets=tuple(self._targets),
        )

    def _add_heading(self, opening: Token, inline: Token) -> None:
        text = _plain(inline)
        anchor = anchor_of(text)
        same = sum(
            re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", each.anchor) is not None
            for each in self._headings
        )
        if same:
            anchor = f"{anchor}-{same}"
        opening.attrSet("id", anchor)
        self._headings.append(Heading(int(opening.tag[1]), text, anchor))
        if opening.tag in ("h2", "h3"):
            link = Token("html_inline", "", 0)
            link.content = f' <a class="anchor" href="#{anchor}" aria-label="Link">#</a>'
            link.meta = {"ours": True}
            assert inline.children is not None
            inline.children.append(link)

    def _drop_comment(self, token: Token) -> None:
        if token.meta.get("ours"):
            return
        if _COMMENT.fullmatch(token.content) is None:
            raise PageInvalid(f"{self._path}: has HTML: {token.content.strip()[:60]}")
        token.content = ""

    def _colour(self, token: Token) -> None:
        language = token.info.strip()
        try:
            lexer = get_lexer_by_name(_LEXERS.get(language, language or "text"))
        except ClassNotFound:
            raise PageInvalid(f"{self._path}: nobody knows the language {language}") from None
        token.type = "html_block"
        token.meta = {"ours": True}
        coloured = highlight(token.content, lexer, _FORMATTER)
        token.content = f'<pre class="code"><code>{coloured}</code></pre>\n'

    def _rewrite(self, token: Token) -> None:
        match token.type:
            case "html_inline":
                self._drop_comment(token)
            case "link_open":
                token.attrSet("href", self._address(str(token.attrGet("href"))))
            case "image":
                token.attrSet("src", self._address(str(token.attrGet("src"))))
                token.attrSet("loading", "lazy")

    def _address(self, link: str) -> str:
        """Where a link leads in the site: relative, so that the site works below any address."""
        path, mark, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link) or not path:
            return link
        target = self._tree.target(self._path, path)
        if target is None:
            raise PageInvalid(f"{self._path}: links to {path}, which does not exist")
        self._targets.append(target)
        relative = posixpath.relpath(target.url, posixpath.dirname(self._url) or ".")
        return f"{relative}{mark}{anchor}"

    def _entries(self, tokens: Sequence[Token]) -> list[SearchEntry]:
        """The texts below each heading; code counts as text."""
        texts: list[list[str]] = []
        names: list[list[str]] = []
        is_heading = is_first_cell = False
        for token in tokens:
            match token.type:
                case "heading_open":
                    texts.append([])
                    names.append([])
                    is_heading = True
                case "heading_close":
                    is_heading = False
                case "tr_open":
                    is_first_cell = True
                case "td_close":
                    is_first_cell = False
                case "inline" if texts and not is_heading:
                    texts[-1].append(_plain(token))
                    if is_first_cell:
                        names[-1] += _code(token)
                case "html_block" if texts:
                    texts[-1].append(html.unescape(re.sub(r"<[^>]+>", "", token.content)))
        return [
            SearchEntry(
                heading.text, heading.anchor, " ".join(" ".join(below).split()), tuple(defined)
            )
            for heading, below, defined in zip(self._headings, texts, names, strict=True)
        ]


def _code(inline: Token) -> list[str]:
    return [child.content for child in inline.children or () if child.type == "code_inline"]


def _plain(inline: Token) -> str:
    """The text of a line without its markup."""
    parts = []
    for child in inline.children or ():
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type == "image":
            parts.append(child.content)
    return "".join(parts).strip()


def _scrollable_tables(body: str) -> str:
    """A wide table scrolls by itself, not the page."""
    opened = body.replace("<table>", '<div class="table"><table>')
    return opened.replace("</table>", "</table></div>")
