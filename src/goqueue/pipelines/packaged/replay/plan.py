"""What a replay sends, in which portions, and how far it has come.

Pure but for the two files of a checkpoint. The plan is made once and kept, so that a replay that
goes on sends what the one that stopped would have sent, in the same chunks by the same keys.

Invariant: chunks cut the offsets of every partition into ranges that touch and never overlap; a
chunk follows from the plan and its number.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from goqueue.pipelines.packaged.wiring import OptionWrong, PipelineFailed

__all__ = [
    "Done",
    "FileSpan",
    "Plan",
    "Stretch",
    "chunk",
    "files_of",
    "load",
    "pause_s",
    "save",
]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a partition, the end not included. There may be fewer rows than offsets."""

    partition: int
    start: int
    end: int


class FileSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an archive, and the offsets that are in it."""

    path: str
    stretches: tuple[Stretch, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that is sent. `since_us` and `until_us` also bound the rows of an archive by time."""

    identity: str
    fingerprint: str
    topic: str
    stretches: tuple[Stretch, ...]
    chunk_rows: int
    files: tuple[FileSpan, ...] = ()
    since_us: int | None = None
    until_us: int | None = None

    @property
    def span(self) -> int:
        """Offsets in sum: as many rows at most."""
        return sum(each.end - each.start for each in self.stretches)

    @property
    def chunks(self) -> int:
        return -(-self.span // self.chunk_rows)


class Done(msgspec.Struct, frozen=True):
    """How many chunks were sent, and the rows in them."""

    chunks: int = 0
    rows: int = 0


def chunk(plan: Plan, number: int) -> list[Stretch]:
    """The part of every stretch that is sent by one decision; all go on at the same pace."""
    count = plan.chunks
    found = []
    for each in plan.stretches:
        span = each.end - each.start
        start, end = (each.start + span * edge // count for edge in (number, number + 1))
        if start < end:
            found.append(Stretch(partition=each.partition, start=start, end=end))
    return found


def files_of(plan: Plan, wanted: Sequence[Stretch]) -> list[str]:
    """The files that may hold some of these rows."""
    bounds = {each.partition: each for each in wanted}

    def overlaps(held: Stretch) -> bool:
        each = bounds.get(held.partition)
        return each is not None and held.start < each.end and each.start < held.end

    return [file.path for file in plan.files if any(map(overlaps, file.stretches))]


def pause_s(rows: int, elapsed_s: float, rate: float) -> float:
    """How long to wait after so many rows, so that they were no faster than the rate."""
    return max(0.0, rows / rate - elapsed_s) if rate else 0.0


_PLANS = msgspec.json.Decoder(Plan)
_DONE = msgspec.json.Decoder(Done)


def load(checkpoint: Path, fingerprint: str) -> tuple[Plan, Done] | None:
    """The replay that this folder keeps; None if there is none yet."""
    path = checkpoint / "plan.json"
    if not path.exists():
        return None
    done = checkpoint / "done.json"
    try:
        plan = _PLANS.decode(path.read_bytes())
        progress = _DONE.decode(done.read_bytes()) if done.exists() else Done()
    except msgspec.MsgspecError as error:
        raise PipelineFailed(f"{checkpoint} is no checkpoint of a replay: {error}") from error
    if plan.fingerprint != fingerprint:
        raise OptionWrong("--checkpoint", f"{checkpoint} is of a replay with other options")
    return plan, progress


def save(checkpoint: Path, kept: Plan | Done) -> None:
    """Keep the plan, or how far it has come: as a whole or not at all."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    path = checkpoint / ("plan.json" if isinstance(kept, Plan) else "done.json")
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(msgspec.json.encode(kept))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
