"""Ports for nodes whose addresses have to be known before they start."""

import contextlib
import random
import socket

__all__ = ["free_port", "free_ports"]

# Below those that the system gives to connections: one of them may take such a port at any moment
# between the choice and the start of the node.
_FIRST, _LAST = 15_000, 32_000
_CHANCE = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Ports that nothing uses now, all held until the last one is known."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = _CHANCE.randrange(_FIRST, _LAST)
            probe = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
        return found


def free_port() -> int:
    """A port that nothing uses now."""
    return free_ports(1)[0]
