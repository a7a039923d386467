"""Rules of the core: it decides synchronously, from what it is handed, in an order that repeats.

A run of the simulator is a function of its seed only while all of these hold.
"""

import ast
import re
from collections.abc import Iterator

from tests.tidy.sources import Finding, Source

__all__ = [
    "finds_async_functions",
    "finds_float_times",
    "finds_forbidden_calls",
    "finds_forbidden_imports",
    "finds_module_state",
]

_FORBIDDEN_MODULES = (
    "asyncio",
    "concurrent",
    "contextvars",
    "datetime",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
    "weakref",
)

_FORBIDDEN_CALLS = {
    "hash": "differs between runs for text and bytes; use a crc",
    "id": "is an address, which differs between runs",
    "input": "waits",
    "open": "is for the shells; return an effect",
    "print": "is for the command line",
}

_CACHES = ("cache", "lru_cache")
_MUTABLE_TYPES = (
    "Counter",
    "OrderedDict",
    "array",
    "bytearray",
    "count",
    "defaultdict",
    "deque",
    "dict",
    "list",
    "set",
)
_MUTABLE_LITERALS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)

_TIME_NAME = re.compile(
    r"(^|_)(ns|ms|us|now|deadline|timestamp|instant|wall|deliver_at|interval|timeout)s?$"
)
_TIME_TYPES = ("Instant", "Timestamp")


def finds_async_functions(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield source.finding(node, "the core does not wait: return an effect")


def finds_forbidden_imports(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        for name in _imported_modules(node):
            if name.split(".")[0] in _FORBIDDEN_MODULES:
                yield source.finding(node, f"the core does not import {name}: have it handed in")


def finds_forbidden_calls(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            reason = _FORBIDDEN_CALLS.get(node.func.id)
            if reason is not None:
                yield source.finding(node, f"{node.func.id}() {reason}")
        elif isinstance(node, ast.FunctionDef) and node.name == "__del__":
            yield source.finding(node, "__del__ runs whenever the collector likes")


def finds_module_state(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.Global):
            yield source.finding(node, "no global statements: state belongs to an object")
        elif isinstance(node, ast.FunctionDef) and any(map(_is_cache, node.decorator_list)):
            yield source.finding(node, "a cached function is module state: pass the value on")
    for statement in _module_statements(source.tree.body):
        for name, value in _assignments(statement):
            if _is_mutable(value) and not name.isupper() and not name.startswith("__"):
                yield source.finding(
                    statement, f"{name} is module state: make it a constant or a field"
                )


def finds_float_times(source: Source) -> Iterator[Finding]:
    """Times are integers. Sees what a single expression shows; types do the rest."""
    words = "times are integers of nanoseconds: use // and whole numbers"
    for node in source.nodes:
        if isinstance(node, ast.BinOp):
            sides = [node.left, node.right]
            is_division = isinstance(node.op, ast.Div)
            if any(map(_is_time, sides)) and (is_division or any(map(_is_float, sides))):
                yield source.finding(node, words)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(_is_time, sides)) and any(map(_is_float, sides)):
                yield source.finding(node, words)
        elif isinstance(node, ast.AnnAssign) and _is_time(node.target):
            if _mentions_float(node.annotation):
                yield source.finding(node, words)
        elif isinstance(node, ast.arg) and _TIME_NAME.search(node.arg):
            if node.annotation is not None and _mentions_float(node.annotation):
                yield source.finding(node, words)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in _TIME_TYPES and any(map(_is_float, node.args)):
                yield source.finding(node, words)


def _imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [node.module]
    return []


def _module_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            yield from _module_statements(statement.body)
            yield from _module_statements(getattr(statement, "orelse", []))


def _assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        if isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.value


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return _last_name(value.func) in _MUTABLE_TYPES
    return isinstance(value, _MUTABLE_LITERALS)


def _is_cache(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return _last_name(called) in _CACHES


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_time(node: ast.expr) -> bool:
    return _TIME_NAME.search(_last_name(node)) is not None


def _is_float(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div) or _is_float(node.left) or _is_float(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def _mentions_float(annotation: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "float" for node in ast.walk(annotation))
