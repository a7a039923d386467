"""The reference page of the pipeline file format, generated from its Structs."""

import inspect
import types
import typing
from collections.abc import Iterator

import msgspec

from goqueue.pipelines.spec import Decode, Expectation, Pipeline, Sink, Source, Step, Watermark

__all__ = ["reference"]

_SHAPES: tuple[tuple[str, type[msgspec.Struct]], ...] = (
    ("The file", Pipeline),
    ("`source`", Source),
    ("`source.decode`", Decode),
    ("`source.watermark`", Watermark),
    ("`steps`", Step),
    ("`expectations`", Expectation),
    ("`sink`", Sink),
)
_WORDS = {str: "text", int: "number", float: "number", bool: "true or false"}


def reference() -> str:
    """One table per mapping of the file."""
    return "\n".join(line for title, shape in _SHAPES for line in _section(title, shape))


def _section(title: str, shape: type[msgspec.Struct]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield inspect.cleandoc(shape.__doc__ or "")
    yield ""
    yield "| field | value | default | meaning |"
    yield "|---|---|---|---|"
    for field in msgspec.structs.fields(shape):
        kind, meaning = _kind(field.type)
        yield f"| `{field.name}` | {kind} | {_default(field)} | {meaning} |"
    yield ""


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    default = field.default
    return "" if default in {None, "", msgspec.NODEFAULT} else f"`{default}`"


def _kind(kind: object) -> tuple[str, str]:
    """A type in words, and the description that it carries."""
    meaning = ""
    if typing.get_origin(kind) is typing.Annotated:
        kind, *metas = typing.get_args(kind)
        meaning = next(
            (each.description for each in metas if getattr(each, "description", None)), ""
        )
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        parts = [_kind(each) for each in arguments if each is not type(None)]
        words = dict.fromkeys(words for words, _ in parts)
        return " or ".join(words), meaning or next((told for _, told in parts if told), "")
    if origin is typing.Literal:
        return ", ".join(f"`{each}`" for each in arguments), meaning
    if origin is list:
        return f"list of {_kind(arguments[0])[0]}", meaning
    if origin is dict:
        inner = _kind(arguments[1])[0]
        return f"mapping of {inner}" if inner else "mapping", meaning
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return "mapping, see below", meaning
    return (_WORDS.get(kind, "") if isinstance(kind, type) else ""), meaning
