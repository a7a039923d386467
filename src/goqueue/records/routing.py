"""Which partition each record of a published batch goes to, and the batch taken apart by that.

Owns the hash and the round robin of the contract. For batches that were verified; every hop is
bounds checked all the same, and memory is taken for bytes that were seen, never for a length
that is merely announced. Never changes a record: a part is its records, byte for byte.

Invariant: every record is in exactly one part, in the order of the batch, or is unroutable.
"""

import enum
from array import array

import msgspec

from goqueue.model import GIVEN_HEADERS_BYTES_MAX
from goqueue.records.cursor import Cursor
from goqueue.records.layout import BATCH_HEADER_START, Buffer

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import BAD_HEADER_COUNT, IS_COMMIT, IS_CONTROL, IS_DELAYED, OK
    from goqueue.records.octets import hash_bytes


class Unroutable(enum.IntEnum):
    """Why a record goes nowhere; stands where the number of its partition would."""

    TOO_LARGE = -2
    NO_KEY = -3
    NO_PARTITION = -4
    BAD_PARTITION = -5
    RESERVED = -6
    HEADERS = -7


# The same as plain integers: the compiled loop runs without Python objects.
_TOO_LARGE = int(Unroutable.TOO_LARGE)
_NO_KEY = int(Unroutable.NO_KEY)
_NO_PARTITION = int(Unroutable.NO_PARTITION)
_BAD_PARTITION = int(Unroutable.BAD_PARTITION)
_RESERVED = int(Unroutable.RESERVED)
_HEADERS = int(Unroutable.HEADERS)

LANES = 5
# Name and value of the header `gq.deliver-at`.
_DELIVERY_BYTES = 13 + 19
# The same with their lengths, as they stand in the block of headers.
_DELIVERY_BLOCK_BYTES = _DELIVERY_BYTES + 4
_HEADERS_BYTES_MAX = GIVEN_HEADERS_BYTES_MAX


class Routed(msgspec.Struct, frozen=True):
    """A batch by partition, the target of each record, and the turn to go on with.

    A target is the number of a partition, or one of Unroutable. `lanes` counts what goes somewhere
    by priority.
    """

    parts: dict[int, bytearray]
    targets: list[int]
    turn: int
    lanes: "array[int]"


def route(
    batch: Buffer,
    partitions: int,
    turn: int,
    targets: list[int] | None,
    *,
    body_bytes_max: int,
    needs_key: bool,
    may_delay: bool = False,
) -> Routed:
    """Send each record to its explicit target, else by its key, else to whose turn it is.

    A target of -1 is none. Only what is sent by turn uses one up, so that whoever hands the
    turn on fills all partitions evenly. A bytearray that goes to one partition as a whole
    becomes that part itself: the caller hands it over.
    """
    if partitions < 1 or turn < 0:
        raise IndexError(f"turn {turn} of {partitions} partitions")
    cursor = Cursor(batch)
    plan = Plan(partitions, turn % partitions, body_bytes_max, needs_key, may_delay)
    plan.place_all(cursor, targets)
    if targets is not None and len(targets) != cursor.count:
        raise IndexError(f"{len(targets)} targets for {cursor.count} records")
    return Routed(plan.part(cursor, batch), plan.placed, turn + plan.turned, plan.lanes)


def is_marked(cursor: Cursor) -> bool:
    """Whether a record begins its headers with the mark of a batch, which only the log sets."""
    return cursor.headers_length > 0 and cursor.headers()[2:12] == BATCH_HEADER_START


class Plan:
    """Where the records of one batch go: the target of each, and the bytes for each target."""

    __slots__ = (
        "_body_bytes_max",
        "_forbidden",
        "_needs_key",
        "_next",
        "_partitions",
        "_sizes",
        "lanes",
        "placed",
        "turned",
    )

    def __init__(
        self, partitions: int, first: int, body_bytes_max: int, needs_key: bool, may_delay: bool
    ) -> None:
        self._partitions = partitions
        self._next = first
        self._body_bytes_max = body_bytes_max
        self._needs_key = needs_key
        self._forbidden = IS_CONTROL | IS_COMMIT | (0 if may_delay else IS_DELAYED)
        self._sizes = array("q", bytes(8 * partitions))
        self.placed: list[int] = []
        self.turned = 0
        self.lanes = array("q", bytes(8 * LANES))

    def place_all(self, cursor: Cursor, targets: list[int] | None) -> None:
        """Hop through the batch, and note the target of each record and what each target gets."""
        sizes = self._sizes
        lanes = self.lanes
        placed = self.placed
        position = 0
        cursor.count = 0
        while position < cursor.size:
            reason = cursor.skim(position)
            if reason != OK:
                raise cursor.corrupt(reason)
            given_bytes = cursor.given_bytes()
            if given_bytes < 0:
                raise cursor.corrupt(BAD_HEADER_COUNT)
            block_bytes = cursor.headers_length
            if cursor.flags & IS_DELAYED:
                # The header that makes it a delayed message was not given by the caller.
                given_bytes -= _DELIVERY_BYTES
                block_bytes -= _DELIVERY_BLOCK_BYTES
            if cursor.flags & self._forbidden or is_marked(cursor):
                target = _RESERVED
            elif given_bytes > self._body_bytes_max:
                target = _TOO_LARGE
            elif block_bytes > _HEADERS_BYTES_MAX:
                target = _HEADERS
            elif self._needs_key and cursor.key_length == 0:
                target = _NO_KEY
            elif targets is None:
                target = self._choose(cursor)
            else:
                target = self._obey(cursor, targets[cursor.count])
            if target >= 0:
                sizes[target] += cursor.end - position
                if cursor.priority < LANES:
                    lanes[cursor.priority] += 1
            placed.append(target)
            position = cursor.end
            cursor.count += 1

    def _choose(self, cursor: Cursor) -> int:
        """By the key; without one, whose turn it is."""
        if cursor.key_length > 0:
            return cursor.hash_key() % self._partitions
        target = self._next
        self._next = target + 1 if target + 1 < self._partitions else 0
        self.turned += 1
        return target

    def _obey(self, cursor: Cursor, wanted: int) -> int:
        """The explicit target; a number that a caller made up may be of any size."""
        if wanted == -1:
            return self._choose(cursor)
        if wanted < 0:
            return _BAD_PARTITION
        if wanted >= self._partitions:
            return _NO_PARTITION
        return wanted

    def part(self, cursor: Cursor, batch: Buffer) -> dict[int, bytearray]:
        """The records of each target one after the other, in buffers of just their size."""
        sizes = self._sizes
        parts: dict[int, bytearray] = {}
        for target in range(self._partitions):
            size = sizes[target]
            if size == 0:
                continue
            if size == cursor.size:
                parts[target] = batch if type(batch) is bytearray else bytearray(batch)
                return parts
            parts[target] = bytearray(size)
        if parts:
            self._fill(cursor, parts)
        return parts

    def _fill(self, cursor: Cursor, parts: dict[int, bytearray]) -> None:
        into: list[Cursor | None] = [None] * self._partitions
        for target, part in parts.items():
            into[target] = Cursor(part)
        position = 0
        for target in self.placed:
            reason = cursor.skim(position)
            # Only if someone wrote to the batch since it was measured.
            if reason != OK:
                raise cursor.corrupt(reason)
            if target >= 0:
                copy = into[target]
                assert copy is not None
                cursor.copy(copy)
            position = cursor.end


def murmur3(data: Buffer) -> int:
    """MurmurHash3 x86 32-bit with seed 0: the hash that spreads keys over partitions."""
    if type(data) is bytes:
        # Keys are short: to make a cursor would cost several times the hash.
        return hash_bytes(data)
    return Cursor(data).hash_all()
