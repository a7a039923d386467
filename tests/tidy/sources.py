"""The files of the project as the rules see them: path, text, syntax tree, and room.

Invariant: a path is relative to the root of the project and written with forward slashes.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import msgspec

__all__ = ["CORE_ROOMS", "ROOT", "Finding", "Source", "projects_sources", "projects_texts"]

ROOT = Path(__file__).resolve().parents[2]

# Storage is a shell's planner rather than a part of the core, but it obeys the same rules.
CORE_ROOMS = (
    "model",
    "records",
    "log",
    "delivery",
    "groups",
    "transactions",
    "schedules",
    "schemas",
    "security",
    "tracing",
    "metrics",
    "cluster",
    "broker",
    "storage",
)

_PYTHON_FOLDERS = ("src", "tests", "bench", "demo", "deploy", "docs", "fuzz", "scripts", "soak")
_TEXT_SUFFIXES = (".py", ".pxd", ".h", ".md", ".toml", ".lock", ".json", ".yml", ".yaml", ".sh", "")
_SKIPPED_FOLDERS = ("build", "dist", "data", "node_modules", "__pycache__")


class Finding(msgspec.Struct, frozen=True):
    """A line that breaks a rule, and how to mend it."""

    path: str
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words}"


class Source(msgspec.Struct, frozen=True):
    """One Python file."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parse(self.path, self.text)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree. Most rules look at all of them, and walking takes long."""
        return _walk_tree(self.path, self.text)

    @property
    def room(self) -> str | None:
        """The room that the file belongs to, in the package or among its unit tests."""
        parts = self.path.split("/")
        if parts[:2] in (["src", "goqueue"], ["tests", "unit"]) and len(parts) > 3:
            return parts[2]
        return None

    @property
    def is_package(self) -> bool:
        return self.path.startswith("src/")

    @property
    def is_core(self) -> bool:
        return self.is_package and self.room in CORE_ROOMS

    def finding(self, node: ast.AST, words: str) -> Finding:
        return Finding(self.path, getattr(node, "lineno", 1), words)


@functools.cache
def _parse(path: str, text: str) -> ast.Module:
    return ast.parse(text, path)


@functools.cache
def _walk_tree(path: str, text: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parse(path, text)))


@functools.cache
def projects_sources() -> tuple[Source, ...]:
    """Every Python file of the project, in the order of their paths."""
    paths = [path for folder in _PYTHON_FOLDERS for path in (ROOT / folder).rglob("*.py")]
    paths += [path for path in (ROOT / "setup.py",) if path.exists()]
    return tuple(Source(_relative(path), path.read_text()) for path in sorted(paths))


def projects_texts() -> Iterator[tuple[str, str]]:
    """Path and text of every file that people read or machines run, generated ones left out."""
    for path in sorted(_walk(ROOT)):
        if path.suffix in _TEXT_SUFFIXES:
            yield _relative(path), path.read_text()


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        is_hidden = path.name.startswith(".") and path.name not in (
            ".ci",
            ".githooks",
            ".gitignore",
        )
        if is_hidden or path.name in _SKIPPED_FOLDERS or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
