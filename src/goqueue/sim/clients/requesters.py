"""Clients that wait for replies, and others that send them, also twice and to nobody."""

from goqueue.model import SECOND, Code, Refused
from goqueue.model.requests import AwaitReply, ReplyReceived, ReplySent, SendReply
from goqueue.model.requests import Reply as AnyReply
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation

__all__ = ["Requesters"]

_KEPT = 20


class _Exchange:
    """One request: what was sent to it, and what it got."""

    def __init__(self, reply_to: str, life: int) -> None:
        self.reply_to = reply_to
        self.life = life
        self.is_over = False
        self.got: bytes | None = None
        # The replies of which the sender heard that they were delivered.
        self.delivered: list[bytes] = []


class Requesters:
    """Asks and replies."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._exchanges: list[_Exchange] = []
        self._serial = 0

    def ask(self) -> None:
        world = self._world
        self._serial += 1
        exchange = _Exchange(f"reply-{self._serial}", world.life)
        self._exchanges = [*self._exchanges[1 - _KEPT :], exchange]
        wait_ns = self._random.choice([SECOND // 2, 3 * SECOND])

        def done(reply: AnyReply | Refused | None) -> None:
            exchange.is_over = True
            if isinstance(reply, ReplyReceived):
                exchange.got = reply.value
                self._check(exchange)
            elif isinstance(reply, Refused) and reply.code is Code.NO_REPLY and exchange.delivered:
                raise Violation("reply-lost", f"{exchange.reply_to}: {exchange.delivered}")

        world.ask(AwaitReply(reply_to=exchange.reply_to, wait_ns=wait_ns), done, wait_ns)

    def reply(self) -> None:
        if not self._exchanges:
            return
        exchange = self._random.choice(self._exchanges)
        self._serial += 1
        value = b"%d" % self._serial
        was_over = exchange.is_over or exchange.life != self._world.life

        def done(reply: AnyReply | Refused | None) -> None:
            if not isinstance(reply, ReplySent) or not reply.is_delivered:
                return
            if was_over:
                raise Violation("reply-to-nobody-delivered", exchange.reply_to)
            exchange.delivered.append(value)
            self._check(exchange)

        self._world.ask(SendReply(reply_to=exchange.reply_to, value=value), done)

    def _check(self, exchange: _Exchange) -> None:
        """A request gets one reply, the one whose sender is told so."""
        if len(exchange.delivered) > 1:
            raise Violation("two-replies", f"{exchange.reply_to}: {exchange.delivered}")
        if exchange.got is not None and exchange.delivered not in ([], [exchange.got]):
            raise Violation("another-reply", f"{exchange.got!r} is not {exchange.delivered}")
