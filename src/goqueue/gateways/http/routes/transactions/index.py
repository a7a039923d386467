"""The routes about producers and transactions, in the order of a transaction's life."""

from goqueue.gateways.http.routes.transactions.listing import LISTING_ROUTES
from goqueue.gateways.http.routes.transactions.producers import PRODUCER_ROUTES
from goqueue.gateways.http.routes.transactions.steps import STEP_ROUTES

__all__ = ["TRANSACTION_ROUTES"]

TRANSACTION_ROUTES = (*PRODUCER_ROUTES, *STEP_ROUTES, *LISTING_ROUTES)
