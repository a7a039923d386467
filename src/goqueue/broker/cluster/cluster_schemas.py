"""Schemas of a cluster on one of its nodes: who decides about them, and who knows them.

Schemas are metadata: the controller decides, every node follows. Any node answers what is read from
its own registry, and checks what is published by it. An answer that tells of a schema leaves when
every node that lives knows it, or after one session: so whoever has an id can use it anywhere.

Cost: a look at the registered nodes for each registration.
"""

from collections.abc import Callable

from goqueue.broker.cluster.cluster_commands import SCHEMA_CHANGES, SCHEMA_READS
from goqueue.broker.cluster.member import ClusterMember
from goqueue.broker.schemas import SchemaDecision, Schemas
from goqueue.model import Code, Now, Refused, RegisterSchema, RequestId
from goqueue.model.requests import Command, Reply

__all__ = ["ClusterSchemas"]

Handler = Callable[[RequestId, Command, Now], None]


class ClusterSchemas:
    """Carries out what this node decides as the controller: see `SchemaController`."""

    def __init__(self, member: ClusterMember, schemas: Schemas) -> None:
        self._member = member
        self._schemas = schemas
        schemas.controller = self

    # Commands

    def around(
        self, here: dict[type, Handler], by_controller: Callable[[Handler, bool], Handler]
    ) -> dict[type, Handler]:
        """The handlers of clients' commands, around those that serve a command on this node."""
        around = {kind: self._once_joined(here[kind]) for kind in SCHEMA_READS}
        for kind, is_repeatable in SCHEMA_CHANGES.items():
            around[kind] = by_controller(here[kind], is_repeatable)
        return around | {RegisterSchema: self._register(around[RegisterSchema])}

    def _once_joined(self, here: Handler) -> Handler:
        def handle(request: RequestId, command: Command, now: Now) -> None:
            self._member.check_joined()
            here(request, command, now)

        return handle

    def _register(self, by_controller: Handler) -> Handler:
        """What all nodes know is answered here: a producer that starts needs no controller."""

        def handle(request: RequestId, command: Command, now: Now) -> None:
            assert isinstance(command, RegisterSchema)
            self._member.check_joined()
            if not (self.is_followed and self._schemas.answer_known(request, command)):
                by_controller(request, command, now)

        return handle

    def where_decided(self, here: Handler) -> Handler:
        """Carry a command out where the controller is, and refuse it elsewhere."""

        def handle(request: RequestId, command: Command, now: Now) -> None:
            self._check_leads()
            here(request, command, now)

        return handle

    # Decisions

    def _check_leads(self) -> None:
        """Refuse unless this node is the controller."""
        if self._member.controller is None:
            raise Refused(Code.NOT_CONTROLLER)
        self._member.controller.check_leads()

    def propose(self, decision: SchemaDecision) -> None:
        """Have a decision committed, and its request answered; raises Refused."""
        self._check_leads()
        assert self._member.controller is not None
        self._member.controller.change_schemas(decision)
        self._member.line.report_news()

    def answer(self, request: RequestId, reply: Reply) -> None:
        """Answer with what is there, once every node knows it."""
        controller, metadata = self._member.controller, self._member.metadata
        assert controller is not None
        assert metadata is not None
        controller.access.answer(request, reply, metadata.image.schemas.version)
        self._member.line.report_news()

    @property
    def is_followed(self) -> bool:
        """Whether every node that lives is known to have all schemas that this one has."""
        controller, metadata = self._member.controller, self._member.metadata
        if controller is None or metadata is None:
            return False
        return controller.access.is_followed(metadata.image.schemas.version)
