"""How long a message that was given back rests before it is delivered again."""

from goqueue.model import SECOND

__all__ = ["rest_ns"]

_FIRST_NS = SECOND
_REST_NS_MAX = 60 * SECOND
_DOUBLINGS_MAX = 6


def rest_ns(attempt: int) -> int:
    """One second after the first delivery, twice as long after each further one, at most 60 s."""
    return min(_REST_NS_MAX, _FIRST_NS << min(attempt - 1, _DOUBLINGS_MAX))
