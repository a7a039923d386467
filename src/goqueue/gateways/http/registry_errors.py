"""Refusals under `/schema-registry`: our words, and the numbers of the original beside them."""

import msgspec

from goqueue.gateways.errors import ERRORS, Fact, error_body
from goqueue.gateways.http.bodies import encode_json
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import REGISTRY_MEDIA, Code, Refused

__all__ = ["REGISTRY_PREFIX", "RegistryErrorBody", "registry_refusal"]

REGISTRY_PREFIX = b"/schema-registry"
_MEDIA = REGISTRY_MEDIA.encode()
# By what a code is about, and for some by why: the numbers of the original.
_ERROR_CODES = {
    (Code.SUBJECT_NOT_FOUND, ""): 40401,
    (Code.SUBJECT_NOT_FOUND, "deleted"): 40404,
    (Code.SUBJECT_NOT_FOUND, "not deleted"): 40405,
    (Code.SUBJECT_NOT_FOUND, "no level"): 40408,
    (Code.VERSION_NOT_FOUND, ""): 40402,
    (Code.VERSION_NOT_FOUND, "deleted"): 40406,
    (Code.VERSION_NOT_FOUND, "not deleted"): 40407,
    (Code.SCHEMA_NOT_FOUND, ""): 40403,
    (Code.SCHEMA_INCOMPATIBLE, ""): 409,
    (Code.SCHEMA_INVALID, ""): 42201,
    (Code.SCHEMA_INVALID, "version"): 42202,
    (Code.COMPATIBILITY_INVALID, ""): 42203,
    (Code.SCHEMA_REFERENCED, ""): 42206,
}


class RegistryErrorBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every failure of these routes; `error_code` is the number of the original."""

    error_code: int
    message: str
    error: str
    code: str
    status: int
    details: dict[str, Fact] | None = None


def registry_refusal(refused: Refused) -> HttpResponse:
    """A refusal in the words of the original, with ours beside them."""
    body = error_body(refused)
    why = refused.facts.get("state") or ("version" if _is_about_version(refused) else "")
    known = _ERROR_CODES.get((refused.code, why)) or _ERROR_CODES.get((refused.code, ""))
    told = RegistryErrorBody(
        error_code=known or body.status,
        message="; ".join(refused.facts.get("messages", ())) or body.error,
        error=body.error,
        code=body.code,
        status=body.status,
        details=body.details,
    )
    return HttpResponse(ERRORS[refused.code].status, encode_json(told), _MEDIA)


def _is_about_version(refused: Refused) -> bool:
    return refused.facts.get("field") == "version"
