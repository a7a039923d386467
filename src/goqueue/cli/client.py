"""One command's session with one server, from its flags to its exit code.

Owns the event loop of a command and its connection. Everything that a server or the network can do
wrong leaves here as the end of the command, wrong flags as a usage error; nothing else is caught.

A person waits: a request that may be repeated is, but for less than a second. The SDK is imported
when a connection is opened, so that `--help` of a command does without it.
"""

import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec
import uvloop

from goqueue.cli.client_settings import ClientSettings, ClientSettingsInvalid, load_client_settings
from goqueue.cli.errors import Failure, as_failure, close_names
from goqueue.cli.options import given_server_flags
from goqueue.cli.output import Reply
from goqueue.client import ArgumentInvalid, GoQueueError, connect
from goqueue.client.retries import Retries

if TYPE_CHECKING:
    from goqueue.client.connection import Connection

__all__ = [
    "ServerAnswer",
    "Session",
    "ask",
    "ask_once",
    "chosen_settings",
    "first_failure",
    "measure_server",
    "open_connection",
    "run_session",
]

T = TypeVar("T")

_HASTY = Retries(attempts_max=3, total_s=1.0)
_ONCE = Retries(attempts_max=1)
_CLIENT_ID = "goqueue-cli"
_CHECK_S = 5.0


class Session:
    """The connection of a command: `q`. Keeps the last reply as the server sent it."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        retries: Retries = _HASTY,
        timeout_s_max: float | None = None,
        client_id: str = _CLIENT_ID,
    ) -> None:
        self.settings = settings
        self.body = b""
        timeout_s = settings.timeout_s
        self.q = open_connection(
            settings,
            timeout_s=timeout_s if timeout_s_max is None else min(timeout_s, timeout_s_max),
            retries=retries,
            client_id=client_id,
            on_reply=self.keep,
        )

    async def ask(self, call: "Callable[[Connection], Awaitable[T]]") -> Reply[T]:
        """Make one call; its value, and the reply word for word."""
        value = await call(self.q)
        return Reply(value, self.body)

    def patient_connection(self) -> "Connection":
        """A second connection that retries for as long as the SDK does, for bulk work."""
        return open_connection(self.settings)

    def keep(self, body: bytes) -> None:
        """Remember a reply as the server sent it."""
        self.body = body


def open_connection(
    settings: ClientSettings,
    *,
    timeout_s: float | None = None,
    retries: Retries | None = None,
    client_id: str = _CLIENT_ID,
    on_reply: Callable[[bytes], object] | None = None,
) -> "Connection":
    """A connection to the server of a command, to be entered; wrong files are wrong usage."""
    try:
        return connect(
            settings.server,
            api_key=settings.credentials,
            ca_file=settings.ca_file,
            client_cert=settings.client_cert,
            client_key=settings.client_key,
            allow_plaintext=settings.allow_plaintext,
            timeout_s=settings.timeout_s if timeout_s is None else timeout_s,
            retries=retries,
            client_id=client_id,
            on_reply=on_reply,
        )
    except ArgumentInvalid as invalid:
        raise click.UsageError(invalid.sentence) from invalid


def chosen_settings(context: click.Context) -> ClientSettings:
    """By flag, else environment, else context, else default."""
    try:
        return load_client_settings(given_server_flags(context), os.environ)
    except ClientSettingsInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


def run_session(
    work: Callable[[Session], Awaitable[T]],
    *,
    retries: Retries = _HASTY,
    timeout_s_max: float | None = None,
    client_id: str = _CLIENT_ID,
) -> T:
    """Run the work of the present command with the server that its flags name."""
    settings = chosen_settings(click.get_current_context())

    async def run() -> T:
        session = Session(
            settings, retries=retries, timeout_s_max=timeout_s_max, client_id=client_id
        )
        async with session.q:
            return await work(session)

    try:
        return uvloop.run(run())
    except ArgumentInvalid as invalid:
        raise click.UsageError(invalid.sentence) from invalid
    except GoQueueError as error:
        raise _failure(error, settings) from error
    except BaseExceptionGroup as group:
        first = first_failure(group)
        if isinstance(first, GoQueueError):
            raise _failure(first, settings) from group
        raise first from group


# The server lists what exists only to suggest a name: not longer than a person notices.
_SUGGESTION_S = 1.0


def _failure(error: GoQueueError, settings: ClientSettings) -> Failure:
    """The end of the command; for a name that does not exist, with those that are like it."""
    kind = error.code.removesuffix("_not_found")
    wanted = error.details.get(kind)
    if not isinstance(wanted, str) or kind not in ("topic", "group"):
        return as_failure(error, settings.server)
    try:
        known = ask_once(settings, _NAMES[kind], timeout_s_max=_SUGGESTION_S).value
    except GoQueueError:
        known = ()
    return as_failure(error, settings.server, near=close_names(wanted, known))


async def _topic_names(q: "Connection") -> tuple[str, ...]:
    return await q.topics.list()


async def _group_names(q: "Connection") -> tuple[str, ...]:
    return tuple(each.group_id for each in await q.groups.list())


_NAMES = {"topic": _topic_names, "group": _group_names}


def ask(call: "Callable[[Connection], Awaitable[T]]") -> Reply[T]:
    """Make one call to the server of the present command."""
    return run_session(lambda session: session.ask(call))


def ask_once(
    settings: ClientSettings,
    call: "Callable[[Connection], Awaitable[T]]",
    *,
    timeout_s_max: float,
) -> Reply[T]:
    """Make one call without a retry and without much time; raises a `GoQueueError`."""

    async def run() -> Reply[T]:
        session = Session(settings, retries=_ONCE, timeout_s_max=timeout_s_max)
        async with session.q:
            return await session.ask(call)

    return uvloop.run(run())


class ServerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """That a server is there: which version, whether ready, and how long one answer takes."""

    server: str
    version: str
    is_ready: bool
    milliseconds: float


def measure_server(settings: ClientSettings) -> ServerAnswer:
    """Ask a server for its version and readiness; not reached or refused ends the command."""

    async def run() -> ServerAnswer:
        session = Session(settings, retries=_ONCE, timeout_s_max=_CHECK_S)
        async with session.q:
            version = (await session.q.version()).version
            started = time.monotonic()
            # Once more: the first answer includes the connection. It needs the key as well.
            await session.q.topics.list()
            took_s = time.monotonic() - started
            ready = await session.q.readiness()
            return ServerAnswer(
                server=settings.server,
                version=version,
                is_ready=ready.status != "fail",
                milliseconds=round(took_s * 1000, 3),
            )

    try:
        return uvloop.run(run())
    except GoQueueError as error:
        raise as_failure(error, settings.server) from error


def first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Concurrent tasks fail as a group; the user sees one failure."""
    first = group.exceptions[0]
    return first_failure(first) if isinstance(first, BaseExceptionGroup) else first
