"""Whether bytes are a value of an Avro schema.

A schema becomes a program of `AvroWalk`, which goes past values and builds nothing. A record is the
steps of its fields, one after the other; what other types refer to is called. What a refused value
is told follows from where the machine stopped. A decoder made for trusted data is no validator:
arrays of nulls and recursive records take bytes to describe and gigabytes, or the stack, to decode.

Invariant: what is accepted decodes completely, to the last byte.
"""

from array import array
from collections.abc import Sequence

from goqueue.schemas.avro import (
    Array,
    AvroSchema,
    AvroType,
    Enumeration,
    Fixed,
    MapOf,
    Primitive,
    Record,
    Reference,
    Union,
)
from goqueue.schemas.avro_walk import CALLS_MAX, ITEMS_MAX, AvroWalk, Fault, Step

__all__ = ["AvroValidator"]

_FRAMES_MAX = 1024
_PRIMITIVES: dict[str, tuple[int, ...]] = {
    "null": (),
    "boolean": (Step.BOOLEAN,),
    "int": (Step.VARINT, 32),
    "long": (Step.VARINT, 64),
    "float": (Step.SKIP, 4),
    "double": (Step.SKIP, 8),
    "bytes": (Step.BYTES,),
    "string": (Step.TEXT,),
}
_REASONS = {
    Fault.EARLY: "ends too early",
    Fault.TEN_BYTES: "has a number of more than ten bytes",
    Fault.LARGE: "has a number of more than 64 bits",
    Fault.LENGTH: "has a length beyond its end",
    Fault.TEXT: "is no string: it is not UTF-8",
    Fault.BOOLEAN: "is no boolean",
    Fault.INT: "is no int: it has more than 32 bits",
    Fault.SYMBOL: "has symbol {found}, of {count}",
    Fault.BRANCH: "has branch {found}, of {count}",
    Fault.BLOCK_SIZE: "has a block of negative size",
    Fault.ITEMS: f"has more than {ITEMS_MAX} items",
    Fault.CALLS: f"is deeper than {CALLS_MAX}",
    Fault.FRAMES: "is nested too deep",
    Fault.STEPS: "has too many parts",
    Fault.MORE: "has {rest} bytes more than the schema",
}


class AvroValidator:
    """A schema as a program that goes past a value."""

    values_per_unit = 64
    bytes_per_unit = 4096

    def __init__(self, schema: AvroSchema) -> None:
        assembly = _Assembly(schema)
        self._program = assembly.program
        self._paths = assembly.paths
        frames = assembly.nested_max * (CALLS_MAX + 1)
        self._walk = AvroWalk(self._program, min(frames, _FRAMES_MAX))

    def find_refused(
        self, data: bytearray, starts: "array[int]", ends: "array[int]"
    ) -> Sequence[int]:
        """Which of the values data[start:end] are none of the schema, by their indexes."""
        return self._walk.find_refused(data, starts, ends)

    def explain(self, payload: bytes) -> tuple[str, str] | None:
        """Where bytes are no value of the schema, and why; None: they are one."""
        walk = self._walk
        fault = Fault(walk.walk(payload))
        if fault is Fault.NONE:
            return None
        facts = {"found": walk.found, "rest": walk.rest}
        if fault in {Fault.SYMBOL, Fault.BRANCH}:
            facts["count"] = self._program[walk.place + 1]
        return self._path(), _REASONS[fault].format_map(facts)

    def _path(self) -> str:
        """The way to the place where the machine stopped."""
        path: list[str] = []
        for opener, index in self._walk.frames():
            path += self._paths.get(opener, ())
            if index >= 0:
                path.append(str(index))
        path += self._paths.get(self._walk.place, ())
        return "".join(f"/{part}" for part in path)


class _Assembly:
    """A program while it is written."""

    def __init__(self, schema: AvroSchema) -> None:
        self.program = array("q")
        # The fields on the way to a step, from the frame that it runs in.
        self.paths: dict[int, tuple[str, ...]] = {}
        # The most frames that a value of no references opens.
        self.nested_max = 0
        self._nested = 0
        self._path: tuple[str, ...] = ()
        self._schema = schema
        self._addresses: dict[str, int] = {}
        self._is_called = _references(schema)
        self._write(schema.root)
        self._emit(Step.END)

    def _emit(self, *numbers: int) -> int:
        """Append a step and its numbers; returns its address."""
        place = len(self.program)
        self.program.extend(numbers)
        if self._path:
            self.paths[place] = self._path
        return place

    def _write(self, type_: AvroType) -> None:
        match type_:
            case Primitive(name=name):
                if _PRIMITIVES[name]:
                    self._emit(*_PRIMITIVES[name])
            case Fixed(size=size):
                self._emit(Step.SKIP, size)
            case Enumeration(symbols=symbols):
                self._emit(Step.ENUM, len(symbols))
            case Union(branches=branches):
                self._write_union(branches)
            case Array(items=items):
                self._write_blocks(items, has_keys=False)
            case MapOf(values=values):
                self._write_blocks(values, has_keys=True)
            case Reference(name=name):
                self._write_reference(name)
            case Record() if type_.name in self._is_called:
                self._write_callable(type_, is_counted=False)
            case Record():
                self._write_fields(type_)

    def _write_fields(self, record: Record) -> None:
        before = self._path
        for field in record.fields:
            self._path = (*before, field.name)
            self._write(field.type)
        self._path = before

    def _write_union(self, branches: Sequence[AvroType]) -> None:
        table = self._emit(Step.UNION, len(branches), *[0] * len(branches)) + 2
        jumps: list[int] = []
        for index, branch in enumerate(branches):
            self.program[table + index] = len(self.program)
            self._write(branch)
            if index < len(branches) - 1:
                jumps.append(self._emit(Step.JUMP, 0) + 1)
        for jump in jumps:
            self.program[jump] = len(self.program)

    def _write_blocks(self, items: AvroType, *, has_keys: bool) -> None:
        opener = self._emit(Step.BLOCKS, has_keys, 0)
        before = self._begin_frame()
        self._write(items)
        self._emit(Step.NEXT)
        self._end_frame(before)
        self.program[opener + 2] = len(self.program)

    def _write_reference(self, name: str) -> None:
        named = self._schema.named[name]
        if not isinstance(named, Record):
            self._write(named)
        elif name in self._addresses:
            self._emit(Step.CALL, self._addresses[name], True)
            self.nested_max = max(self.nested_max, self._nested + 1)
        else:
            self._write_callable(named, is_counted=True)

    def _write_callable(self, record: Record, *, is_counted: bool) -> None:
        """Write a record that is called from elsewhere too, and call it."""
        call = self._emit(Step.CALL, 0, is_counted)
        jump = self._emit(Step.JUMP, 0)
        self.program[call + 1] = self._addresses[record.name] = len(self.program)
        before = self._begin_frame()
        self._write_fields(record)
        self._emit(Step.RETURN)
        self._end_frame(before)
        self.program[jump + 1] = len(self.program)

    def _begin_frame(self) -> tuple[str, ...]:
        """What follows runs in a frame of its own; returns the path to it."""
        before, self._path = self._path, ()
        self._nested += 1
        self.nested_max = max(self.nested_max, self._nested)
        return before

    def _end_frame(self, before: tuple[str, ...]) -> None:
        self._path = before
        self._nested -= 1


def _references(schema: AvroSchema) -> frozenset[str]:
    """The names that anything refers to."""
    found: list[str] = []
    waiting: list[AvroType] = [schema.root, *schema.named.values()]
    while waiting:
        match waiting.pop():
            case Reference(name=name):
                found.append(name)
            case Union(branches=branches):
                waiting += branches
            case Array(items=inner) | MapOf(values=inner):
                waiting.append(inner)
            case Record(fields=fields):
                waiting += [field.type for field in fields]
            case _:
                pass
    return frozenset(found)
