"""What the generator of the sync client cannot read from the async client."""

from collections.abc import Mapping

import msgspec

__all__ = ["RULES", "Rules"]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the classes themselves do not tell, by the names of async classes."""

    # Members that the sync client does not offer.
    hidden: Mapping[str, tuple[str, ...]] = {}
    # Parameters of methods written by hand ("Class.method") that only one of the two clients has.
    differing: Mapping[str, tuple[str, ...]] = {}
    # Classes whose objects belong to no loop: their plain methods are called where the thread is,
    # and they are handed out as they are.
    values: tuple[str, ...] = ()
    # Types of arguments: what the sync client takes, and how the async one gets what it takes.
    arguments: Mapping[str, tuple[str, str]] = {}


RULES = Rules(
    hidden={
        # For tools that run a loop of their own.
        "Connection": ("coordinator", "pages", "poll_consumer", "records"),
        "Message": ("header_block", "held", "lease", "origin", "payload_source"),
        "Producer": ("discard", "drain", "end", "failure", "following", "is_closed", "is_lost"),
        "QueueConsumer": (
            "clock",
            "is_low",
            "pop",
            "refill",
            "take",
            "wait_for_more",
            "wait_until_stopped",
        ),
        "Receipt": ("__await__", "follow"),
        "Replay": ("take",),
        "Schemas": ("bind", "decoder_of", "open_decoder"),
        "StreamConsumer": ("check", "note_committed", "progress", "rewind", "take"),
    },
    differing={
        "Message.ack": ("wait",),
        "StreamConsumer.close": ("except_last",),
        "StreamConsumer.commit": ("except_last",),
    },
    values=("Message",),
    arguments={
        "Message": ("SyncMessage", "{}.message"),
        "OffsetSource": ("SyncStreamConsumer", "{}.reading()"),
    },
)
