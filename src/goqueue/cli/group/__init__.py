"""`goqueue group`: consumer groups listed, described, deleted, and their positions."""

from goqueue.cli.group.commands import group

__all__ = ["group"]
