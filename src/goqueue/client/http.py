"""The way to a server, or to the nodes of a cluster: which one is asked, and what is asked again.

`Transport` sends a request to the leader of its partition if it names one and that is known, else
to the server that answered last; with several servers it goes on to the next when one cannot be
reached. It adds retries, and never logs the key.

Invariant: a request whose outcome is unknown is repeated only if it says that this does no harm,
whichever server it goes to.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from typing import TypeVar

import msgspec

from goqueue.client.address import Address, parse_servers
from goqueue.client.call_timeout import background_context, remaining_s
from goqueue.client.clock import SYSTEM_CLOCK, Clock
from goqueue.client.connection_settings import Settings
from goqueue.client.credentials import shown_prefix
from goqueue.client.endpoint import Endpoint, Pool
from goqueue.client.errors import ArgumentInvalid, Closed, GoQueueError, ServerUnreachable
from goqueue.client.http_connection import HttpConnection, Response
from goqueue.client.http_request import Request, get, post, read_answer, target
from goqueue.client.in_process import find_node
from goqueue.client.leaders import Leaders, leader_requests, with_scheme
from goqueue.client.tls import check_context, client_context
from goqueue.model import LogId

__all__ = [
    "HttpConnection",
    "Pool",
    "Request",
    "Response",
    "Settings",
    "Transport",
    "get",
    "post",
    "read_answer",
    "target",
]

T = TypeVar("T")

_log = logging.getLogger("goqueue.client")

_UNAUTHENTICATED = "unauthenticated"
# A request that is tried for longer than this is worth a line in the log.
_SILENCE_S_MAX = 1.0
# Of several servers one that is silent is given up sooner: another may lead by now. A leader itself
# answers within five seconds, whatever its replicas do.
_ATTEMPT_S_MAX = 7.0
# Why another server may do better.
_MOVED = frozenset({"not_leader", "leader_unavailable"})
_ENDPOINTS_MAX = 256


class Transport:
    """The road to one server, or to the nodes of a cluster; to be used on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seeds = parse_servers(settings.server)
        address = self._seeds[0]
        self._node = find_node(address.host) if address.is_in_process else None
        self._tls = self._context(address)
        self._credentials = settings.credentials
        for seed in self._seeds:
            self._check_private(seed)
        self.clock: Clock = SYSTEM_CLOCK if self._node is None else self._node.clock
        self._endpoints: dict[Address, Endpoint] = {}
        # Which of the servers is asked, until it fails.
        self._current = 0
        self._leaders = Leaders()
        self._asking: set[asyncio.Task[None]] = set()
        self._chance = random.SystemRandom()
        # Whether the log says already that requests are being tried again.
        self._is_troubled = False
        self._is_closed = False

    @property
    def has_several_servers(self) -> bool:
        """Whether the servers are nodes of a cluster."""
        return len(self._seeds) > 1

    async def ask(self, request: Request, on_doubt: Callable[[], None] | None = None) -> Response:
        """The answer, if it is a success; tried again as far as that is allowed and sensible.

        `on_doubt` is told of every attempt whose outcome is unknown: the server may get to it at
        any later time, whatever becomes of the next attempt.
        """
        clock = asyncio.get_running_loop().time
        started = clock()
        left_s = remaining_s()
        retries = self._settings.retries.within(request.patience_s).within(left_s)
        attempt = 0
        is_outcome_unknown = False
        has_new_key = False
        while True:
            attempt += 1
            endpoint = self._endpoint_for(request)
            try:
                response = await endpoint.exchange(
                    request, self._credentials, self._attempt_s_max(request)
                )
                self._is_troubled = False
                if self._settings.on_reply is not None:
                    self._settings.on_reply(response.body)
                return response
            except GoQueueError as error:
                if error.code == _UNAUTHENTICATED:
                    if not has_new_key and self._read_key_again():
                        has_new_key = True
                        continue
                    self._name_key(error)
                is_outcome_unknown = is_outcome_unknown or error.is_outcome_unknown
                if error.is_outcome_unknown and on_doubt is not None:
                    on_doubt()
                elapsed_s = clock() - started
                wait = retries.wait_s(
                    error,
                    attempt=attempt,
                    elapsed_s=elapsed_s,
                    is_repeatable=request.is_repeatable,
                    chance=self._chance,
                )
                if wait is None or self._is_closed:
                    # What an earlier attempt left open, the last one does not close.
                    error.is_outcome_unknown = is_outcome_unknown
                    raise
                if self._turn_away(endpoint, request, error) and attempt < len(self._seeds):
                    # Another server was not asked yet.
                    wait = min(wait, retries.first_wait_s)
                if elapsed_s > _SILENCE_S_MAX:
                    self._report_trouble(endpoint, error, retries.total_s - elapsed_s)
            except BaseException:
                if on_doubt is not None:
                    on_doubt()
                raise
            await self.clock.pause(wait)

    async def read(
        self,
        request: Request,
        decoder: msgspec.json.Decoder[T],
        on_doubt: Callable[[], None] | None = None,
    ) -> T:
        """Ask, and read the answer."""
        return read_answer(await self.ask(request, on_doubt), decoder)

    def close(self) -> None:
        self._is_closed = True
        for task in self._asking:
            task.cancel()
        for endpoint in self._endpoints.values():
            endpoint.close()

    # Servers

    def _endpoint_for(self, request: Request) -> Endpoint:
        """The leader of the partition that a request is about, or any server."""
        if self._is_closed:
            raise Closed("the connection is closed")
        if request.log is not None and self.has_several_servers:
            leader = self._leaders.find(request.log)
            if leader is None:
                self._ask_for_leaders(request.log.topic)
            else:
                found = self._endpoint_of_leader(leader)
                if found is not None:
                    return found
        return self._endpoint(self._seeds[self._current])

    def _endpoint(self, address: Address) -> Endpoint:
        found = self._endpoints.get(address)
        if found is None:
            found = Endpoint(address, self._settings, self._tls, self._node)
            self._endpoints[address] = found
        return found

    def _endpoint_of_leader(self, leader: str) -> Endpoint | None:
        """The server of a leader; None if its address cannot be used from here."""
        seed = self._seeds[self._current]
        try:
            address = with_scheme(leader, seed)
            self._check_private(address)
        except GoQueueError:
            return None
        if address not in self._endpoints and len(self._endpoints) >= _ENDPOINTS_MAX:
            return None
        return self._endpoint(address)

    def _attempt_s_max(self, request: Request) -> float | None:
        is_bounded = self.has_several_servers and request.is_repeatable
        return _ATTEMPT_S_MAX if is_bounded else None

    def _turn_away(self, endpoint: Endpoint, request: Request, error: GoQueueError) -> bool:
        """Ask another server from now on, if this one is the reason; whether there is one."""
        if not self.has_several_servers:
            return False
        log = request.log
        if error.code in _MOVED:
            if log is not None:
                self._follow(log, error)
            return log is not None
        if isinstance(error, ServerUnreachable) or error.code == "broker_unavailable":
            self._leaders.forget_server(endpoint.address.authority)
            if self._seeds[self._current] == endpoint.address:
                self._current = (self._current + 1) % len(self._seeds)
            return True
        return False

    def _follow(self, log: LogId, error: GoQueueError) -> None:
        address = error.details.get("leader_address")
        if isinstance(address, str) and address:
            self._leaders.refer(log, address)
        else:
            self._leaders.forget(log)

    def _ask_for_leaders(self, topic: str) -> None:
        """Ask who leads the partitions of a topic; nothing waits for it."""
        loop = asyncio.get_running_loop()
        if self._leaders.is_wanted(topic, loop.time()):
            task = loop.create_task(self._learn_leaders(topic), context=background_context())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _learn_leaders(self, topic: str) -> None:
        endpoint = self._endpoint(self._seeds[self._current])
        try:
            partitions, state = [
                await endpoint.exchange(request, self._credentials, _ATTEMPT_S_MAX)
                for request in leader_requests(topic)
            ]
            self._leaders.learn(topic, partitions, state, asyncio.get_running_loop().time())
        except (GoQueueError, msgspec.MsgspecError):
            # Any server passes requests on: the next one asks again.
            return

    # Keys and certificates

    def _check_private(self, address: Address) -> None:
        if self._credentials is None or address.is_private or self._settings.allow_plaintext:
            return
        raise ArgumentInvalid(
            f"the API key would be sent to {address.authority} in the clear: use https://, or "
            "set allow_plaintext if nobody can listen on the way"
        )

    def _report_trouble(self, endpoint: Endpoint, error: GoQueueError, left_s: float) -> None:
        """Once, until something succeeds: many requests may be waiting for one server."""
        if not self._is_troubled:
            self._is_troubled = True
            server = endpoint.address.authority
            _log.warning("%s: %s; trying again for up to %.0f s", server, error, left_s)

    def _read_key_again(self) -> bool:
        """Take a key that was put into its file since; whether there is another one."""
        renewed = None if self._credentials is None else self._credentials.read_again()
        if renewed is None:
            return False
        self._credentials = renewed
        return True

    def _name_key(self, error: GoQueueError) -> None:
        """Say which key was refused, without showing it."""
        if self._credentials is not None:
            named = " ".join(filter(None, ("The key", shown_prefix(self._credentials.key))))
            error.sentence = f"{error.sentence} {named} comes from {self._credentials.source}."

    def _context(self, address: Address) -> ssl.SSLContext | None:
        settings = self._settings
        if not address.is_tls:
            return None
        if settings.tls is not None:
            return check_context(settings.tls)
        return client_context(settings.ca_file, settings.client_cert, settings.client_key)
