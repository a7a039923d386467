"""The one list of routes."""

from goqueue.gateways.http.routes.delays import DELAY_ROUTES
from goqueue.gateways.http.routes.groups import GROUP_ROUTES
from goqueue.gateways.http.routes.positions import POSITION_ROUTES
from goqueue.gateways.http.routes.priorities import PRIORITY_ROUTES
from goqueue.gateways.http.routes.publishing import PUBLISH_ROUTES
from goqueue.gateways.http.routes.reading import READ_ROUTES
from goqueue.gateways.http.routes.service import SERVICE_ROUTES
from goqueue.gateways.http.routes.settlement import SETTLEMENT_ROUTES
from goqueue.gateways.http.routes.topics import TOPIC_ROUTES
from goqueue.gateways.http.routes.traces import TRACE_ROUTES
from goqueue.gateways.http.routes.transactions import TRANSACTION_ROUTES

__all__ = ["ROUTES"]

ROUTES = (
    *SERVICE_ROUTES,
    *TOPIC_ROUTES,
    *PUBLISH_ROUTES,
    *READ_ROUTES,
    *DELAY_ROUTES,
    *GROUP_ROUTES,
    *POSITION_ROUTES,
    *SETTLEMENT_ROUTES,
    *TRANSACTION_ROUTES,
    *PRIORITY_ROUTES,
    *TRACE_ROUTES,
)
