"""What may be said about a server: its address, a key, a time to wait. Each is checked alone.

The text of a refusal says where the value stood and never repeats a key.
"""

import math
import re

__all__ = ["ClientSettingsInvalid", "check_key", "check_server", "check_timeout"]

_SERVER = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}))(?::([0-9]{1,5}))?"
    r"((?:/[A-Za-z0-9._~-]+)*)/?"
)
_PORT_MAX = 65_535
_KEY = re.compile(r"[!-~]{1,4096}")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_SECONDS_MAX = 86_400


class ClientSettingsInvalid(ValueError):
    """Why a command cannot know whom to speak to; one line for a person."""


def check_server(given: str, place: str) -> str:
    """The address of a server without a slash at its end."""
    found = _SERVER.fullmatch(given) if len(given) <= 2048 else None
    if found is None or int(found[1] or 0) > _PORT_MAX:
        raise ClientSettingsInvalid(f"{place} is not an address such as http://127.0.0.1:8080")
    return given.removesuffix("/")


def check_key(given: str, place: str) -> str:
    """A key that can stand in a header."""
    if not _KEY.fullmatch(given):
        raise ClientSettingsInvalid(f"{place} is not a key: 1 to 4096 visible ASCII characters")
    return given


def check_timeout(given: str, place: str) -> float:
    """Seconds to wait for an answer."""
    seconds = float(given) if _SECONDS.fullmatch(given) else math.nan
    # Not a number is not between anything.
    if not 0 < seconds <= _SECONDS_MAX:
        raise ClientSettingsInvalid(f"{place} is not a number of seconds, 0 to {_SECONDS_MAX}")
    return seconds
