"""What the API says about itself: OpenAPI 3.1, and the same as a page."""

from goqueue.gateways.http.openapi.document import openapi_document, route_errors
from goqueue.gateways.http.openapi.page import docs_page

__all__ = ["docs_page", "openapi_document", "route_errors"]
