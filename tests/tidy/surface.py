"""Rules of the public surface: a package says what it offers, and others use only that.

Run as a module, it accepts the present surface into tests/public_surface.json.
"""

import ast
import functools
import re
from collections.abc import Iterable, Iterator

import msgspec

from tests.tidy.sources import ROOT, Finding, Source, projects_sources

__all__ = [
    "GOLDEN",
    "finds_foreign_modules",
    "finds_forged_callers",
    "finds_missing_all",
    "finds_other_clients",
    "finds_other_things_in_packages",
    "finds_overreaching_edges",
    "finds_unsorted_all",
    "package_names",
    "public_surface",
]

# src/goqueue/room/__init__.py
_DOOR_DEPTH = 3
GOLDEN = ROOT / "tests" / "public_surface.json"

_FOR_USERS = ("goqueue", "goqueue.client", "goqueue.spark", "goqueue.testing")
# Rooms whose packages are imported often and must stay light: others take from their modules what
# these offer in their `__all__`. So do tests and benches, from any room.
_OPEN_ROOMS = ("client", "gateways", "pipelines", "spark")
# Gateways and clients see the words and the bytes of a message, never the machines.
_EDGE_ROOMS = ("gateways", "client")
_EDGE_MAY_IMPORT = ("model", "records")


# What speaks HTTP. Only the SDK asks a node; the gateway parses what it is asked.
_TRANSPORTS = (
    "aiohttp",
    "goqueue.client.http",
    "http.client",
    "httpcore",
    "httptools",
    "httpx",
    "requests",
    "urllib.request",
    "urllib3",
)
_MAY_SPEAK_HTTP = {"client": _TRANSPORTS, "gateways": ("httptools",)}
# Asks etcd, which is no node.
_ASKS_NO_NODE = "src/goqueue/runtime/etcd_connection.py"


class _RoomImport(msgspec.Struct, frozen=True):
    """One name taken from a room; `import goqueue.log.index` takes none."""

    node: ast.stmt
    module: str
    name: str

    @property
    def room(self) -> str:
        return self.module.split(".")[1]


def package_names(sources: Iterable[Source]) -> frozenset[str]:
    """Every package, by its dotted name."""
    return frozenset(_package_name(source) for source in sources if _is_init(source))


def public_surface(sources: Iterable[Source]) -> dict[str, list[str]]:
    """What the packages that users import offer; the inside is free to move."""
    return {
        _package_name(source): _exported(source) or []
        for source in sources
        if _is_init(source) and _package_name(source) in _FOR_USERS
    }


def _package_name(source: Source) -> str:
    return source.path.removeprefix("src/").removesuffix("/__init__.py").replace("/", ".")


def finds_missing_all(source: Source) -> Iterator[Finding]:
    """The door of a room says what is behind it; a folder inside is no door."""
    is_door = _is_init(source) and source.path.count("/") <= _DOOR_DEPTH
    if is_door and _exported(source) is None:
        yield Finding(source.path, 1, "a package says what it offers: add a literal __all__")


def finds_unsorted_all(source: Source) -> Iterator[Finding]:
    exported = _exported(source)
    if exported is not None and exported != sorted(exported, key=_sorting_key):
        yield Finding(source.path, 1, "__all__ is sorted: CONSTANTS, Classes, functions")


def finds_other_things_in_packages(source: Source) -> Iterator[Finding]:
    if not _is_init(source):
        return
    for position, statement in enumerate(source.tree.body):
        is_docstring = position == 0 and isinstance(statement, ast.Expr)
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        is_name = isinstance(statement, ast.Assign) and all(
            isinstance(target, ast.Name) and target.id in ("__all__", "__version__")
            for target in statement.targets
        )
        # The choice between compiled and interpreted must be made before any room is imported.
        is_choice = source.path == "src/goqueue/__init__.py" and _is_call(statement)
        # What is imported when it is first named is imported for type checkers, too.
        is_lazy = source.path == "src/goqueue/__init__.py" and _is_typing_choice(statement)
        if not (is_docstring or is_import or is_name or is_choice or is_lazy):
            words = "an __init__.py holds its docstring, imports and __all__; nothing else"
            yield source.finding(statement, words)
    if ast.get_docstring(source.tree) is None:
        yield Finding(source.path, 1, "a package says in a docstring what it owns")


def finds_foreign_modules(source: Source, packages: frozenset[str]) -> Iterator[Finding]:
    """Imports of another room's modules or underscored names; its packages are the way in."""
    for taken in _room_imports(source):
        if taken.room == source.room:
            continue
        is_open = taken.room in _OPEN_ROOMS or not source.is_package
        if is_open and taken.name in _offered(taken.module):
            continue
        if taken.module not in packages:
            words = f"import from the package, not from its module {taken.module}"
            yield source.finding(taken.node, words)
        elif taken.name.startswith("_"):
            yield source.finding(taken.node, f"{taken.name} is private to {taken.module}")
        elif _is_module(f"{taken.module}.{taken.name}"):
            words = f"import what you need from {taken.module}, not its module {taken.name}"
            yield source.finding(taken.node, words)


def finds_overreaching_edges(source: Source) -> Iterator[Finding]:
    if not source.is_package or source.room not in _EDGE_ROOMS:
        return
    for taken in _room_imports(source):
        if taken.room not in (*_EDGE_MAY_IMPORT, source.room):
            yield source.finding(taken.node, f"{source.room} may import model and records only")


# Who may name the callers that have no key: who makes them, and who tells them from others.
_KEYLESS = {
    "LOCAL": ("gateways/credentials.py", "runtime/first_key.py", "broker/", "sim/", "model/"),
    "ANONYMOUS": ("gateways/credentials.py", "security/access.py", "model/"),
}


def finds_forged_callers(source: Source) -> Iterator[Finding]:
    if not source.is_package:
        return
    for node in ast.walk(source.tree):
        name = node.id if isinstance(node, ast.Name) else ""
        places = [f"src/goqueue/{place}" for place in _KEYLESS.get(name, ())]
        if places and not source.path.startswith(tuple(places)):
            yield source.finding(node, f"{name} passes every check: callers come with the request")


def finds_other_clients(source: Source) -> Iterator[Finding]:
    """Modules outside the SDK that speak HTTP by themselves."""
    if not source.is_package or source.path == _ASKS_NO_NODE:
        return
    allowed = _MAY_SPEAK_HTTP.get(source.room or "", ())
    for node in source.nodes:
        for name in _imported_names(node):
            spoken = [each for each in _TRANSPORTS if f"{name}.".startswith(f"{each}.")]
            if spoken and spoken[0] not in allowed:
                yield source.finding(node, f"only goqueue.client speaks HTTP: not {spoken[0]}")


def _imported_names(node: ast.AST) -> list[str]:
    """Dotted names of what is imported, as `from a import b` is `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _room_imports(source: Source) -> Iterator[_RoomImport]:
    for node in source.nodes:
        if isinstance(node, ast.Import):
            taken = [_RoomImport(node, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            taken = [_RoomImport(node, node.module or "", alias.name) for alias in node.names]
        else:
            continue
        # The top-level package is nobody's room, and `_twin` stands outside the rooms.
        for each in taken:
            if each.module.startswith("goqueue.") and not each.module.startswith("goqueue._"):
                yield each


@functools.cache
def _offered(module: str) -> tuple[str, ...]:
    """What a module or a package says that it offers."""
    folder = ROOT / "src" / module.replace(".", "/")
    found = [path for path in (folder.with_suffix(".py"), folder / "__init__.py") if path.exists()]
    if not found:
        return ()
    path = found[0]
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return tuple(ast.literal_eval(statement.value))
    return ()


def _is_module(dotted: str) -> bool:
    return (ROOT / "src" / (dotted.replace(".", "/") + ".py")).exists()


def _is_init(source: Source) -> bool:
    return source.is_package and source.path.endswith("/__init__.py")


def _is_call(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    return isinstance(called, ast.Name) and called.id == "prefer_sources"


def _is_typing_choice(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If) or ast.unparse(statement.test) != "TYPE_CHECKING":
        return False
    return all(isinstance(each, ast.ImportFrom) for each in (*statement.body, *statement.orelse))


def _exported(source: Source) -> list[str] | None:
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            is_all = statement.targets[0].id == "__all__"
            if is_all and isinstance(statement.value, ast.List | ast.Tuple):
                return [ast.literal_eval(element) for element in statement.value.elts]
    return None


def _sorting_key(name: str) -> tuple[int, list[str]]:
    """The order that ruff's formatter of __all__ keeps: by kind, then numbers as numbers."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, [part.zfill(9) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


if __name__ == "__main__":
    present = msgspec.json.encode(public_surface(projects_sources()), order="sorted")
    GOLDEN.write_bytes(msgspec.json.format(present, indent=2) + b"\n")
