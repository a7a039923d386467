"""Checks of schemas: parsed, brought to one form, and compared with registered versions.

A function of the job alone, apart from a memory of what was parsed lately: what an id means never
changes. Runs beside the node, one check at a time.

Cost: a job has a budget; a check that needs more is refused as too complex, however it was built.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from goqueue.model import (
    CompileSchema,
    SchemaChecked,
    SchemaCompiled,
    SchemaJob,
    SchemaReference,
    SchemaSource,
    SchemaType,
    Written,
)
from goqueue.schemas.budget import CheckBudget, TooComplex
from goqueue.schemas.errors import SCHEMA_BYTES_MAX, Incompatibility, SchemaInvalid
from goqueue.schemas.languages import ParsedSchema, incompatibilities, parse_schema
from goqueue.schemas.proto_descriptor import proto_text
from goqueue.schemas.validators import create_validator

__all__ = ["SchemaChecker", "content_digest"]

_MESSAGES_MAX = 50
_PARSED_BYTES_MAX = 8 * 1024 * 1024
# A unit of the budget is about this many bytes of text.
_UNIT_BYTES = 16


def content_digest(
    type_: SchemaType, canonical: str, references: tuple[SchemaReference, ...]
) -> str:
    """The sum by which equal content is known."""
    parts = msgspec.json.encode((type_, canonical, references))
    return hashlib.sha256(parts).hexdigest()


class SchemaChecker:
    """Carries out checks."""

    def __init__(self) -> None:
        # By id, the one that was used last comes last.
        self._parsed: OrderedDict[int, ParsedSchema] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._bytes = 0

    def check(self, token: int, job: SchemaJob) -> SchemaChecked:
        """The verdict about a schema."""
        budget = CheckBudget()
        source = job.source
        try:
            if source.type is SchemaType.PROTOBUF:
                source = msgspec.structs.replace(source, text=proto_text(source.text))
            parsed = _parse(source, budget)
            messages = tuple(self._compare(parsed, job, budget))
        except SchemaInvalid as invalid:
            return SchemaChecked(
                token=token, canonical=None, path=invalid.path, reason=invalid.reason
            )
        except (TooComplex, RecursionError):
            return SchemaChecked(token=token, canonical=None, reason="is too complex to be checked")
        return SchemaChecked(
            token=token,
            canonical=parsed.canonical(),
            messages=messages,
            text="" if source.text == job.source.text else source.text,
        )

    def compile(self, effect: CompileSchema) -> SchemaCompiled:
        """The validator of a registered schema."""
        try:
            validator = create_validator(effect.source)
        except (SchemaInvalid, RecursionError) as invalid:
            return SchemaCompiled(id=effect.id, validator=None, reason=str(invalid))
        return SchemaCompiled(id=effect.id, validator=validator, size=_size(effect.source))

    def _compare(self, new: ParsedSchema, job: SchemaJob, budget: CheckBudget) -> Iterator[str]:
        count = 0
        for written in job.against:
            for message in self._compare_one(new, written, job, budget):
                count += 1
                if count > _MESSAGES_MAX:
                    yield "and more"
                    return
                yield message

    def _compare_one(
        self, new: ParsedSchema, written: Written, job: SchemaJob, budget: CheckBudget
    ) -> Iterator[str]:
        about = f"version {written.version}"
        if written.source.type is not job.source.type:
            yield f"{about}: it is {written.source.type}, and the new schema is {job.source.type}"
            return
        old = self._parse_written(written, budget)
        if job.is_backward:
            for found in incompatibilities(new, old, budget):
                yield _told(about, "the new schema cannot read its data", found)
        if job.is_forward:
            for found in incompatibilities(old, new, budget):
                yield _told(about, "it cannot read data of the new schema", found)

    def _parse_written(self, written: Written, budget: CheckBudget) -> ParsedSchema:
        parsed = self._parsed.get(written.id)
        if parsed is not None:
            self._parsed.move_to_end(written.id)
            return parsed
        parsed = _parse(written.source, budget)
        self._parsed[written.id] = parsed
        size = self._sizes[written.id] = _size(written.source)
        self._bytes += size
        while self._bytes > _PARSED_BYTES_MAX and len(self._parsed) > 1:
            oldest, _ = self._parsed.popitem(last=False)
            self._bytes -= self._sizes.pop(oldest)
        return parsed


def _parse(source: SchemaSource, budget: CheckBudget) -> ParsedSchema:
    if len(source.text.encode("utf-8", "replace")) > SCHEMA_BYTES_MAX:
        raise SchemaInvalid("", f"is larger than {SCHEMA_BYTES_MAX} bytes")
    budget.spend(_size(source) // _UNIT_BYTES)
    return parse_schema(source)


def _size(source: SchemaSource) -> int:
    return len(source.text) + sum(len(each.text) for each in source.references)


def _told(about: str, whose: str, found: Incompatibility) -> str:
    return f"{about}: {whose}: at {found.path or '/'}: {found.reason}"
