"""Rules of size and naming: a listing of the tree should read as the glossary."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.sources import Finding, Source

__all__ = [
    "finds_banned_class_names",
    "finds_banned_file_names",
    "finds_long_files",
    "finds_long_functions",
    "finds_participles",
]

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 600

_BANNED_CLASS = re.compile(
    r"(Manager|Helper|Helpers|Util|Utils|Service|Impl|Handler|Processor|Base|Info|Data)$"
)
_PARTICIPLE = re.compile(r"[a-z]ing$")
# Nouns of the field, states, and errors and commands that end in another word.
_NOUN = re.compile(r"(ring|setting|routing|tracing|pending|missing|serving)$")
_BANNED_FILE = re.compile(
    r"(^|_)(utils?|common|misc|helpers?|manager|handler|processor|impl|part\d+|types|base)\.py$"
)


def finds_long_functions(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                words = f"{node.name} has {lines} lines, the limit is {FUNCTION_LINES_MAX}"
                yield source.finding(node, f"{words}: move straight-line work out")


def finds_long_files(source: Source) -> Iterator[Finding]:
    lines = len(source.text.splitlines())
    if lines > FILE_LINES_MAX:
        words = f"{lines} lines, the limit is {FILE_LINES_MAX}: which second noun is in here?"
        yield Finding(source.path, lines, words)


def finds_banned_class_names(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            suffix = _BANNED_CLASS.search(node.name)
            if suffix is not None:
                yield source.finding(node, f"{node.name}: what is it, other than a {suffix[0]}?")


def finds_participles(source: Source) -> Iterator[Finding]:
    """Modules and classes are things: `PartitionSender`, not `Sending`."""
    name = source.path.rsplit("/", 1)[-1].removesuffix(".py")
    if _PARTICIPLE.search(name) and not _NOUN.search(name):
        yield Finding(source.path, 1, f"{name}: name the thing, not what it does")
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and _PARTICIPLE.search(node.name):
            if not _NOUN.search(node.name.lower()):
                yield source.finding(node, f"{node.name}: name the thing, not what it does")


def finds_banned_file_names(source: Source) -> Iterator[Finding]:
    name = source.path.rsplit("/", 1)[-1]
    if _BANNED_FILE.search(name):
        yield Finding(source.path, 1, f"{name} is not a noun of the glossary")
