"""Who waits for transactions to end, and what they are told then."""

from collections.abc import Iterable

from goqueue.model import RequestId
from goqueue.model.requests import BeginTransaction, Reply

__all__ = ["Waiting"]

Key = tuple[int, int]
What = Reply | BeginTransaction


class Waiting:
    """Requests by the transactions that they wait for; each may wait for several."""

    def __init__(self) -> None:
        self._by_key: dict[Key, list[RequestId]] = {}
        self._missing: dict[RequestId, tuple[dict[Key, None], What]] = {}

    def add(self, key: Key, request: RequestId, what: What) -> None:
        self.add_all([key], request, what)

    def add_all(self, keys: Iterable[Key], request: RequestId, what: What) -> None:
        """Wait until all of these have ended; waiting for none is not waiting."""
        missing = dict.fromkeys(keys)
        if not missing:
            return
        self._missing[request] = (missing, what)
        for key in missing:
            self._by_key.setdefault(key, []).append(request)

    def take(self, key: Key) -> list[tuple[RequestId, What]]:
        """A transaction has ended: those who waited for nothing else."""
        done: list[tuple[RequestId, What]] = []
        for request in self._by_key.pop(key, ()):
            missing, what = self._missing[request]
            missing.pop(key, None)
            if not missing:
                del self._missing[request]
                done.append((request, what))
        return done
