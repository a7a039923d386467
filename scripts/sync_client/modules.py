"""The sync modules: what is kept of them, and what is written into them."""

import ast
import re
from collections.abc import Iterator, Mapping

from scripts.sync_client.rules import RULES, Rules
from scripts.sync_client.syntax import (
    Origin,
    Untranslatable,
    imported,
    is_for_types,
    members_of,
    origins,
)
from scripts.sync_client.wrapper import PACKAGE, AsyncClass, Wrapper

__all__ = ["generate"]

_MARKER = re.compile(r"^    # Generated from (\w+) by `make sync-client`\.$", re.MULTILINE)
_HEADER = "    # Generated from {} by `make sync-client`."


def generate(
    sync: Mapping[str, str], asynchronous: Mapping[str, str], rules: Rules = RULES
) -> dict[str, str]:
    """The sync modules by name, not yet formatted, from what they are and from the async ones."""
    classes = _async_classes(asynchronous)
    wrappers: dict[str, Origin] = {}
    for module, text in sync.items():
        for name, wrapped in _marked(module, text):
            if wrapped not in classes:
                raise Untranslatable(f"{name} is generated from {wrapped}, which is not there")
            if wrapped in wrappers:
                raise Untranslatable(f"{wrapped} is wrapped twice")
            wrappers[wrapped] = Origin(f"{PACKAGE}.sync.{module}", name, name)
    _check_rules(rules, classes)
    return {
        module: _Module(module, text, classes, wrappers, rules).generated()
        for module, text in sync.items()
    }


def _async_classes(modules: Mapping[str, str]) -> dict[str, AsyncClass]:
    classes: dict[str, AsyncClass] = {}
    for module, text in modules.items():
        tree = ast.parse(text)
        found = dict(origins(tree, f"{PACKAGE}.{module}"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                if node.name in classes and not node.name.startswith("_"):
                    raise Untranslatable(f"there are two classes {node.name}")
                classes[node.name] = AsyncClass(node, found)
    return classes


def _marked(module: str, text: str) -> Iterator[tuple[str, str]]:
    """The generated classes of a sync module, each with the class that it wraps."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            found = _MARKER.findall("\n".join(_lines_of(node, text)))
            if len(found) > 1:
                raise Untranslatable(f"{module}: {node.name} has two markers")
            if found:
                yield node.name, found[0]


def _lines_of(node: ast.ClassDef, text: str) -> list[str]:
    """The lines of a class, with comments that end it."""
    lines = text.splitlines()
    last = node.end_lineno or node.lineno
    while last < len(lines) and (not lines[last].strip() or lines[last].startswith("    ")):
        last += 1
    return lines[node.lineno - 1 : last]


def _check_rules(rules: Rules, classes: Mapping[str, AsyncClass]) -> None:
    members = [(name, member) for name in rules.hidden for member in rules.hidden[name]]
    for method in rules.differing:
        name, _, member = method.partition(".")
        members.append((name, member))
    for name, member in members:
        if name not in classes or member not in members_of(classes[name].node):
            raise Untranslatable(f"the rules name {name}.{member}, which is not there")


class _Module:
    """One sync module: the text that is kept, and what is written into it."""

    def __init__(
        self,
        name: str,
        text: str,
        classes: Mapping[str, AsyncClass],
        wrappers: Mapping[str, Origin],
        rules: Rules,
    ) -> None:
        self._name = f"{PACKAGE}.sync.{name}"
        self._text = text
        self._classes = classes
        self._wrappers = wrappers
        self._rules = rules
        self._needed: dict[str, Origin] = {}

    def generated(self) -> str:
        tree = ast.parse(self._text)
        lines = self._text.splitlines()
        # From the end, so that the numbers of the lines before stay true.
        for node in reversed(tree.body):
            if isinstance(node, ast.ClassDef):
                old = _lines_of(node, self._text)
                start = node.lineno - 1
                lines[start : start + len(old)] = self._class(old)
        first, last = _import_lines(self._name, tree)
        lines[first:last] = self._imports(tree)
        return "\n".join(lines) + "\n"

    def _class(self, old: list[str]) -> list[str]:
        text = "\n".join(old)
        marker = _MARKER.search(text)
        if marker is None:
            return old
        wrapped = marker[1]
        by_hand = ast.parse(text[: marker.start()] + "\n    ...").body[0]
        assert isinstance(by_hand, ast.ClassDef)
        wrapper = Wrapper(by_hand, self._classes[wrapped], self._wrappers, self._rules)
        body = wrapper.generated()
        for name, origin in wrapper.needed.items():
            if self._needed.setdefault(name, origin) != origin:
                raise Untranslatable(f"{name} in {self._name} would mean two things")
        kept = text[: marker.start()].rstrip().splitlines()
        gap = [""] if len(kept) > 1 else []
        return [*kept, *gap, _HEADER.format(wrapped), *gap, *body, "", ""]

    def _imports(self, tree: ast.Module) -> list[str]:
        """What the module imported, unless it comes from elsewhere now, and what it needs."""
        present: dict[str, Origin] = {}
        for node in tree.body:
            each = node.body if isinstance(node, ast.If) and is_for_types(node) else [node]
            for statement in each:
                present.update(imported(statement, is_for_types=statement is not node))
        present |= self._needed
        used = [origin for origin in present.values() if origin.module != self._name]
        if any(origin.is_for_types for origin in used):
            used.append(Origin("typing", "TYPE_CHECKING", "TYPE_CHECKING"))
        lines = ["", *(_statement(origin) for origin in used if not origin.is_for_types)]
        for_types = [f"    {_statement(origin)}" for origin in used if origin.is_for_types]
        return [*lines, *(["if TYPE_CHECKING:", *for_types] if for_types else []), ""]


def _import_lines(name: str, tree: ast.Module) -> tuple[int, int]:
    """Where the imports of a module stand: between its docstring and its `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return tree.body[0].end_lineno or 0, node.lineno - 1
    raise Untranslatable(f"{name} has no __all__")


def _statement(origin: Origin) -> str:
    alias = origin.alias
    if origin.name is None:
        return f"import {origin.module}" + (f" as {alias}" if alias != origin.module else "")
    renamed = f" as {alias}" if alias != origin.name else ""
    return f"from {origin.module} import {origin.name}{renamed}"
