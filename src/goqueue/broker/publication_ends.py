"""The end of a publication: its answer, and the component that it was made for.

Called once for each publication, when every partition has decided about its part.
"""

from goqueue.broker.components import Components
from goqueue.broker.metrics.request_metrics import RequestMetrics
from goqueue.broker.partitions import (
    ForMarker,
    ForMove,
    ForTick,
    InTransaction,
    Publication,
    Unconfirmed,
)
from goqueue.broker.publish import PARTS_AT_ONCE
from goqueue.broker.state import NodeState
from goqueue.model import Now, Offset
from goqueue.model.requests import Published

__all__ = ["PublicationEnds"]


class PublicationEnds:
    """Hands finished publications to whoever waits for them."""

    def __init__(
        self, state: NodeState, components: Components, request_metrics: RequestMetrics
    ) -> None:
        self._state = state
        self._components = components
        self._request_metrics = request_metrics

    def end(self, publication: Publication, published: Published, now: Now) -> None:
        """A publication is answered: by its partitions, or because the last of them is gone."""
        purpose, components = publication.purpose, self._components
        if publication.trace is not None:
            transaction = purpose.transaction if isinstance(purpose, InTransaction) else None
            notes = self._state.traces.published(publication.trace, published, now, transaction)
            if len(published.placed) <= PARTS_AT_ONCE:
                self._state.budget.spend(sum(notes))
            else:
                self._state.stepwise.begin(None, notes, now)
        match purpose:
            case ForMove(batch):
                components.dead_letter_mover.copied(batch, published.placed[0], now)
            case ForTick(batch):
                components.tick_sender.appended(batch, published.placed[0], now)
            case ForMarker() as purpose:
                placed = published.placed[0]
                upto = Offset(placed.first + placed.count)
                components.coordinator.marker_appended(purpose, upto, placed.refused, now)
            case InTransaction(transaction):
                self._state.transactions.publication_ended(transaction)
            case Unconfirmed(request):
                self._request_metrics.confirmed(request, published, now)
        if publication.request is not None:
            self._state.outbox.answer(publication.request, published)
