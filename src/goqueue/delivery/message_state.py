"""The states of a message for one consumer group, and how it may pass from one to another.

Owns the names and the table of transitions; which state a message is in follows from the position
and the queue (`DeliveryQueue.state_of`). Nothing is stored per message because of this.
"""

import enum

__all__ = ["MessageState"]


class MessageState(enum.Enum):
    """What one group is doing with one message.

    ```text
               ┌─────────── release, lease expired, member gone ───────────┐
               ▼                                                           │
         ┌───────────┐                    lease                      ┌───────────┐  ack
    ────▶│ AVAILABLE │──────────────────────────────────────────────▶│ IN_FLIGHT │──────▶ SETTLED
         └───────────┘                                               └───────────┘
           ▲   ▲   ▲         delay over ┌─────────┐ nack with a delay   │  │   ▲
           │   │   └────────────────────│ BACKOFF │◀────────────────────┘  │   │
           │   │                        └─────────┘                        │   │
           │   │    aborted, no lease  ┌──────┐  hold: a part of a         │   │
           │   └───────────────────────│ HELD │◀─ transaction ─────────────┤   │
           │                           └──────┘                            │   │
           │    committed: SETTLED ◀────┘    └── aborted, lease runs on ───┼───┘
           │                                                               │
           │    move cancelled  ┌────────────────┐  reject, or too many    │
           └────────────────────│ DEAD_LETTERING │◀─ deliveries ───────────┘
                                └────────────────┘
                                   └── copy committed ──▶ SETTLED
    ```

    A commit past a message, retention and damage settle it in every state. A transaction that adds
    an offset holds all below it that is available or in backoff. A reset of the position begins
    anew: it is no transition.
    """

    # May be leased as soon as somebody polls: ready, behind an earlier one of its key, or not read
    # yet.
    AVAILABLE = "available"
    # Leased to one member until a deadline.
    IN_FLIGHT = "in_flight"
    # Nacked; available again after a delay.
    BACKOFF = "backoff"
    # Rejected, or delivered too often: its copy is on the way to the dead letters.
    DEAD_LETTERING = "dead_lettering"
    # Part of an open transaction: nobody gets it before that ends.
    HELD = "held"
    # Acked, committed past, a dead letter, or no message at all: never delivered again.
    SETTLED = "settled"

    def may_become(self, following: "MessageState") -> bool:
        """Whether a message may pass from this state to another in one step."""
        return following in _TRANSITIONS[self]


_TRANSITIONS = {
    MessageState.AVAILABLE: (MessageState.IN_FLIGHT, MessageState.HELD, MessageState.SETTLED),
    MessageState.IN_FLIGHT: (
        MessageState.AVAILABLE,
        MessageState.BACKOFF,
        MessageState.DEAD_LETTERING,
        MessageState.HELD,
        MessageState.SETTLED,
    ),
    MessageState.BACKOFF: (MessageState.AVAILABLE, MessageState.HELD, MessageState.SETTLED),
    MessageState.DEAD_LETTERING: (MessageState.AVAILABLE, MessageState.SETTLED),
    MessageState.HELD: (
        MessageState.AVAILABLE,
        MessageState.IN_FLIGHT,
        MessageState.SETTLED,
    ),
    MessageState.SETTLED: (),
}
