"""The routes of the contract, one module per section, and the list of all of them."""

from goqueue.gateways.http.routes.index import ROUTES

__all__ = ["ROUTES"]
