"""The rule that the core never walks a set: its order differs between runs.

Sees sets that one file shows to be sets: literals, calls, operators on them, and names and
attributes that are annotated or assigned as sets. Sorting, counting and asking for membership
are fine.
"""

import ast
from collections.abc import Iterator

import msgspec

from tests.tidy.sources import Finding, Source

__all__ = ["finds_walks_over_sets"]

_SET_TYPES = ("set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet")
_SET_METHODS = ("union", "intersection", "difference", "symmetric_difference")
_SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_WALKING_CALLS = ("list", "tuple", "iter", "enumerate", "map", "filter", "zip", "reversed", "dict")
_WORDS = "the order of a set differs between runs: sort it, or use a dict"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Binding(msgspec.Struct, frozen=True):
    """What an assignment says about one name or attribute."""

    target: ast.expr
    value: ast.expr | None
    annotation: ast.expr | None

    def is_set(self, names: frozenset[str]) -> bool:
        if self.annotation is not None and _is_set_type(self.annotation):
            return True
        return self.value is not None and _is_set(self.value, names, frozenset())


def finds_walks_over_sets(source: Source) -> Iterator[Finding]:
    attributes = _set_attributes(source)
    names = _set_names(source.tree, frozenset())
    yield from _walks(source, source.tree, names, attributes)


def _walks(
    source: Source, scope: ast.AST, names: frozenset[str], attributes: frozenset[str]
) -> Iterator[Finding]:
    for node in _own_nodes(scope):
        if isinstance(node, Function):
            yield from _walks(source, node, _set_names(node, names), attributes)
        for walked in _walked(node):
            if _is_set(walked, names, attributes):
                yield source.finding(walked, _WORDS)


def _walked(node: ast.AST) -> list[ast.expr]:
    """The expressions that this node walks over, in the order that they happen to have."""
    if isinstance(node, ast.For | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred | ast.YieldFrom):
        return [node.value]
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _WALKING_CALLS:
            return node.args
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in ("join", "extend"):
                return node.args
            if node.func.attr == "pop" and not node.args:
                return [node.func.value]
    return []


def _is_set(node: ast.expr, names: frozenset[str], attributes: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name):
            return name in attributes
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _SET_OPERATORS):
            return any(_is_set(side, names, attributes) or _is_view(side) for side in (left, right))
        case ast.Call(func=ast.Name(id=name)):
            return name in _SET_TYPES
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            is_operation = name in (*_SET_METHODS, "copy")
            return is_operation and _is_set(value, names, attributes)
        case _:
            return False


def _is_view(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("keys", "items")
    )


def _set_names(scope: ast.AST, outer: frozenset[str]) -> frozenset[str]:
    """Names that are sets in this scope: its own, and those of outer scopes that it keeps."""
    found = dict.fromkeys(outer)
    if isinstance(scope, Function):
        arguments = scope.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            found.pop(argument.arg, None)
            if argument.annotation is not None and _is_set_type(argument.annotation):
                found[argument.arg] = None
    for node in _own_nodes(scope):
        for binding in _bindings(node):
            if isinstance(binding.target, ast.Name):
                is_set = binding.is_set(frozenset(found))
                found.pop(binding.target.id, None)
                if is_set:
                    found[binding.target.id] = None
    return frozenset(found)


def _set_attributes(source: Source) -> frozenset[str]:
    """Attributes that are sets: fields of a class, and what is assigned to self."""
    found: dict[str, None] = {}
    for node in source.nodes:
        for binding in _bindings(node):
            if isinstance(binding.target, ast.Attribute) and binding.is_set(frozenset()):
                found[binding.target.attr] = None
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and _is_set_type(field.annotation):
                    if isinstance(field.target, ast.Name):
                        found[field.target.id] = None
    return frozenset(found)


def _bindings(node: ast.AST) -> list[_Binding]:
    if isinstance(node, ast.Assign):
        return [_Binding(target, node.value, None) for target in node.targets]
    if isinstance(node, ast.AnnAssign):
        return [_Binding(node.target, node.value, node.annotation)]
    return []


def _is_set_type(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.BinOp):
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    inner = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
    return name in _SET_TYPES


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Every node below, but nothing inside the functions that are found on the way."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, Function):
            yield from _own_nodes(child)
