"""What to try instead: the name that was probably meant, the extra that has to be installed."""

from collections.abc import Iterable

__all__ = ["nearest_name", "ways_to_install"]

# Where the package comes from: a release changes it here and in docs/guides/install.md.
_SOURCE = "."
_SOURCE_PLACE = "in a clone"

# Comparing is quadratic in the length, and names come from anybody.
_COMPARED_LENGTH_MAX = 100


def nearest_name(given: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the given one; None if none is."""
    # Nearly nobody needs it, and everybody who imports the client would wait for it.
    import difflib

    near = difflib.get_close_matches(given[:_COMPARED_LENGTH_MAX], known, n=1)
    return near[0] if near else None


def ways_to_install(extra: str) -> str:
    """How to add an extra of the package that is not installed."""
    return f"pip install '{_SOURCE}[{extra}]' {_SOURCE_PLACE}, or see docs/guides/install.md"
