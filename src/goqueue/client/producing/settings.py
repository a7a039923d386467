"""How a producer gathers messages."""

import msgspec

__all__ = ["ProducerConfig"]

KIB = 1024
MIB = 1024 * KIB


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """When a batch leaves, how large it may grow meanwhile, and how much may wait in all.

    A batch leaves at the first of `messages`, `size_bytes` and `linger_s`. While another batch of
    its partition is under way it cannot leave, and grows up to the `_max` bounds instead: so the
    more there is to send, the larger the requests.

    An `idempotent` producer numbers its batches: one whose connection broke is sent again, and
    the broker takes it once. Without numbers, `repeats` decides about such a batch: it is sent
    again although the broker may have taken it, at least once; or it fails, its outcome unknown.
    """

    messages: int = 100
    size_bytes: int = 64 * KIB
    linger_s: float = 0.005
    messages_max: int = 1000
    size_bytes_max: int = MIB
    buffer_bytes_max: int = 32 * MIB
    repeats: bool = True
    idempotent: bool = True
