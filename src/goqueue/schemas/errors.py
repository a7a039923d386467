"""Why a schema is refused, what keeps two apart, and how large one may be."""

import msgspec

__all__ = ["DEPTH_MAX", "SCHEMA_BYTES_MAX", "Incompatibility", "SchemaInvalid"]

SCHEMA_BYTES_MAX = 256 * 1024
DEPTH_MAX = 32


class SchemaInvalid(Exception):
    """A schema that does not parse: where, as a JSON pointer or a line, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class Incompatibility(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a reader cannot read: where in the reader's schema, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.reason}"
