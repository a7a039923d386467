"""The routes about producers and transactions."""

from goqueue.gateways.http.routes.transactions.index import TRANSACTION_ROUTES

__all__ = ["TRANSACTION_ROUTES"]
