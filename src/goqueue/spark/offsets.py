"""Positions in topics, and the arithmetic on them: what is read next, and in which tasks.

Pure: told where partitions begin and end, never asks. Offsets are positions, not counts: between
two of them there may be fewer records than their difference, and a range may be empty.

Invariant: the JSON of equal positions is the same text, because Spark compares texts.
"""

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.spark.options import OptionInvalid, Place
from goqueue.spark.read_options import Span

__all__ = ["Edge", "Positions", "Range", "advance", "backlog", "plan", "resolve", "split"]


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition begins and ends for this reader, and how many bytes it has."""

    earliest: int
    end: int
    size_bytes: int = 0

    @property
    def record_bytes(self) -> float:
        """About how large a record is, its header included."""
        count = self.end - self.earliest
        return max(self.size_bytes / count, 35.0) if count > 0 and self.size_bytes > 0 else 100.0


class Positions(msgspec.Struct, frozen=True):
    """The next offset by topic and partition. `born` tells topics of one name apart."""

    offsets: dict[str, dict[int, int]]
    born: dict[str, str]

    def to_json(self) -> dict[str, dict[str, object]]:
        return {
            topic: {
                "born": self.born[topic],
                "offsets": {str(number): each for number, each in sorted(offsets.items())},
            }
            for topic, offsets in sorted(self.offsets.items())
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> "Positions":
        """Read what `to_json` made, which Spark kept as text."""
        topics = msgspec.convert(dict(stored), dict[str, _Stored])
        offsets = {
            topic: {int(number): offset for number, offset in each.offsets.items()}
            for topic, each in topics.items()
        }
        return cls(offsets, {topic: each.born for topic, each in topics.items()})


class _Stored(msgspec.Struct, frozen=True):
    born: str
    offsets: dict[str, int]


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """What one task reads. `is_new` says that the partition was not known before."""

    topic: str
    partition: int
    start: int
    end: int
    is_new: bool = False


Edges = dict[str, dict[int, Edge]]


def resolve(
    place: Place, edges: Edges, born: dict[str, str], known: Mapping[str, Mapping[int, int]]
) -> Positions:
    """A place as offsets. `known` are the committed offsets, or those of the time asked for."""
    offsets: dict[str, dict[int, int]] = {}
    for topic, partitions in edges.items():
        given = place.offsets.get(topic, {})
        for number in (*given, *place.times_us.get(topic, {})):
            if number not in partitions:
                raise OptionInvalid(place.option, f"{topic!r} has no partition {number} to read")
        offsets[topic] = {}
        for number, edge in partitions.items():
            rest = edge.end if place.rest == -1 else edge.earliest
            if place.offsets:
                found = given.get(number, place.rest)
                found = edge.end if found == -1 else edge.earliest if found == -2 else found
            elif place.word in {"", "committed"} and not place.back:
                found = known.get(topic, {}).get(number, rest)
            elif place.back:
                found = max(edge.end - place.back, edge.earliest)
            else:
                found = edge.earliest if place.word == "earliest" else edge.end
            offsets[topic][number] = found
    return Positions(offsets, dict(born))


def backlog(start: Positions, edges: Edges) -> int:
    """How many offsets are left."""
    return sum(
        max(0, edge.end - start.offsets.get(topic, {}).get(number, edge.earliest))
        for topic, partitions in edges.items()
        for number, edge in partitions.items()
    )


def advance(
    start: Positions, edges: Edges, born: dict[str, str], span: Span, *, is_all: bool = False
) -> Positions:
    """How far one trigger goes: as far as there is something, within the limits.

    A limit is shared by how much is left in each partition, one record at least for each that has
    any, so that none starves.
    """
    ends = {
        topic: {number: edge.end for number, edge in each.items()} for topic, each in edges.items()
    }
    left: dict[tuple[str, int], int] = {}
    size = 0.0
    for topic, partitions in edges.items():
        for number, edge in partitions.items():
            begin = start.offsets.get(topic, {}).get(number, edge.earliest)
            ends[topic][number] = max(begin, edge.end)
            if edge.end > begin:
                left[topic, number] = edge.end - begin
                size += (edge.end - begin) * edge.record_bytes
    total = sum(left.values())
    share = 1.0
    if span.trigger_records_max and not is_all:
        share = min(share, span.trigger_records_max / max(total, 1))
    if span.trigger_bytes_max and not is_all:
        share = min(share, span.trigger_bytes_max / max(size, 1.0))
    most = 0 if is_all else span.trigger_partition_max
    for (topic, number), count in left.items():
        taken = max(1, int(count * share)) if share < 1.0 else count
        ends[topic][number] += (min(taken, most) if most else taken) - count
    return Positions(ends, dict(born))


def plan(start: Positions, end: Positions) -> list[Range]:
    """What lies between two positions; the same for the same positions, whatever the broker says.

    A partition that the start does not know began after it, and so is read from its beginning.
    """
    ranges = []
    for topic, partitions in sorted(end.offsets.items()):
        known = start.offsets.get(topic, {})
        for number, upto in sorted(partitions.items()):
            begin = known.get(number, 0)
            if upto > begin:
                is_new = number not in known
                ranges.append(
                    Range(topic=topic, partition=number, start=begin, end=upto, is_new=is_new)
                )
    return ranges


def split(ranges: Sequence[Range], edges: Edges, span: Span) -> list[Range]:
    """The same ranges in pieces of about the size of a task, and as many as there should be."""
    pieces: list[Range] = []
    total = sum(each.end - each.start for each in ranges)
    most = max(1, total // span.tasks_min) if span.tasks_min else total
    for each in ranges:
        edge = edges.get(each.topic, {}).get(each.partition)
        record_bytes = 100.0 if edge is None else edge.record_bytes
        step = min(most, max(1, int(span.task_bytes_max / record_bytes)))
        if span.task_records_max:
            step = min(step, span.task_records_max)
        count = -(-(each.end - each.start) // step)
        bounds = [each.start + (each.end - each.start) * index // count for index in range(count)]
        pieces += [
            msgspec.structs.replace(each, start=first, end=upto)
            for first, upto in zip(bounds, [*bounds[1:], each.end], strict=True)
        ]
    return pieces
