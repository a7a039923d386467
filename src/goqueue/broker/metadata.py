"""Who decides metadata: topics, schemas, keys, ACLs and tenants.

`MetadataStore` is the port. Components decide a change, propose it, and learn from the store when
it is committed; nothing above the port knows which store runs. Only the controller proposes.

`LocalMetadata` is the store of a standalone node: the journal `__topics`, whose changes this node
decides alone. It is the controller from the start of its run on, and the image shows a proposal at
once; whatever depends on the proposal is held back until it is committed, so nobody outside sees
one that a crash could take back.

Invariant: the image changes only by proposals and by replay, in the order of the journal.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from goqueue.broker.catalog import Catalog
from goqueue.broker.journal_changes import (
    RestoreCommitted,
    TopicDeleted,
    TopicStated,
)
from goqueue.broker.journals import Journals
from goqueue.broker.outbox import Later, MetadataCommitted
from goqueue.model import Answer, Offset, RequestId
from goqueue.model.requests import Reply
from goqueue.schemas import (
    SchemaChange,
    SchemaLevelStated,
    SchemaRegistry,
    SchemaRemoved,
    SchemasNumbered,
    SchemaStated,
    SchemaVersionRemoved,
    SchemaVersionStated,
)
from goqueue.security import RegistryChange, SecurityRegistry

__all__ = ["ImageChange", "LocalMetadata", "MetadataStore"]

# The changes of `__topics` that are metadata; starts, usage and audit records are the node's own.
ImageChange = TopicStated | TopicDeleted | RestoreCommitted | SchemaChange | RegistryChange


class MetadataStore(Protocol):
    """The port: how components change metadata and learn that a change is committed."""

    @property
    def epoch(self) -> int | None:
        """In which epoch this node is the controller; None: it is not, and may propose nothing."""

    @property
    def version(self) -> Offset:
        """The version of the image: it rises with every committed proposal, over all restarts."""

    def check_room(self) -> None:
        """Refuse a command whose change could not be committed soon."""

    def propose(self, changes: Sequence[ImageChange], then: Iterable[Later] = ()) -> None:
        """Change the image; `then` leaves when this, and all proposed before, is committed."""

    def answer(self, request: RequestId, reply: Reply) -> None:
        """Answer when all that the answer may show of the image is committed."""


class LocalMetadata:
    """The metadata of a standalone node."""

    def __init__(
        self,
        journals: Journals,
        catalog: Catalog,
        security: SecurityRegistry,
        schemas: SchemaRegistry,
    ) -> None:
        self._journals = journals
        self._catalog = catalog
        self._security = security
        self._schemas = schemas
        self._epoch: int | None = None
        self._version = Offset(0)

    @property
    def epoch(self) -> int | None:
        return self._epoch

    @property
    def version(self) -> Offset:
        return self._version

    def elect(self, epoch: int) -> None:
        """There is nobody else: this node is the controller, in the epoch of its run."""
        self._epoch = epoch
        self._version = self._journals.of_topics.log.high_watermark

    def check_room(self) -> None:
        self._journals.of_topics.check_room()

    def propose(self, changes: Sequence[ImageChange], then: Iterable[Later] = ()) -> None:
        for change in changes:
            self._apply(change)
        committed = [MetadataCommitted(tuple(changes))] if changes else []
        self._journals.of_topics.note(changes, [*committed, *then])

    def _apply(self, change: ImageChange) -> None:
        match change:
            case TopicStated() | TopicDeleted():
                self._catalog.apply(change)
            case RestoreCommitted():
                self._catalog.commit_restore(change)
            case (
                SchemasNumbered()
                | SchemaStated()
                | SchemaRemoved()
                | SchemaVersionStated()
                | SchemaVersionRemoved()
                | SchemaLevelStated()
            ):
                self._schemas.apply(change)
            case _:
                self._security.apply(change)

    def answer(self, request: RequestId, reply: Reply) -> None:
        self._journals.of_topics.note([], [Answer(request=request, reply=reply)])

    def committed(self, _: MetadataCommitted) -> None:
        """A proposal is committed: the version of the image is that of the record behind it."""
        version = self._journals.of_topics.log.high_watermark
        assert version >= self._version, "the version of the image never falls"
        self._version = version
