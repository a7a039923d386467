"""Reads pipeline files: YAML in, a checked `Pipeline` out, or one problem with its place.

The text is also parsed as YAML nodes, to know the line of every field and to refuse a key that
occurs twice, which YAML itself allows.

Invariant: a problem names the file, the line and the field; an unknown field is a problem.
"""

import re
from pathlib import Path

import msgspec
import yaml

from goqueue.model import nearest_name
from goqueue.pipelines.spec import (
    Decode,
    Expectation,
    Pipeline,
    Problem,
    Sink,
    Source,
    Step,
    Watermark,
    check,
)

__all__ = [
    "KeyTwice",
    "PipelineInvalid",
    "Places",
    "YamlKey",
    "parse_pipeline",
    "path_of",
    "read_pipeline",
]

YamlKey = str | int
_PART = re.compile(r"\.([A-Za-z_][\w]*)|\[(\d+)\]|(\[\.\.\.\])")


class KeyTwice(ValueError):
    """The same key stands twice in one mapping."""

    def __init__(self, key: str, line: int) -> None:
        super().__init__(key, line)
        self.key = key
        self.line = line


class Places:
    """The lines of everything in a file, by path."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[YamlKey, ...], int] = {}
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            self._walk(root, ())

    def line(self, path: tuple[YamlKey, ...]) -> int | None:
        """The line of what stands there, or of what is around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)

    def _walk(self, node: yaml.Node, path: tuple[YamlKey, ...]) -> None:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in seen:
                    raise KeyTwice(name, key.start_mark.line + 1)
                seen.add(name)
                self._lines[*path, name] = key.start_mark.line + 1
                self._walk(value, (*path, name))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self._walk(value, (*path, index))


def path_of(text: str) -> tuple[YamlKey, ...]:
    """The path that msgspec writes as `$.steps[0].sql`; up to where it does not say which."""
    path: list[YamlKey] = []
    for name, index, unknown in _PART.findall(text):
        if unknown:
            break
        path.append(name or int(index))
    return tuple(path)


SIZE_MAX = 1 << 20
_AT = re.compile(r"^(.*?)(?: - at `(?:key in )?(\$.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_SHAPES: dict[str, type[msgspec.Struct]] = {
    "source": Source,
    "steps": Step,
    "expectations": Expectation,
    "sink": Sink,
    "decode": Decode,
    "watermark": Watermark,
}


class PipelineInvalid(ValueError):
    """A pipeline file that cannot be used."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        super().__init__(file, line, reason)
        self.file = file
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


def read_pipeline(path: Path) -> Pipeline:
    """The pipeline of a file; `PipelineInvalid` says what is wrong where."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PipelineInvalid(str(path), None, error.strerror or str(error)) from error
    if len(data) > SIZE_MAX:
        raise PipelineInvalid(str(path), None, f"has more than {SIZE_MAX} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise PipelineInvalid(str(path), None, "is not UTF-8") from error
    return parse_pipeline(text, str(path))


def parse_pipeline(text: str, file: str) -> Pipeline:
    """Parse a pipeline from text; `file` names it in problems."""
    try:
        places = Places(text)
        told = yaml.safe_load(text)
    except KeyTwice as twice:
        raise PipelineInvalid(file, twice.line, f"`{twice.key}` is given twice") from twice
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        words = getattr(error, "problem", None) or str(error)
        line = None if mark is None else mark.line + 1
        raise PipelineInvalid(file, line, f"is no YAML: {words}") from error
    if not isinstance(told, dict):
        raise PipelineInvalid(file, None, "is no mapping with `name`, `source` and `sink`")
    try:
        pipeline = _convert(told)
        check(pipeline)
    except Problem as problem:
        words = _located(problem.path, problem.reason)
        raise PipelineInvalid(file, places.line(problem.path), words) from problem
    return pipeline


def _convert(told: dict[str, object]) -> Pipeline:
    sources = told.get("sources")
    if isinstance(sources, dict):
        # One by one, because msgspec does not say under which key of a mapping it was.
        for name, source in sources.items():
            try:
                msgspec.convert(source, Source)
            except msgspec.ValidationError as error:
                path, reason = _explain(str(error), Source)
                raise Problem(("sources", str(name), *path), reason) from error
    try:
        return msgspec.convert(told, Pipeline)
    except msgspec.ValidationError as error:
        raise Problem(*_explain(str(error), Pipeline)) from error


def _located(path: tuple[YamlKey, ...], reason: str) -> str:
    named = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    return f"{named.lstrip('.')}: {reason}" if named else reason


def _explain(message: str, shape: type[msgspec.Struct]) -> tuple[tuple[YamlKey, ...], str]:
    """The path and the reason of msgspec's words, with a guess at what was meant."""
    told = _AT.match(message)
    assert told is not None, "the pattern matches any text"
    path = path_of(told[2] or "")
    unknown = _UNKNOWN.match(told[1])
    if unknown is not None:
        near = nearest_name(unknown[1], _fields(path, shape))
        hint = "" if near is None else f"; did you mean `{near}`?"
        return (*path, unknown[1]), f"is unknown{hint}"
    missing = _MISSING.match(told[1])
    if missing is not None:
        return path, f"`{missing[1]}` is missing"
    return path, told[1][0].lower() + told[1][1:]


def _fields(path: tuple[YamlKey, ...], shape: type[msgspec.Struct]) -> tuple[str, ...]:
    names = [each for each in path if isinstance(each, str)]
    return (_SHAPES.get(names[-1], shape) if names else shape).__struct_fields__
