"""Dead letters: a report by origin, group and reason, and the way back for those selected."""

from goqueue.pipelines.packaged.redrive.letters import LetterGroup, Report, Sample
from goqueue.pipelines.packaged.redrive.options import RedriveOptions
from goqueue.pipelines.packaged.redrive.running import redrive

__all__ = [
    "LetterGroup",
    "RedriveOptions",
    "Report",
    "Sample",
    "redrive",
]
