"""What the edge has to know of a command before it sends it: copies and targets."""

import msgspec

from goqueue.model.requests import CreateTopic

__all__ = ["only_target", "with_copies"]

_FACTOR, _MINIMUM = "replication_factor", "min_insync_replicas"
_COPIES_DEFAULT = 3


def with_copies(command: CreateTopic, brokers: int) -> CreateTopic:
    """The same with the number of copies that a cluster of this size gives."""
    if command.chosen is None:
        return command
    config = command.config
    if _FACTOR not in command.chosen:
        config = msgspec.structs.replace(
            config, replication_factor=max(1, min(_COPIES_DEFAULT, brokers))
        )
    if _MINIMUM not in command.chosen:
        minimum = 2 if config.replication_factor >= _COPIES_DEFAULT else 1
        config = msgspec.structs.replace(config, min_insync_replicas=minimum)
    return msgspec.structs.replace(command, config=config, chosen=None)


def only_target(targets: list[int] | None, partitions: int) -> int | None:
    """The one partition that all records are for, whatever their keys are, if there is one.

    The topic may not have it.
    """
    if not targets:
        return 0 if partitions == 1 else None
    if targets[0] < 0 or targets.count(targets[0]) != len(targets):
        return None
    return targets[0]
