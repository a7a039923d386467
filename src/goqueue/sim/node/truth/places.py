"""Where a message stands."""

import msgspec

__all__ = ["Place"]


class Place(msgspec.Struct, frozen=True, order=True):
    """An offset of a partition."""

    partition: int
    offset: int
