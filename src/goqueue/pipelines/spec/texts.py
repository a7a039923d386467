"""Values of YAML as the texts that Spark takes for options and settings."""

import datetime as dt
import json
from collections.abc import Mapping

__all__ = ["option_texts"]


def option_texts(given: Mapping[str, object]) -> dict[str, str]:
    """Truth and numbers as Spark writes them, times by ISO 8601, lists and mappings as JSON."""
    return {name: _text(value) for name, value in given.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        # YAML reads `…Z` as a time without a zone, having brought it to UTC.
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return moment.isoformat()
    if isinstance(value, list | dict):
        return json.dumps(value, separators=(",", ":"), default=str)
    return str(value)
