"""Records that were to be read and are gone: an error, or a warning where that is wanted."""

import logging

from goqueue.spark.options import ReadOptions

__all__ = ["DataLost", "lose"]

_LOG = logging.getLogger(__name__)


class DataLost(RuntimeError):
    """Records that were to be read are gone; `failOnDataLoss=false` goes on without them."""


def lose(options: ReadOptions, words: str) -> None:
    """Fail because of what is lost, or say so and go on."""
    if options.fails_on_loss:
        raise DataLost(f"{words}; `failOnDataLoss=false` goes on without what is lost")
    _LOG.warning("%s; going on without what is lost", words)
