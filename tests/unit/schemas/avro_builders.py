"""Avro schemas in few words, and one evolution of them."""

from typing import NamedTuple, TypeAlias

__all__ = [
    "AvroCase",
    "Json",
    "array",
    "decimal",
    "enum",
    "field",
    "fixed",
    "logical",
    "mapping",
    "record",
]

Json: TypeAlias = dict[str, object]


class AvroCase(NamedTuple):
    """One evolution: see `avro_cases.py`."""

    name: str
    old: object
    new: object
    readable: str
    reason: str = ""


def record(*fields: object, name: str = "Order", **more: object) -> Json:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: object = "string", **more: object) -> Json:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, name: str = "Status", **more: object) -> Json:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "Hash", **more: object) -> Json:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: object, **more: object) -> Json:
    return {"type": "array", "items": items, **more}


def mapping(values: object) -> Json:
    return {"type": "map", "values": values}


def decimal(precision: int, scale: int | None = None, type_: str = "bytes") -> Json:
    parts: Json = {"type": type_, "logicalType": "decimal", "precision": precision}
    return parts if scale is None else {**parts, "scale": scale}


def logical(type_: str, name: str) -> dict[str, str]:
    return {"type": type_, "logicalType": name}
