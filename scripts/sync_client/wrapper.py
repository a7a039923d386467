"""The generated part of one sync class."""

import ast
import builtins
import copy
import re
import textwrap
from collections.abc import Mapping

import msgspec

from scripts.sync_client.rules import Rules
from scripts.sync_client.syntax import (
    Function,
    Origin,
    Untranslatable,
    forwarded,
    members_of,
    names_in,
    parameters,
    shape,
    union,
    unquoted,
)

__all__ = ["PACKAGE", "AsyncClass", "Wrapper"]

PACKAGE = "goqueue.client"
_WIDTH = 100


_SPECIAL = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
# How a docstring of the async client reads in the sync client.
_WORDING = (
    (r"\basync (with|for)\b", r"\1"),
    (r"\bawaited\b", "waited for"),
    (r"\bawait ", ""),
    (r"\b([Tt])ask(s?)\b", r"\1hread\2"),
)
_TOLD_ASYNC = re.compile(r"\bawait|\basync\b")
# Annotations of what a thread cannot use.
_ASYNC_TYPES = re.compile(r"\b(Awaitable|Coroutine|Async\w+|AbstractAsync\w+)\b")


class AsyncClass(msgspec.Struct, frozen=True):
    node: ast.ClassDef
    origins: Mapping[str, Origin]


class Wrapper:
    """The generated part of one class, and the names that it needs."""

    def __init__(
        self,
        by_hand: ast.ClassDef,
        wrapped: AsyncClass,
        wrappers: Mapping[str, Origin],
        rules: Rules,
    ) -> None:
        self.needed: dict[str, Origin] = {}
        self._by_hand = by_hand
        self._wrapped = wrapped.node
        self._origins = wrapped.origins
        self._wrappers = wrappers
        self._rules = rules
        self._written = members_of(by_hand)
        name = wrapped.node.name
        self._inner = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        self._is_value = name in rules.values

    def generated(self) -> list[str]:
        name = self._wrapped.name
        lines: list[str] = []
        if ast.get_docstring(self._by_hand) is None:
            lines += self._docstring(self._wrapped, "    ")
        if "__init__" not in self._written:
            self._need(
                "LoopThread", Origin(f"{PACKAGE}.sync.loop_thread", "LoopThread", "LoopThread")
            )
            self._need(name, self._origins[name])
            lines += [
                "",
                f"    def __init__(self, loop: LoopThread, {self._inner}: {name}) -> None:",
            ]
            lines += ["        self._loop = loop", f"        self._{self._inner} = {self._inner}"]
        for member, found in members_of(self._wrapped).items():
            is_private = member.startswith("_") and not member.endswith("__")
            if is_private or member == "__init__" or member in self._rules.hidden.get(name, ()):
                continue
            written = self._written.get(_SPECIAL.get(member, member))
            if written is not None:
                self._check(found[-1], written[-1])
            else:
                lines += ["", *self._member(member, found)]
        return lines

    def _need(self, name: str, origin: Origin) -> None:
        if name.startswith("_"):
            raise Untranslatable(f"{name} of {origin.module} is private: give it a public name")
        known = self.needed.get(name)
        if known is None or known.is_for_types:
            self.needed[name] = origin

    def _fail(self, member: str, words: str) -> Untranslatable:
        hint = f"write it by hand in {self._by_hand.name}, or hide it in scripts/sync_client.py"
        return Untranslatable(f"{self._wrapped.name}.{member} {words}: {hint}")

    # Members

    def _member(self, name: str, found: list[ast.stmt]) -> list[str]:
        *overloads, node = found
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            return self._property(name, self._result(name, node.annotation)[0], [])
        if not isinstance(node, Function):
            return self._resource(name, node)
        if name.startswith("__"):
            return self._special(node)
        decorators = [ast.unparse(each) for each in node.decorator_list]
        if decorators == ["property"]:
            result, wrapping = self._result(name, node.returns)
            if wrapping:
                raise self._fail(name, "is a property that returns something of the loop")
            return self._property(name, result, self._docstring(node))
        if decorators:
            raise self._fail(name, f"is decorated by {', '.join(decorators)}")
        lines: list[str] = []
        for each in overloads:
            assert isinstance(each, Function)
            if [ast.unparse(decorator) for decorator in each.decorator_list] != ["overload"]:
                raise self._fail(name, "is defined twice")
            self._need("overload", Origin("typing", "overload", "overload"))
            lines += ["    @overload", f"{self._signature(each)} ...", ""]
        body = self._body(node, is_overloaded=bool(overloads))
        return [*lines, self._signature(node), *self._docstring(node), *body]

    def _property(self, name: str, result: str, docstring: list[str]) -> list[str]:
        lines = ["    @property", f"    def {name}(self) -> {result}:", *docstring]
        return [*lines, f"        return self._{self._inner}.{name}"]

    def _resource(self, name: str, node: ast.stmt) -> list[str]:
        """A public attribute is another wrapped object, which is wrapped when first asked for."""
        assert isinstance(node, ast.Assign | ast.AnnAssign)
        made = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        if made not in self._wrappers:
            raise self._fail(name, "is an attribute: make it a property")
        origin = self._wrappers[made]
        self._need(origin.alias, origin)
        self._need("cached_property", Origin("functools", "cached_property", "cached_property"))
        return [
            "    @cached_property",
            f"    def {name}(self) -> {origin.alias}:",
            f"        return {origin.alias}(self._loop, self._{self._inner}.{name})",
        ]

    def _special(self, node: Function) -> list[str]:
        name = _SPECIAL.get(node.name)
        if name is None:
            raise self._fail(node.name, "has no translation")
        own, inner = self._by_hand.name, f"self._{self._inner}.{node.name}"
        body = [ast.unparse(each) for each in node.body]
        if name == "__exit__":
            call = f"self._loop.call({inner}({forwarded(node.args)}))"
            is_close = body == ["await self.close()"]
            return [
                self._signature(node, name),
                "        self.close()" if is_close else f"        {call}",
            ]
        if name == "__next__":
            if not isinstance(node, ast.AsyncFunctionDef):
                raise self._fail(node.name, "is no coroutine function")
            return [
                self._signature(node, name),
                "        try:",
                f"            return self._loop.call({inner}())",
                "        except StopAsyncIteration:",
                "            raise StopIteration from None",
            ]
        returned = "" if node.returns is None else ast.unparse(node.returns).strip("'\"")
        if returned != self._wrapped.name or body[-1] != "return self":
            raise self._fail(node.name, "returns something other than the object itself")
        enter = [f"        self._loop.call({inner}())"] if len(body) > 1 else []
        return [f'    def {name}(self) -> "{own}":', *enter, "        return self"]

    # Methods

    def _signature(self, node: Function, name: str | None = None) -> str:
        result, _ = self._result(node.name, node.returns)
        given = ast.unparse(self._arguments(node))
        return f"    def {name or node.name}({given}) -> {result}:"

    def _arguments(self, node: Function) -> ast.arguments:
        arguments = copy.deepcopy(node.args)
        for each in parameters(arguments):
            if each.annotation is not None:
                each.annotation = self._argument(node.name, each.annotation)
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            for used in [] if default is None else names_in(default):
                self._need_name(node.name, used)
        return arguments

    def _body(self, node: Function, *, is_overloaded: bool) -> list[str]:
        result, wrapping = self._result(node.name, node.returns)
        method = f"self._{self._inner}.{node.name}"
        lines: list[str] = []
        if is_overloaded:
            # No overload takes the union of what all of them take.
            if isinstance(node, ast.AsyncFunctionDef):
                raise self._fail(node.name, "is overloaded and a coroutine function")
            assert node.returns is not None
            self._need_names(node.name, node.returns)
            self._need("Callable", Origin("collections.abc", "Callable", "Callable"))
            returns = ast.unparse(unquoted(node.returns))
            lines.append(f"        {node.name}: Callable[..., {returns}] = {method}")
            method = node.name
        given = forwarded(node.args, self._conversions(node))
        call = f"{method}({given})"
        if isinstance(node, ast.AsyncFunctionDef):
            call = f"self._loop.call({call})"
        elif not self._is_value:
            call = f"self._loop.apply({f'lambda: {call}' if given else method})"
        if not wrapping:
            return [*lines, f"        {call}" if result == "None" else f"        return {call}"]
        if len(wrapping) == 1:
            return [*lines, f"        return {wrapping[0][1]}(self._loop, {call})"]
        lines.append(f"        made = {call}")
        for wrapped, wrapper in wrapping[:-1]:
            test = "made is None" if wrapped == "None" else f"isinstance(made, {wrapped})"
            made = "None" if wrapped == "None" else f"{wrapper}(self._loop, made)"
            if wrapped != "None":
                # Tested when it runs, so an import for types alone is not enough.
                origin = self._origins[wrapped]
                self._need(wrapped, msgspec.structs.replace(origin, is_for_types=False))
            lines += [f"        if {test}:", f"            return {made}"]
        return [*lines, f"        return {wrapping[-1][1]}(self._loop, made)"]

    def _conversions(self, node: Function) -> dict[str, str]:
        """How the arguments that differ in type are handed on."""
        conversions: dict[str, str] = {}
        for each in parameters(node.args):
            kinds = [] if each.annotation is None else union(unquoted(each.annotation))
            for kind in kinds:
                if kind in self._rules.arguments:
                    converted = self._rules.arguments[kind][1].format(each.arg)
                    is_optional = "None" in kinds
                    optional = f"None if {each.arg} is None else {converted}"
                    conversions[each.arg] = optional if is_optional else converted
        return conversions

    # Annotations

    def _argument(self, member: str, annotation: ast.expr) -> ast.expr:
        """The annotation of an argument; what it takes of the sync client instead."""
        expression = unquoted(annotation)
        changed = {kind: self._rules.arguments.get(kind) for kind in names_in(expression)}
        taken = {kind: each[0] for kind, each in changed.items() if each is not None}
        foreign = [
            kind for kind in names_in(expression) if kind in self._wrappers and kind not in taken
        ]
        if foreign or not set(taken) <= set(union(expression)):
            raise self._fail(member, f"takes {ast.unparse(annotation)}")
        self._check_annotation(member, expression)
        if not taken:
            self._need_names(member, annotation)
            return annotation
        kinds = [taken.get(kind, kind) for kind in union(expression)]
        for name in names_in(ast.parse(" | ".join(kinds), mode="eval").body):
            self._need_name(member, name)
        return ast.parse(" | ".join(kinds), mode="eval").body

    def _result(
        self, member: str, annotation: ast.expr | None
    ) -> tuple[str, list[tuple[str, str]]]:
        """The annotation of a result, and each class in it with the one that it is wrapped by."""
        if annotation is None:
            raise self._fail(member, "does not say what it returns")
        expression = unquoted(annotation)
        self._check_annotation(member, expression)
        wrapped = [name for name in names_in(expression) if self._is_wrapped(name)]
        if not wrapped:
            self._need_names(member, annotation)
            return ast.unparse(annotation), []
        kinds = union(expression)
        if not all(kind == "None" or self._is_wrapped(kind) for kind in kinds):
            raise self._fail(member, f"returns {ast.unparse(annotation)}")
        # What is not there is told apart first, the last one needs no test.
        kinds.sort(key=lambda kind: kind != "None")
        wrapping = [(kind, self._wrapper(member, kind, len(kinds) > 1)) for kind in kinds]
        order = [name for _, name in wrapping if name != "None"]
        return " | ".join([*order, *(["None"] if "None" in kinds else [])]), wrapping

    def _wrapper(self, member: str, kind: str, is_tested: bool) -> str:
        if kind == "None":
            return kind
        if is_tested:
            self._need_name(member, kind)
        origin = self._wrappers[kind]
        self._need(origin.alias, origin)
        return origin.alias

    def _is_wrapped(self, name: str) -> bool:
        return name in self._wrappers and name not in self._rules.values

    def _check_annotation(self, member: str, annotation: ast.expr) -> None:
        if _ASYNC_TYPES.search(ast.unparse(annotation)):
            raise self._fail(member, f"has {ast.unparse(annotation)} in its signature")

    def _need_names(self, member: str, expression: ast.expr) -> None:
        for name in names_in(unquoted(expression)):
            self._need_name(member, name)

    def _need_name(self, member: str, name: str) -> None:
        own = [origin for origin in self._wrappers.values() if origin.alias == name]
        if own:
            self._need(name, own[0])
        elif name in self._origins:
            self._need(name, self._origins[name])
        elif not hasattr(builtins, name):
            raise self._fail(member, f"uses {name}, which its module does not import")

    # Words

    def _docstring(self, node: Function | ast.ClassDef, indent: str = "        ") -> list[str]:
        words = ast.get_docstring(node, clean=False)
        if words is None:
            return []
        for pattern, replacement in _WORDING:
            words = re.sub(pattern, replacement, words)
        if _TOLD_ASYNC.search(words) or "\\" in words or '"""' in words:
            raise self._fail(node.name, f"has a docstring that does not fit: {words!r}")
        return _wrapped(f'{indent}"""{words}"""', indent)

    def _check(self, node: ast.stmt, written: ast.stmt) -> None:
        """A method written by hand takes what the async one takes."""
        if not isinstance(node, Function) or not isinstance(written, Function):
            return
        if node.name in _SPECIAL:
            return
        theirs, ours = dict(shape(self._arguments(node))), dict(shape(written.args))
        names = sorted(theirs.keys() | ours.keys())
        differing = tuple(name for name in names if theirs.get(name) != ours.get(name))
        method = f"{self._wrapped.name}.{node.name}"
        allowed = self._rules.differing.get(method, ())
        if differing != allowed:
            raise Untranslatable(
                f"{self._by_hand.name}.{node.name} is written by hand and differs from {method} in "
                f"{', '.join(differing) or 'nothing'}, not in {', '.join(allowed) or 'nothing'}"
            )


def _wrapped(docstring: str, indent: str) -> list[str]:
    """The lines of a docstring, with those paragraphs filled anew that became too wide."""
    lines: list[str] = []
    for paragraph in docstring.split("\n\n"):
        given = paragraph.split("\n")
        if max(map(len, given)) > _WIDTH:
            ends = [given.pop()] if given[-1].strip() == '"""' else []
            words = " ".join(line.strip() for line in given)
            given = textwrap.wrap(
                words,
                _WIDTH,
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            given += ends
        lines += [*([""] if lines else []), *given]
    return lines
