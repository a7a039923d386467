"""Requests and answers over HTTP/1.1: connections, time limits, retries, errors."""

from goqueue.client.transport.address import Address, target
from goqueue.client.transport.link import Response
from goqueue.client.transport.request import Request, get, post, read_answer
from goqueue.client.transport.retries import Retries, is_worth_retrying
from goqueue.client.transport.settings import Settings
from goqueue.client.transport.transport import Transport

__all__ = [
    "Address",
    "Request",
    "Response",
    "Retries",
    "Settings",
    "Transport",
    "get",
    "is_worth_retrying",
    "post",
    "read_answer",
    "target",
]
