"""The routes about priorities."""

from goqueue.gateways.http.routes.priorities.routes import PRIORITY_ROUTES

__all__ = ["PRIORITY_ROUTES"]
