"""Answers as JSON bytes; one encoder for all of them."""

import msgspec

__all__ = ["encode_json"]

_ENCODER = msgspec.json.Encoder()


def encode_json(body: msgspec.Struct) -> bytes:
    """The bytes of an answer."""
    return _ENCODER.encode(body)
