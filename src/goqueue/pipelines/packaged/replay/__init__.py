"""Rows of a topic, or of its archive, sent to another topic: each once, no faster than allowed."""

from goqueue.pipelines.packaged.replay.options import ReplayOptions
from goqueue.pipelines.packaged.replay.plan import Done, Plan, Stretch, chunk, load, pause_s, save
from goqueue.pipelines.packaged.replay.running import (
    FROM_HEADER,
    Replayed,
    make_plan,
    plan_of_archive,
    replay,
    shown,
)

__all__ = [
    "FROM_HEADER",
    "Done",
    "Plan",
    "ReplayOptions",
    "Replayed",
    "Stretch",
    "chunk",
    "load",
    "make_plan",
    "pause_s",
    "plan_of_archive",
    "replay",
    "save",
    "shown",
]
