"""`goqueue consume`: messages of a topic, read as a stream or leased as a member of a group."""

from goqueue.cli.consume.command import consume

__all__ = ["consume"]
