"""The bounds on open files that all logs of a data directory share."""

import msgspec

from goqueue.storage.segment.open_actives import OpenActives
from goqueue.storage.segment.open_segments import OpenSegments

__all__ = ["Pools"]


class Pools(msgspec.Struct, frozen=True, kw_only=True):
    """Sealed segments with their indexes, and the files of active ones."""

    sealed: OpenSegments
    actives: OpenActives
