"""The log of the process: text or JSON lines on standard error.

Control characters are escaped, so a caller cannot forge a line.
"""

import logging
import sys
import time

import msgspec

__all__ = ["start_logging"]


class _Text(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return _printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        # Only a traceback has several lines.
        first, *rest = super().format(record).split("\n")
        return "\n    ".join([first, *map(_printable, rest)])


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def start_logging(level: str, form: str) -> None:
    """Log at `level` (debug, info, warning, error) as `text` or `json`."""
    pattern = "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s"
    formatter = _Json() if form == "json" else _Text(pattern)
    formatter.datefmt = "%Y-%m-%dT%H:%M:%S" + ("Z" if form == "json" else "")
    formatter.converter = time.gmtime
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[output], force=True)
