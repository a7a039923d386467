"""Leave to publish: who writes, and as part of which transaction."""

import msgspec

from goqueue.transactions.transaction import Transaction

__all__ = ["Admission"]


class Admission(msgspec.Struct, frozen=True):
    """A producer that may publish now."""

    producer: int
    epoch: int
    sequence: int | None
    transaction: Transaction | None

    @property
    def is_marked(self) -> bool:
        """Whether the batch must say in the log who wrote it."""
        return self.sequence is not None or self.transaction is not None
