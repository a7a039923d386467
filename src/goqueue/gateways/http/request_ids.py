"""The id under which a request is found in the log: the caller's, or one of ours."""

import itertools
import re
import secrets

__all__ = ["RequestIds"]

# Visible ASCII only: it is written to logs and sent back in a header.
_ACCEPTED = re.compile(rb"[\x21-\x7e]{1,128}")


class RequestIds:
    """Makes ids that no other process and no other request has."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(6).encode()
        self._numbers = itertools.count(1)

    def name(self, given: bytes | None) -> bytes:
        """The id given, if it can be written as it is; else a new one."""
        if given is not None and _ACCEPTED.fullmatch(given):
            return given
        return b"%b-%x" % (self._prefix, next(self._numbers))
