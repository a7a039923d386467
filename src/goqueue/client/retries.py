"""When a failed request is sent again, and after which wait.

Pure: told how often and how long it was tried, and given chance. Never repeats a request whose
outcome is unknown unless the request says that repeating is harmless.
"""

from typing import Protocol

import msgspec

from goqueue.client.errors import GoQueueError, ServerUnreachable

__all__ = ["Chance", "Retries", "is_worth_retrying"]

# Codes that the contract marks as worth retrying.
_RETRIABLE = frozenset(
    {
        "backup_busy",
        "broker_unavailable",
        "leader_unavailable",
        "not_controller",
        "not_enough_replicas",
        "not_leader",
        "rate_limited",
        "rebalance_in_progress",
        "replication_failed",
        "request_timeout",
        "storage_full",
        "topic_busy",
    }
)


class Chance(Protocol):
    """A source of random numbers from 0 to 1."""

    def random(self) -> float: ...


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on trying again: how long in all, and how often; 1 attempt means no retry.

    Time is the bound that counts: a server that restarts refuses connections at once, and any
    small number of attempts is used up before it is back.
    """

    attempts_max: int = 1000
    total_s: float = 30.0
    first_wait_s: float = 0.05
    wait_s_max: float = 2.0

    def wait_s(
        self,
        error: GoQueueError,
        *,
        attempt: int,
        elapsed_s: float,
        is_repeatable: bool,
        chance: Chance,
    ) -> float | None:
        """How long to wait before attempt number `attempt` + 1, or None to give up.

        Full jitter: anywhere from zero to a bound that doubles with each attempt, but never less
        than the server asks for. The last attempt is made when the time is over, not earlier.
        """
        if attempt >= self.attempts_max or not is_worth_retrying(error, is_repeatable):
            return None
        left_s = self.total_s - elapsed_s
        asked_s = error.retry_after_s or 0.0
        if left_s <= 0 or asked_s > left_s:
            return None
        bound = min(self.wait_s_max, self.first_wait_s * float(2 ** min(attempt - 1, 20)))
        return min(max(chance.random() * bound, asked_s), left_s)

    def within(self, total_s: float | None) -> "Retries":
        """The same with no more time than this."""
        if total_s is None or total_s >= self.total_s:
            return self
        return msgspec.structs.replace(self, total_s=total_s)


def is_worth_retrying(error: GoQueueError, is_repeatable: bool) -> bool:
    """Whether the same request may succeed later, and may be sent a second time."""
    if error.is_outcome_unknown and not is_repeatable:
        return False
    return isinstance(error, ServerUnreachable) or error.code in _RETRIABLE
