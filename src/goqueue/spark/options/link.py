"""How to reach the broker: addresses and references to secrets, never the secrets."""

import msgspec

from goqueue.spark.options.given import Given, OptionInvalid

__all__ = ["Link", "link_of"]

MEBIBYTE = 1 << 20


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the broker. The key itself is in a file, which every worker reads.

    Without `retries` time alone bounds them.
    """

    servers: tuple[str, ...]
    token_file: str | None = None
    ca_file: str | None = None
    timeout_s: float = 30.0
    retries: int | None = None
    fetch_bytes_max: int = 8 * MEBIBYTE


def link_of(given: Given) -> Link:
    text = given.text("goqueue.servers")
    if text is None:
        raise OptionInvalid("goqueue.servers", "is missing: `host:port` or a URL of the broker")
    servers = [each.strip() for each in text.split(",")]
    if not all(servers):
        raise OptionInvalid("goqueue.servers", f"{text!r} has an empty entry")
    servers = [each if "://" in each else f"http://{each}" for each in servers]
    ca_file = given.text("goqueue.tls.caFile")
    if ca_file is not None and not any(each.startswith("https://") for each in servers):
        raise OptionInvalid("goqueue.tls.caFile", "needs an `https://` URL in `goqueue.servers`")
    retries = None
    if given.text("goqueue.retries") is not None:
        retries = given.number("goqueue.retries", 0, 0, 10_000)
    return Link(
        servers=tuple(dict.fromkeys(servers)),
        token_file=given.text("goqueue.tokenFile"),
        ca_file=ca_file,
        timeout_s=given.number("goqueue.timeoutMs", 30_000, 100, 3_600_000) / 1000,
        retries=retries,
        fetch_bytes_max=given.number("goqueue.fetch.maxBytes", 8 * MEBIBYTE, 1024, 16 * MEBIBYTE),
    )
