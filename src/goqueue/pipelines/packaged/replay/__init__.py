"""Rows of a topic, or of its archive, sent to another topic: each once, no faster than allowed."""

from goqueue.pipelines.packaged.replay.options import ReplayOptions
from goqueue.pipelines.packaged.replay.plan import (
    Done,
    FileSpan,
    Plan,
    Stretch,
    chunk,
    files_of,
    load,
    pause_s,
    save,
)
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
    "FileSpan",
    "Plan",
    "ReplayOptions",
    "Replayed",
    "Stretch",
    "chunk",
    "files_of",
    "load",
    "make_plan",
    "pause_s",
    "plan_of_archive",
    "replay",
    "save",
    "shown",
]
