# cython: boundscheck=False, wraparound=False
"""A machine that goes past Avro values by a program, and builds nothing.

Compiled, because it takes a step for each part of each value that is published. A program is a
schema as one row of numbers; its author answers for its addresses. The bytes are of anyone: every
length is checked before it is used, and items, calls and steps are bounded, so that a few bytes
never mean much work. The stack is the machine's own, because input decides how deep it grows.

Invariant: what is accepted is one value to its last byte; nothing outside [start, end) is read.
Cost: one step for each part of a value; at most 300,000, and two for each byte.
"""

import enum
from array import array

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records import address, is_utf8

__all__ = ["CALLS_MAX", "ITEMS_MAX", "AvroWalk", "Fault", "Step"]

CALLS_MAX = 64
ITEMS_MAX = 100_000


class Step(enum.IntEnum):
    """What a program does; the numbers that follow a step are named behind it."""

    END = 0
    # Bits that the number may have.
    VARINT = 1
    BOOLEAN = 2
    # Bytes.
    SKIP = 3
    BYTES = 4
    TEXT = 5
    # Symbols.
    ENUM = 6
    # Branches, then the address of each.
    UNION = 7
    # An address.
    JUMP = 8
    # Whether items have keys, then the address behind the last item. The steps of an item follow.
    BLOCKS = 9
    # The end of an item.
    NEXT = 10
    # An address, then whether it counts against `CALLS_MAX`.
    CALL = 11
    RETURN = 12


class Fault(enum.IntEnum):
    """What is wrong with a value."""

    NONE = 0
    EARLY = 1
    TEN_BYTES = 2
    LARGE = 3
    LENGTH = 4
    TEXT = 5
    BOOLEAN = 6
    INT = 7
    SYMBOL = 8
    BRANCH = 9
    BLOCK_SIZE = 10
    ITEMS = 11
    CALLS = 12
    FRAMES = 13
    STEPS = 14
    MORE = 15


_END, _VARINT, _BOOLEAN, _SKIP = Step.END, Step.VARINT, Step.BOOLEAN, Step.SKIP
_BYTES, _TEXT, _ENUM, _UNION = Step.BYTES, Step.TEXT, Step.ENUM, Step.UNION
_BLOCKS, _NEXT, _CALL, _RETURN, _JUMP = Step.BLOCKS, Step.NEXT, Step.CALL, Step.RETURN, Step.JUMP
_OK, _EARLY, _TEN_BYTES, _LARGE = Fault.NONE, Fault.EARLY, Fault.TEN_BYTES, Fault.LARGE
_LENGTH, _NO_TEXT, _NO_BOOLEAN, _NO_INT = Fault.LENGTH, Fault.TEXT, Fault.BOOLEAN, Fault.INT
_SYMBOL, _BRANCH, _BLOCK_SIZE, _ITEMS = Fault.SYMBOL, Fault.BRANCH, Fault.BLOCK_SIZE, Fault.ITEMS
_CALLS, _FRAMES, _STEPS, _MORE = Fault.CALLS, Fault.FRAMES, Fault.STEPS, Fault.MORE
_CALLS_MAX, _ITEMS_MAX, _STEPS_MAX = CALLS_MAX, ITEMS_MAX, 300_000
_INT_BITS = 32
_SHIFT_MAX = 63
# A frame: the address of the step that opened it, items left of the block, index of the item.
_FRAME = 3


class AvroWalk:
    """A program, and what is wrong with the value that it walked last."""

    __slots__ = (
        "_calls",
        "_items",
        "_number",
        "_program",
        "_stack",
        "_top",
        "place",
        "reason",
        "rest",
    )

    def __init__(self, program: "array[int]", frames: int) -> None:
        self._program = program
        self._stack = array("q", bytes(8 * _FRAME * max(frames, 1)))
        self._top = self._calls = self._items = self._number = 0
        # Why it is no value, the step that says so, and how many bytes it left.
        self.reason = self.place = self.rest = 0

    def find_refused(
        self, data: bytearray | bytes, starts: "array[int]", ends: "array[int]"
    ) -> list[int]:
        """Which of the values data[start:end] are none, by their indexes."""
        view = memoryview(data)
        size = len(view)
        base = address(view)
        first = starts
        last = ends
        refused: list[int] = []
        for index in range(len(starts)):
            assert 0 <= first[index] <= last[index] <= size, "a value lies in its batch"
            if self._walk(base, first[index], last[index]) != _OK:
                refused.append(index)
        return refused

    def walk(self, data: bytes) -> int:
        """Go past one value; returns what is wrong with it, as a `Fault`."""
        view = memoryview(data)
        return self._walk(address(view), 0, len(view))

    @property
    def found(self) -> int:
        """The number that was read last."""
        number = int(self._number)
        return -(number >> 1) - 1 if number & 1 else number >> 1

    def frames(self) -> list[tuple[int, int]]:
        """Where the machine stopped: the address and the item of each open frame; -1: a call."""
        stack = self._stack
        return [
            (int(stack[top]), int(stack[top + 2]) if stack[top + 1] >= 0 else -1)
            for top in range(0, self._top, _FRAME)
        ]

    def _read(self, base: memoryview, position: int, end: int) -> int:
        """Read a number as it is written; the position behind it, or what is wrong, negative."""
        number = 0
        shift = 0
        while position < end:
            octet = base[position]
            position += 1
            if shift == _SHIFT_MAX and octet > 1:
                return -_TEN_BYTES if octet > 127 else -_LARGE
            number |= (octet & 127) << shift
            if octet < 128:
                self._number = number
                return position
            shift += 7
        return -_EARLY

    def _skip_number(self, base: memoryview, position: int, end: int, bits: int) -> int:
        """Go past a number of at most so many bits; the position, or what is wrong, negative."""
        position = self._read(base, position, end)
        if position >= 0 and bits == _INT_BITS and self._number >> _INT_BITS != 0:
            return -_NO_INT
        return position

    def _skip_octets(self, base: memoryview, position: int, end: int, is_text: bool) -> int:
        """Go past a length and so many bytes; the position, or what is wrong, negative."""
        position = self._read(base, position, end)
        if position < 0:
            return position
        length = self._number >> 1
        # An odd number is negative.
        if self._number & 1 or length > end - position:
            return -_LENGTH
        after = position + length
        return -_NO_TEXT if is_text and not is_utf8(base, position, after) else after

    def _walk(self, base: memoryview, position: int, end: int) -> int:  # noqa: C901 - no calls
        program = self._program
        self._top = self._calls = 0
        self._items = _ITEMS_MAX
        place = 0
        steps = _STEPS_MAX + 2 * (end - position)
        reason: int = _OK
        while reason == _OK:
            step = program[place]
            steps -= 1
            if steps < 0:
                reason = _STEPS
            elif step == _VARINT:
                # One byte is a number of any type.
                if position < end and base[position] < 128:
                    position += 1
                else:
                    position = self._skip_number(base, position, end, program[place + 1])
                if position >= 0:
                    place += 2
            elif step in (_TEXT, _BYTES):
                position = self._skip_octets(base, position, end, step == _TEXT)
                place += position >= 0
            elif step == _SKIP:
                if program[place + 1] > end - position:
                    reason = _EARLY
                else:
                    position += program[place + 1]
                    place += 2
            elif step in (_UNION, _ENUM):
                position = self._read(base, position, end)
                if position >= 0:
                    number = self._number
                    if number & 1 or number >> 1 >= program[place + 1]:
                        reason = _BRANCH if step == _UNION else _SYMBOL
                    elif step == _UNION:
                        place = program[place + 2 + (number >> 1)]
                    else:
                        place += 2
            elif step == _BOOLEAN:
                if position >= end or base[position] > 1:
                    reason = _EARLY if position >= end else _NO_BOOLEAN
                position += 1
                place += reason == _OK
            elif step == _JUMP:
                place = program[place + 1]
            elif step == _END:
                break
            else:
                self.place = place
                position = self._turn(base, position, end, step)
                place = self.place
            if position < 0:
                reason = -position
        if reason == _OK and position != end:
            reason = _MORE
        self.reason = reason
        self.place = place
        self.rest = end - position
        return reason

    def _turn(self, base: memoryview, position: int, end: int, step: int) -> int:
        """Go to another place of the program; the position, or what is wrong, negative."""
        program = self._program
        stack = self._stack
        top = self._top
        place = self.place
        if step == _NEXT:
            return self._next_item(base, position, end)
        if step == _RETURN:
            self._top = top - _FRAME
            place = stack[top - 3]
            self._calls -= program[place + 2]
            self.place = place + 3
            return position
        if top >= len(stack):
            return -_FRAMES
        stack[top] = place
        if step == _BLOCKS:
            stack[top + 1] = 0
            stack[top + 2] = -1
            self._top = top + _FRAME
            return self._next_item(base, position, end)
        self._calls += program[place + 2]
        if self._calls > _CALLS_MAX:
            return -_CALLS
        stack[top + 1] = -1
        self._top = top + _FRAME
        self.place = program[place + 1]
        return position

    def _next_item(self, base: memoryview, position: int, end: int) -> int:
        """Go to the next item of the innermost array or map, or behind the last one."""
        program = self._program
        stack = self._stack
        top = self._top
        opener = stack[top - 3]
        if stack[top - 2] == 0:
            # What is wrong with a block is wrong with the array, not with an item.
            self._top = top - _FRAME
            self.place = opener
            position = self._read_count(base, position, end)
            if position < 0:
                return position
            if self._number == 0:
                self.place = program[opener + 2]
                return position
            self._top = top
            stack[top - 2] = self._number
        stack[top - 2] -= 1
        stack[top - 1] += 1
        if program[opener + 1] != 0:
            # A key has no step of its own; the place of none is that of the item.
            self.place = opener + 1
            position = self._skip_octets(base, position, end, True)
            if position < 0:
                return position
        self.place = opener + 3
        return position

    def _read_count(self, base: memoryview, position: int, end: int) -> int:
        """Read how many items a block has; the position, or what is wrong, negative."""
        position = self._read(base, position, end)
        if position < 0:
            return position
        number = self._number
        count = number >> 1
        if number & 1:
            # The count is negative, and the size of the block follows: for those who skip it.
            count += 1
            position = self._read(base, position, end)
            if position < 0:
                return position
            if self._number & 1:
                return -_BLOCK_SIZE
        if count > self._items:
            return -_ITEMS
        self._items -= count
        self._number = count
        return position
