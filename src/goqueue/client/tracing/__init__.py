"""Traces through the client: from the caller's span into a message, from a message into its span.

OpenTelemetry is used where the program uses it, and is needed nowhere.
"""

from goqueue.client.tracing.incoming import Origin, Work, parent_of, processing, remote_context
from goqueue.client.tracing.outgoing import SendTrace, start_sending

__all__ = [
    "Origin",
    "SendTrace",
    "Work",
    "parent_of",
    "processing",
    "remote_context",
    "start_sending",
]
