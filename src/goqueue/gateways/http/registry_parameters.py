"""Parameters as clients of Confluent's registry write them."""

from goqueue.gateways.http.bodies import INT32_MAX
from goqueue.gateways.http.routing.parameter import Parameter
from goqueue.model import Code, Refused

__all__ = ["flag", "page", "read_version"]


def _invalid(field: str, reason: str) -> Refused:
    return Refused(Code.REQUEST_INVALID, field=field, reason=reason)


def flag(name: str, summary: str) -> Parameter[bool]:
    """A switch in any case, as clients of several languages write it."""

    def read(given: str) -> bool:
        try:
            return {"true": True, "false": False}[given.lower()]
        except KeyError:
            raise _invalid(name, "must be true or false") from None

    schema = {"type": "boolean", "default": False}
    return Parameter(name=name, summary=summary, schema=schema, read=read, default=False)


def page(name: str, summary: str, default: int) -> Parameter[int]:
    def read(given: str) -> int:
        if not given.lstrip("-").isdigit() or not given.isascii() or len(given) > 20:
            raise _invalid(name, "must be a whole number")
        if int(given) < default:
            raise _invalid(name, f"must be at least {default}")
        return int(given)

    schema = {"type": "integer", "default": default, "minimum": default}
    return Parameter(name=name, summary=summary, schema=schema, read=read, default=default)


def read_version(given: str) -> int | None:
    if given in {"latest", "-1"}:
        return None
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:11]) <= INT32_MAX:
        reason = "must be a number from 1 to 2147483647 or `latest`"
        raise Refused(Code.SCHEMA_INVALID, field="version", reason=reason)
    return int(given)
