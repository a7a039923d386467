"""The known name that an unknown one was probably meant to be."""

from collections.abc import Iterable

__all__ = ["nearest_name"]

# Comparing is quadratic in the length, and names come from anybody.
_COMPARED_LENGTH_MAX = 100


def nearest_name(given: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the given one; None if none is."""
    # Nearly nobody needs it, and everybody who imports the client would wait for it.
    import difflib

    near = difflib.get_close_matches(given[:_COMPARED_LENGTH_MAX], known, n=1)
    return near[0] if near else None
