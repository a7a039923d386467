"""Follows schemas of the committed image: the registry of this node says what the image says.

The only way by which the registry of a member changes: change by change, as the records say, or all
at once from an image that another node stated. Until the last piece of such a statement is there,
the registry stays as it was.

Invariant: after a record was followed, the registry holds the schemas of the image; or those of an
earlier image while a statement is being read.
Cost: by what a record names; a whole image by all that there is, in one turn.
"""

from goqueue.broker.state import NodeState
from goqueue.cluster import SchemaTable
from goqueue.schemas import SchemaChange

__all__ = ["SchemaFollower"]


class SchemaFollower:
    """Keeps the registry of this node equal to the table of its image."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        # What the registry was made equal to; nothing yet, or the table of an earlier image.
        self._followed: SchemaTable | None = None
        self._has_changed = False

    def is_current(self, table: SchemaTable) -> bool:
        """Whether the registry says what this table says."""
        return self._followed is table

    def apply(self, change: SchemaChange, table: SchemaTable) -> None:
        """A record has a change; of a table that is not followed yet all is taken later."""
        if self._followed is table:
            self._state.schemas.apply(change)
            self._has_changed = True

    def follow(self, table: SchemaTable) -> None:
        """All records were followed."""
        if self._followed is not table and table.is_whole:
            self._state.schemas.adopt(table.entries())
            self._followed = table
            self._has_changed = True

    def take_changed(self) -> bool:
        """Whether the registry has changed since the last call."""
        has_changed, self._has_changed = self._has_changed, False
        return has_changed
