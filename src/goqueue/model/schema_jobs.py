"""Checks of schemas that run beside the node: an effect hands one out, an event brings the verdict.

To parse 256 KiB and to compare it with hundreds of versions takes longer than a turn may. The node
names everything that a check needs, so it is a function of the job alone.
"""

from array import array
from collections.abc import Sequence
from typing import Protocol

import msgspec

from goqueue.model.schemas import SchemaType

__all__ = [
    "CheckSchema",
    "CompileSchema",
    "NamedSource",
    "SchemaChecked",
    "SchemaCompiled",
    "SchemaEvent",
    "SchemaJob",
    "SchemaSource",
    "SchemaValidator",
    "Written",
]


class NamedSource(msgspec.Struct, frozen=True):
    """A schema that another one refers to, under the name that it uses."""

    name: str
    text: str


class SchemaSource(msgspec.Struct, frozen=True, kw_only=True):
    """A schema with all that it refers to, directly or not; what others need comes first."""

    type: SchemaType
    text: str
    references: tuple[NamedSource, ...] = ()


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A registered version to compare with. What an id means never changes."""

    version: int
    id: int
    source: SchemaSource


class SchemaJob(msgspec.Struct, frozen=True, kw_only=True):
    """Parse a schema, and compare it with these versions in these directions."""

    source: SchemaSource
    against: tuple[Written, ...] = ()
    is_backward: bool = False
    is_forward: bool = False


class CheckSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Run a check; answered by `SchemaChecked` with the same token."""

    token: int
    job: SchemaJob


class SchemaChecked(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict about a schema.

    `canonical` is the one form of its content; None: it is invalid, at `path` for `reason`.
    `messages` say what is not compatible, and with which version. `text` is the schema as text, if
    it came in another form.
    """

    token: int
    canonical: str | None
    path: str = ""
    reason: str = ""
    messages: tuple[str, ...] = ()
    text: str = ""


class SchemaValidator(Protocol):
    """A schema that was compiled to check values.

    `values_per_unit` small values, or `bytes_per_unit` bytes of large ones, cost a unit of a turn.
    """

    values_per_unit: int
    bytes_per_unit: int

    def find_refused(
        self, data: bytearray, starts: "array[int]", ends: "array[int]"
    ) -> Sequence[int]:
        """Which of the values data[start:end] may not conform, by their indexes, rising.

        A value that is not among them conforms; `explain` has the last word on one that is.
        """

    def explain(self, payload: bytes) -> tuple[str, str] | None:
        """Where a value does not conform, and why; None: it does. Takes bounded time."""


class CompileSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Compile a registered schema; answered by `SchemaCompiled` with the same id."""

    id: int
    source: SchemaSource


class SchemaCompiled(msgspec.Struct, frozen=True, kw_only=True):
    """The validator of an id, and how many bytes of text it is made of; None: why there is none."""

    id: int
    validator: SchemaValidator | None
    size: int = 0
    reason: str = ""


SchemaEvent = SchemaChecked | SchemaCompiled
