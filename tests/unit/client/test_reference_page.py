"""The reference page of the SDK says what the sources say."""

import ast
import inspect

import pytest

import goqueue
from goqueue.client import errors
from goqueue.client.connection import Connection
from scripts.python_reference import PAGE, Undocumented, docstring_of, python_reference

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_what_the_sources_make_of_it() -> None:
    assert python_reference() == TEXT, "run `make python-reference`"


def test_every_name_of_the_package_is_on_the_page() -> None:
    for name in goqueue.__all__:
        if not name.startswith(("Sync", "__")):
            assert f"### {name}\n" in TEXT or f"| `{name}` |" in TEXT, name


def test_every_method_of_a_connection_is_on_the_page_with_its_signature() -> None:
    for name, method in inspect.getmembers(Connection, inspect.isfunction):
        if not name.startswith("_"):
            assert f"#### q.{name}\n" in TEXT
            assert inspect.getdoc(method), name
    assert "await q.topics.create(" in TEXT
    assert "exist_ok: bool = False," in TEXT


def test_every_error_is_in_the_table() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.GoQueueError):
            assert f"| `{name}` | " in TEXT


def test_a_method_without_a_docstring_is_refused() -> None:
    (node,) = ast.parse("def bare() -> None: ...").body
    assert isinstance(node, ast.FunctionDef)
    with pytest.raises(Undocumented, match=r"q\.bare"):
        docstring_of(node, "q.bare")
