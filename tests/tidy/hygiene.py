"""Rules against what hides trouble: swallowed errors, silent suppressions, unsynced renames."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.tidy.sources import Finding, Source

__all__ = [
    "finds_machine_paths",
    "finds_renames",
    "finds_suppressions_without_reason",
    "finds_swallowed_errors",
]

# The only file that makes the system call. Storage reaches it through the file system that it is
# handed, so the simulator sees every rename and loses those whose directory was not synced.
RENAMING_FILE = "src/goqueue/runtime/os_files.py"
_RENAMING_ROOMS = ("storage", "sim")

_RENAMES = ("rename", "renames", "replace", "link")
_BLIND = ("Exception", "BaseException")

_DIRECTIVE = re.compile(
    r"#\s*(?:"
    r"(?:ruff:\s*|flake8:\s*)?noqa(?::\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?"
    r"|type:\s*ignore(?:\[[^\]]*\])?"
    r"|mypy:\s*[\w-]+(?:=\S+)?"
    r"|pragma:\s*no cover"
    r"|fmt:\s*(?:off|skip)"
    r"|nosec(?:\s+[A-Z]\d+)?"
    r")"
)
_REASON_WORDS_MIN = 2

_MACHINE_PATH = re.compile(
    r"(?<![\w.~)}\]>*-])/(?:home|Users|root|mnt|media|workspaces?|work)/(?!\.\.\.)"
)


def finds_swallowed_errors(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield source.finding(node, "name the error: a bare except hides bugs")
            elif _is_blind(node.type) and all(map(_does_nothing, node.body)):
                yield source.finding(node, "an error is an event or a bug; never pass over it")
        elif isinstance(node, ast.Call) and _called(node) == "suppress":
            if any(map(_is_blind, node.args)):
                yield source.finding(node, "an error is an event or a bug; never suppress all")


def finds_renames(source: Source) -> Iterator[Finding]:
    """Names change by storage alone: a rename without syncs is undone by a power cut."""
    if source.path == RENAMING_FILE:
        return
    is_storage = source.is_package and source.room in _RENAMING_ROOMS
    for node in source.nodes:
        is_attribute = (
            isinstance(node, ast.Attribute)
            and node.attr in _RENAMES
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
        )
        is_call = isinstance(node, ast.Call) and _called(node) in ("rename", "move")
        is_import = (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and any(alias.name in _RENAMES for alias in node.names)
        )
        if is_attribute or is_import or (is_call and not is_storage):
            yield source.finding(node, "only storage renames, through the file system it is handed")


def finds_suppressions_without_reason(source: Source) -> Iterator[Finding]:
    if not _DIRECTIVE.search(source.text):
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and _DIRECTIVE.search(token.string):
            reason = _DIRECTIVE.sub(" ", token.string)
            if len(re.findall(r"[A-Za-z]{2,}", reason)) < _REASON_WORDS_MIN:
                words = "a suppression carries its reason on the same line"
                yield Finding(source.path, token.start[0], words)


def finds_machine_paths(path: str, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), start=1):
        if _MACHINE_PATH.search(line):
            yield Finding(path, number, "this path exists on one machine only")


def _is_blind(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return any(map(_is_blind, node.elts))
    return isinstance(node, ast.Name) and node.id in _BLIND


def _does_nothing(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass | ast.Continue)


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
