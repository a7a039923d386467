"""Which records are wanted, by key and headers: equal to a text, or beginning with it."""

import msgspec

from goqueue.spark.options.given import Given, OptionInvalid

__all__ = ["Filters", "Match", "filters_of"]

_SEVERAL = 100
_KEYS: msgspec.json.Decoder[list[str]] = msgspec.json.Decoder(list[str])
_HEADERS: msgspec.json.Decoder[dict[str, str]] = msgspec.json.Decoder(dict[str, str])


class Match(msgspec.Struct, frozen=True):
    """Bytes to be equal to, or to begin with."""

    text: bytes
    is_prefix: bool = False


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Any of the keys will do, and all of the headers must be there; none given means all."""

    keys: tuple[Match, ...] = ()
    headers: tuple[tuple[str, Match], ...] = ()


def filters_of(given: Given) -> Filters:
    return Filters(keys=_keys(given), headers=_headers(given))


def _keys(given: Given) -> tuple[Match, ...]:
    text = given.text("keyFilter")
    if text is None:
        return ()
    if not text.startswith("["):
        return (_match(text),)
    several = given.decoded("keyFilter", _KEYS, '["user-1","user-2*"]') or []
    if not 1 <= len(several) <= _SEVERAL or not all(several):
        raise OptionInvalid("keyFilter", f"lists 1 to {_SEVERAL} keys, none of them empty")
    return tuple(_match(each) for each in several)


def _headers(given: Given) -> tuple[tuple[str, Match], ...]:
    text = given.text("headerFilter")
    if text is None:
        return ()
    if not text.startswith("{"):
        name, equals, wanted = text.partition("=")
        several = {name.strip(): wanted.strip() if equals else "*"}
    else:
        several = given.decoded("headerFilter", _HEADERS, '{"type":"order.*"}') or {}
    if not 1 <= len(several) <= _SEVERAL or not all(several):
        raise OptionInvalid("headerFilter", f"names 1 to {_SEVERAL} headers, none of them empty")
    return tuple((name, _match(wanted)) for name, wanted in sorted(several.items()))


def _match(text: str) -> Match:
    if text.endswith("\\*"):
        return Match(f"{text[:-2]}*".encode())
    return Match(text.removesuffix("*").encode(), text.endswith("*"))
