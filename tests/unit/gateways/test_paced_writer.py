"""Large writes to a TLS transport: in order, in pieces, and only while it has room."""

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from goqueue.gateways.paced_writer import PIECE_BYTES, PacedWriter


class Pipe(asyncio.Transport):
    """A transport that records writes and has enough when more than `room` bytes wait in it."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.writes: list[bytes] = []
        self.waiting = 0
        self.closes = 0
        self.enough: Callable[[], None] = lambda: None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closes
        self.writes.append(bytes(data))
        self.waiting += len(data)
        if self.waiting > self.room:
            self.enough()

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def close(self) -> None:
        self.closes += 1


class Turns:
    """The loop as far as the writer needs it."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        due, self.soon = self.soon, []
        for callback in due:
            callback()


class Scene:
    def __init__(self, room: int = 10**9) -> None:
        self.pipe, self.turns, self.drained = Pipe(room), Turns(), 0
        self.writer = PacedWriter(self.pipe, self.turns, self._drain)  # type: ignore[arg-type]  # as far as it needs a loop
        self.pipe.enough = self.writer.pause

    def _drain(self) -> None:
        self.drained += 1

    def read(self) -> None:
        """The client reads everything that was sent."""
        self.pipe.waiting = 0
        self.writer.resume()
        self.turns.turn()


def test_a_small_write_passes_through_as_it_is() -> None:
    scene = Scene()
    scene.writer.write(b"x" * PIECE_BYTES)

    assert scene.pipe.writes == [b"x" * PIECE_BYTES]
    assert not scene.writer.is_pending


def test_a_large_write_goes_in_pieces_and_stops_when_the_transport_has_enough() -> None:
    scene = Scene(room=PIECE_BYTES)
    scene.writer.write(bytes(10 * PIECE_BYTES))

    assert [len(each) for each in scene.pipe.writes] == [PIECE_BYTES] * 2
    assert scene.writer.is_pending
    assert scene.writer.get_write_buffer_size() == 10 * PIECE_BYTES
    scene.turns.turn()
    assert len(scene.pipe.writes) == 2


def test_one_turn_hands_over_a_mebibyte_at_most() -> None:
    scene = Scene()
    scene.writer.write(bytes(40 * PIECE_BYTES))

    assert len(scene.pipe.writes) == 16
    scene.turns.turn()
    assert len(scene.pipe.writes) == 32
    assert scene.drained == 0
    scene.turns.turn()
    assert len(scene.pipe.writes) == 40
    assert scene.drained == 1


def test_a_close_waits_for_what_was_written_before_it() -> None:
    scene = Scene(room=PIECE_BYTES)
    scene.writer.write(bytes(5 * PIECE_BYTES))
    scene.writer.close()

    assert scene.pipe.closes == 0
    scene.read()
    scene.read()
    assert scene.pipe.closes == 1
    assert sum(map(len, scene.pipe.writes)) == 5 * PIECE_BYTES
    assert scene.drained == 0


def test_nothing_is_written_after_the_transport_was_lost() -> None:
    scene = Scene(room=PIECE_BYTES)
    scene.writer.write(bytes(5 * PIECE_BYTES))
    scene.writer.resume()
    scene.writer.clear()
    scene.turns.turn()

    assert len(scene.pipe.writes) == 2
    assert scene.drained == 0


@given(
    sizes=st.lists(st.integers(0, 3 * PIECE_BYTES), max_size=6),
    room=st.integers(1, 4 * PIECE_BYTES),
)
def test_every_byte_leaves_once_and_in_order(sizes: list[int], room: int) -> None:
    scene = Scene(room)
    written = [bytes([number]) * size for number, size in enumerate(sizes)]
    for each in written:
        scene.writer.write(each)
    for _ in range(sum(sizes) // PIECE_BYTES + len(sizes) + 1):
        assert scene.pipe.waiting <= room + PIECE_BYTES or not scene.writer.is_pending
        scene.read()

    assert b"".join(scene.pipe.writes) == b"".join(written)
    assert all(len(each) <= PIECE_BYTES for each in scene.pipe.writes)
    assert not scene.writer.is_pending
