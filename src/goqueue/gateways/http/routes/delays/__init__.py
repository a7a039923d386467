"""The routes about delayed messages."""

from goqueue.gateways.http.routes.delays.routes import DELAY_ROUTES

__all__ = ["DELAY_ROUTES"]
