"""One home for every name on the wire: a copy of one in another module is found by its spelling."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.sources import Finding, Source

__all__ = ["finds_copied_wire_names"]

HOME = "src/goqueue/model/wire.py"
# Importing the package must not import the model; so the address stands where clients begin.
_ADDRESS_HOME = "src/goqueue/client/entry.py"
# The oracles of the simulator spell names by themselves, to notice when the broker spells another.
_INDEPENDENT = "src/goqueue/sim/truth/"

_NAME = re.compile(
    r"(?:\W\W)?gq\.[a-z-]*"
    r"|goqueue\.dlq\.[a-z-]*"
    r"|(?:application|text)/[\w.+-]+(?:;.*)?"
    r"|goqueue-(?:next-offset|high-watermark|last-stable-offset|log-start|aborted|trace-seed)"
    r"|traceparent|tracestate",
    re.IGNORECASE,
)
_ADDRESS = "http://127.0.0.1:8080"


def finds_copied_wire_names(source: Source) -> Iterator[Finding]:
    """Names of headers, keys, media types and the default address outside of their home."""
    if not source.is_package or source.path == HOME or source.path.startswith(_INDEPENDENT):
        return
    documentation = _documentation(source)
    for node in source.nodes:
        if not isinstance(node, ast.Constant) or node in documentation:
            continue
        text = node.value
        if isinstance(text, bytes):
            text = text.decode("latin-1")
        if not isinstance(text, str):
            continue
        if _NAME.fullmatch(text):
            yield source.finding(node, f"{text!r} stands in goqueue.model: import it from there")
        elif _ADDRESS in text and source.path != _ADDRESS_HOME:
            yield source.finding(node, "import DEFAULT_SERVER from goqueue.client.entry")


def _documentation(source: Source) -> list[ast.AST]:
    """The docstrings, which may name everything."""
    return [
        node.body[0].value
        for node in source.nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    ]
