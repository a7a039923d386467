"""What follows a handler that raised: another delivery after a wait, or the dead letters.

Pure: told the exception and which delivery it was, and given chance. Deliveries are counted by the
broker, so a worker that was killed has used one up, and the count survives restarts. The waits are
the delays of nacks: between two deliveries the message is with the broker, and any worker of the
group may get it.

Invariant: a wait lies between half of the bound and the bound, which doubles with each delivery up
to `wait_s_max`. Imports nothing that `import goqueue` should not cost.
"""

from typing import Protocol

from goqueue.client.option_checks import check_count, check_seconds

__all__ = ["Reject", "Retry", "RetryLater", "reason_of"]

# The broker takes no longer delay of a nack, and cuts longer reasons.
_WAIT_S_MAX = 12 * 3600.0
_REASON_CHARACTERS_MAX = 1000
_DOUBLINGS_MAX = 40


class _Chance(Protocol):
    def random(self) -> float: ...


class Reject(Exception):
    """Raised by a handler: no retry; the message goes to the dead letters with this reason."""


class RetryLater(Exception):
    """Raised by a handler: deliver the message again after `delay_s`, whatever the policy says.

    Without a delay the policy decides how long. The attempts are counted all the same.
    """

    def __init__(self, reason: str = "", *, delay_s: float | None = None) -> None:
        super().__init__(reason)
        self.delay_s = None if delay_s is None else check_seconds("delay_s", delay_s, _WAIT_S_MAX)


class Retry:
    """Which failures of a handler are retried, how often, and after which waits.

    `attempts` counts deliveries, the first one included; None leaves the number to the topic's
    `max_deliveries`, which bounds it in any case. Exceptions that are not `on` this list go to the
    dead letters at once.
    """

    __slots__ = ("attempts", "first_wait_s", "on", "wait_s_max")

    def __init__(
        self,
        *,
        attempts: int | None = None,
        first_wait_s: float = 1.0,
        wait_s_max: float = 60.0,
        on: type[Exception] | tuple[type[Exception], ...] = Exception,
    ) -> None:
        if attempts is not None:
            check_count("attempts (1 means no retry)", attempts, 1)
        check_seconds("wait_s_max", wait_s_max, _WAIT_S_MAX)
        check_seconds("first_wait_s", first_wait_s, _WAIT_S_MAX)
        if first_wait_s > wait_s_max:
            raise ValueError(
                f"first_wait_s ({first_wait_s:g}) is above wait_s_max ({wait_s_max:g})"
            )
        kinds = on if isinstance(on, tuple) else (on,)
        _check_exceptions(kinds)
        self.attempts = attempts
        self.first_wait_s = first_wait_s
        self.wait_s_max = wait_s_max
        self.on = kinds

    def wait_s(self, error: BaseException, delivery: int, chance: _Chance) -> float | None:
        """How long to wait before the next delivery; None if there is to be none."""
        if isinstance(error, Reject) or self.is_last(delivery):
            return None
        if isinstance(error, RetryLater):
            return self._backoff_s(delivery, chance) if error.delay_s is None else error.delay_s
        return self._backoff_s(delivery, chance) if isinstance(error, self.on) else None

    def is_last(self, delivery: int) -> bool:
        """Whether the policy allows no delivery after this one."""
        return self.attempts is not None and delivery >= self.attempts

    def _backoff_s(self, delivery: int, chance: _Chance) -> float:
        doublings = min(max(delivery - 1, 0), _DOUBLINGS_MAX)
        bound_s = min(self.wait_s_max, self.first_wait_s * float(2**doublings))
        return bound_s * (0.5 + 0.5 * chance.random())


def _check_exceptions(kinds: tuple[object, ...]) -> None:
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise TypeError(f"on names exceptions to retry, not {kind!r}")


def reason_of(error: BaseException) -> str:
    """The last line of the traceback, as one line; what a `Reject` was raised with."""
    if isinstance(error, Reject | RetryLater) and str(error):
        words = str(error)
    else:
        import traceback

        words = "".join(traceback.format_exception_only(error))
        inner = error
        while isinstance(inner, BaseExceptionGroup):
            # "unhandled errors in a TaskGroup" alone helps nobody: the first of them does.
            inner = inner.exceptions[0]
        if inner is not error:
            words = f"{words.rstrip()}: {''.join(traceback.format_exception_only(inner))}"
    # A name of a file may hold what is no text.
    words = words.encode(errors="backslashreplace").decode()
    return " ".join(words.split())[:_REASON_CHARACTERS_MAX]
