"""Rules of the documents: what they name is there, and what they retired is gone."""

import re
from collections.abc import Iterator

from tests.tidy.sources import ROOT, Finding, Source

__all__ = ["finds_missing_paths", "finds_retired_words"]

_NAMED_PATH = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`")
_HEADING = "## Retired words"


def finds_missing_paths(path: str, text: str) -> Iterator[Finding]:
    """Modules that a document names, by their path in the package or in the repository."""
    for number, line in enumerate(text.splitlines(), start=1):
        for named in _NAMED_PATH.findall(line):
            if not any((ROOT / base / named).exists() for base in ("", "src", "src/goqueue")):
                yield Finding(path, number, f"there is no {named}")


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
