"""Topics as the driver sees them: which there are, where they begin and end, where a read does.

Asks the broker, and leaves the arithmetic to `offsets`. What a user asked for and is not there is
told by the name of the option.
"""

import time
from collections.abc import Mapping, Sequence

import msgspec

from goqueue.client import TopicNotFound
from goqueue.spark.broker import TopicView, broker
from goqueue.spark.offsets import Edge, Positions, resolve
from goqueue.spark.options import OptionInvalid, Place, ReadOptions
from goqueue.spark.reading.loss import lose

__all__ = [
    "born_of",
    "check_bounds",
    "check_known",
    "edges_of",
    "ends_of",
    "find_place",
    "frozen",
    "reborn",
    "views_of",
    "within",
]

Edges = dict[str, dict[int, Edge]]
_INTERNAL = "__"


def views_of(options: ReadOptions) -> list[TopicView]:
    """The topics as they are now. Those that a pattern names may be none."""
    link = broker(options.link)
    topics: Sequence[str] = options.topics
    if options.pattern is not None:
        names = link.topics()
        topics = [each for each in names if options.reads(each) and not each.startswith(_INTERNAL)]
    views = []
    for topic in topics:
        try:
            view = link.view(topic, options.isolation)
        except TopicNotFound as error:
            if options.pattern is not None:
                # Deleted since it was listed.
                continue
            raise OptionInvalid(options.way, f"there is no topic {topic!r}") from error
        wanted = options.assigned.get(topic)
        if wanted is not None:
            missing = [number for number in wanted if number not in view.edges]
            if missing:
                raise OptionInvalid("assign", f"{topic!r} has no partition {missing[0]}")
            kept = {number: view.edges[number] for number in wanted}
            view = msgspec.structs.replace(view, edges=kept)
        views.append(view)
    return views


def edges_of(views: Sequence[TopicView]) -> Edges:
    return {view.name: view.edges for view in views}


def born_of(views: Sequence[TopicView]) -> dict[str, str]:
    return {view.name: view.born for view in views}


def ends_of(edges: Mapping[str, Mapping[int, Edge]]) -> dict[str, dict[int, int]]:
    return {
        topic: {number: edge.end for number, edge in each.items()} for topic, each in edges.items()
    }


def frozen(edges: Edges, target: Mapping[str, Mapping[int, int]]) -> Edges:
    """The partitions as they were when the target was set; later ones are not there yet."""
    return {
        topic: {
            number: msgspec.structs.replace(edge, end=min(edge.end, target[topic][number]))
            for number, edge in each.items()
            if number in target.get(topic, {})
        }
        for topic, each in edges.items()
    }


def find_place(options: ReadOptions, place: Place, edges: Edges, born: dict[str, str]) -> Positions:
    """A place that was asked for, as offsets."""
    for topic in place.topics:
        if topic not in edges:
            raise OptionInvalid(place.option, f"there is no topic {topic!r}")
    link = broker(options.link)
    known: Mapping[str, Mapping[int, int]] = {}
    if place.word == "committed" and options.group is not None:
        known = link.committed(options.group)
    else:
        known = {
            topic: {
                number: _offset_at(options, place, topic, number, edges[topic][number])
                for number in each
                if number in edges[topic] and _time_us(place, topic, number) is not None
            }
            for topic, each in (place.times_us or edges).items()
        }
    return resolve(place, edges, born, known)


def _time_us(place: Place, topic: str, number: int) -> int | None:
    if place.ago_ms is not None:
        return time.time_ns() // 1000 - place.ago_ms * 1000
    if place.time_us is not None:
        return place.time_us
    return place.times_us.get(topic, {}).get(number)


def _offset_at(options: ReadOptions, place: Place, topic: str, number: int, edge: Edge) -> int:
    time_us = _time_us(place, topic, number)
    assert time_us is not None
    offset = min(broker(options.link).offset_at(topic, number, time_us, edge.end), edge.end)
    if place.is_late_error and offset == edge.end:
        words = f"{topic}/{number} has no record that is as late"
        raise OptionInvalid(
            place.option, f"{words}: `startingOffsetsByTimestampStrategy` is `error`"
        )
    return offset


def check_bounds(
    options: ReadOptions, start: Positions, edges: Mapping[str, Mapping[int, Edge]]
) -> None:
    """Offsets that a user gave are within the log, or it is told which are not."""
    for topic, offsets in options.start.offsets.items():
        for number in offsets:
            offset, edge = start.offsets[topic][number], edges[topic][number]
            if offset > edge.end:
                words = f"{topic}/{number} ends at {edge.end}, before {offset}"
                raise OptionInvalid(options.start.option, words)
            if offset < edge.earliest:
                lose(options, f"{topic}/{number} begins at {edge.earliest}, after {offset}")


def within(end: Positions, edges: Mapping[str, Mapping[int, Edge]]) -> Positions:
    """No further than there is something: what a bounded read waits for may never come."""
    offsets = {
        topic: {number: min(offset, edges[topic][number].end) for number, offset in each.items()}
        for topic, each in end.offsets.items()
    }
    return Positions(offsets, end.born)


def check_known(options: ReadOptions, begin: Positions, born: Mapping[str, str]) -> None:
    """Refuse a checkpoint of other topics, and topics that are others by the same name."""
    for topic in begin.offsets:
        if not options.reads(topic):
            words = f"the checkpoint is of topic {topic!r}, which is not read: use another one"
            raise OptionInvalid(options.way, words)
        if topic not in born:
            lose(options, f"topic {topic!r} was deleted")
        elif begin.born[topic] != born[topic]:
            lose(options, f"topic {topic!r} was deleted and made anew")


def reborn(begin: Positions, born: Mapping[str, str]) -> Positions:
    """Without the offsets of topics that were made anew: those are read from their beginning."""
    kept = {
        topic: each
        for topic, each in begin.offsets.items()
        if begin.born[topic] == born.get(topic, begin.born[topic])
    }
    return Positions(kept, begin.born)
