"""Rules of the documents: what they name exists, and a reader can open what they refer to."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.sources import ROOT, Finding, Source

__all__ = [
    "finds_broken_links",
    "finds_missing_paths",
    "finds_outside_references",
    "finds_outside_references_in_code",
    "finds_retired_words",
]

_NAMED_PATH = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`")
_HEADING = "## Retired words"
_LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
# Milestones, sections and numbered items of plans that are not in the repository.
_OUTSIDE = re.compile(r"\bM\d+\b|§|\bthe mission\b|\btrap \d+\b", re.IGNORECASE)
# In documents "the contract" is such a paper, too; in code it is the HTTP API.
_OUTSIDE_A_DOCUMENT = re.compile(rf"{_OUTSIDE.pattern}|\bthe contract\b", re.IGNORECASE)


def finds_missing_paths(path: str, text: str) -> Iterator[Finding]:
    """Modules that a document names, by their path in the package or in the repository."""
    for number, line in enumerate(text.splitlines(), start=1):
        for named in _NAMED_PATH.findall(line):
            if not any((ROOT / base / named).exists() for base in ("", "src", "src/goqueue")):
                yield Finding(path, number, f"there is no {named}")


def finds_broken_links(path: str, text: str) -> Iterator[Finding]:
    """Links to files that do not exist, and to headings that their document does not have."""
    folder = (ROOT / path).parent
    for number, line in enumerate(text.splitlines(), start=1):
        for target, anchor in _LINK.findall(line):
            if "://" in target:
                continue
            linked = folder / target if target else ROOT / path
            if not linked.exists():
                yield Finding(path, number, f"{target} does not exist")
            elif anchor and anchor not in _anchors(linked.read_text(encoding="utf-8")):
                yield Finding(path, number, f"{target or path} has no heading #{anchor}")


def _anchors(text: str) -> list[str]:
    """The headings of a document as links name them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def finds_outside_references(path: str, text: str) -> Iterator[Finding]:
    """References to papers that a reader of the repository cannot open."""
    for number, line in enumerate(text.splitlines(), start=1):
        for found in _OUTSIDE_A_DOCUMENT.finditer(line):
            yield Finding(path, number, f"{found[0]} is not in the repository: say what it says")


def finds_outside_references_in_code(source: Source) -> Iterator[Finding]:
    """The same in docstrings."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in source.nodes:
        if isinstance(node, kinds) and (text := ast.get_docstring(node)) is not None:
            for found in _OUTSIDE.finditer(text):
                words = f"{found[0]} is not in the repository: say what it says"
                yield source.finding(node, words)


def finds_retired_words(source: Source) -> Iterator[Finding]:
    """Modules and classes that are named by a word which the glossary retired."""
    retired = _retired()
    names = [source.path.rpartition("/")[2].removesuffix(".py")]
    names += re.findall(r"^class (\w+)", source.text, re.MULTILINE)
    for name in names:
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}
        for word in sorted(words & retired):
            yield Finding(source.path, 1, f"{name}: the glossary retired {word}")


def _retired() -> frozenset[str]:
    text = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8").partition(_HEADING)[2]
    listed = text.strip().rpartition("\n\n")[2]
    return frozenset(word.strip() for word in listed.replace("\n", " ").split(","))
