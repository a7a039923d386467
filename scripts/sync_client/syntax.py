"""What the generator reads from the syntax tree of a module: names, members, parameters."""

import ast
from collections.abc import Iterator, Mapping

import msgspec

__all__ = [
    "Function",
    "Origin",
    "Untranslatable",
    "forwarded",
    "imported",
    "is_for_types",
    "members_of",
    "names_in",
    "origins",
    "parameters",
    "shape",
    "union",
    "unquoted",
]

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Untranslatable(Exception):
    """The async client has something that has no form in the sync client yet."""


class Origin(msgspec.Struct, frozen=True):
    """Where a name comes from: `from module import name as alias`, or `import module as alias`."""

    module: str
    name: str | None
    alias: str
    is_for_types: bool = False


def origins(tree: ast.Module, module: str) -> Iterator[tuple[str, Origin]]:
    """Where each name of a module comes from."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, Origin(module, node.name, node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, Origin(module, target.id, target.id)
        elif is_for_types(node):
            assert isinstance(node, ast.If)
            for each in node.body:
                yield from imported(each, is_for_types=True)
        else:
            yield from imported(node)


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(node: ast.stmt, *, is_for_types: bool = False) -> Iterator[tuple[str, Origin]]:
    if isinstance(node, ast.ImportFrom):
        for each in node.names:
            alias = each.asname or each.name
            yield alias, Origin(node.module or "", each.name, alias, is_for_types)
    elif isinstance(node, ast.Import):
        for each in node.names:
            alias = each.asname or each.name
            yield alias, Origin(each.name, None, alias, is_for_types)


def members_of(node: ast.ClassDef) -> dict[str, list[ast.stmt]]:
    """Fields, attributes and methods by name, in order; an overloaded method is several."""
    bases = [ast.unparse(base) for base in node.bases]
    if bases not in ([], ["msgspec.Struct"]):
        raise Untranslatable(f"{node.name} inherits members from {', '.join(bases)}")
    members: dict[str, list[ast.stmt]] = {}
    for each in node.body:
        if isinstance(each, Function):
            members.setdefault(each.name, []).append(each)
            if each.name == "__init__":
                members.update(_attributes(each))
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            members[each.target.id] = [each]
        elif not (isinstance(each, ast.Expr) or _is_slots(each)):
            raise Untranslatable(f"{node.name}: {ast.unparse(each).splitlines()[0]}")
    return members


def _is_slots(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__"


def _attributes(init: Function) -> Iterator[tuple[str, list[ast.stmt]]]:
    for each in ast.walk(init):
        if isinstance(each, ast.Assign | ast.AnnAssign):
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                name = target.attr if isinstance(target, ast.Attribute) else "_"
                if not name.startswith("_"):
                    yield name, [each]


def shape(given: ast.arguments) -> Iterator[tuple[str, str]]:
    """Each parameter with its kind, annotation and default."""
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + [*given.defaults]
    for each, default in zip(positional, defaults, strict=True):
        yield each.arg, f"{ast.unparse(each)} = {default and ast.unparse(default)}"
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield each.arg, f"*, {ast.unparse(each)} = {default and ast.unparse(default)}"
    for stars, rest in (("*", given.vararg), ("**", given.kwarg)):
        if rest is not None:
            yield rest.arg, f"{stars}{ast.unparse(rest)}"


def parameters(given: ast.arguments) -> list[ast.arg]:
    rest = [each for each in (given.vararg, given.kwarg) if each is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]


def forwarded(given: ast.arguments, conversions: Mapping[str, str] | None = None) -> str:
    """The arguments of a call that hands on all that a method was given."""
    as_given = conversions or {}
    positional = [each.arg for each in (*given.posonlyargs, *given.args)][1:]
    words = [as_given.get(name, name) for name in positional]
    words += [f"*{given.vararg.arg}"] if given.vararg else []
    words += [f"{each.arg}={as_given.get(each.arg, each.arg)}" for each in given.kwonlyargs]
    words += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return ", ".join(words)


def unquoted(annotation: ast.expr) -> ast.expr:
    """The expression that a quoted annotation holds."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def union(annotation: ast.expr) -> list[str]:
    """The members of `A | B | None`."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*union(annotation.left), *union(annotation.right)]
    return [ast.unparse(annotation)]


def names_in(expression: ast.AST) -> list[str]:
    """The names that an expression uses, in order, each once."""
    names = [each.id for each in ast.walk(expression) if isinstance(each, ast.Name)]
    return list(dict.fromkeys(names))
