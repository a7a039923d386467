"""Documents and cells: valid for machines, harmless on a terminal."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.options import Output
from goqueue.cli.output import (
    ListWriter,
    cut,
    encode,
    encode_document,
    printable,
    write_document,
    write_items,
)

scalars = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text()

documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10
)


@given(st.text(st.characters()))
def test_printable_text_has_nothing_that_a_terminal_acts_on(text: str) -> None:
    assert printable(text).isprintable()


@given(st.text(st.characters(codec="utf-8")).filter(str.isprintable))
def test_text_that_is_printable_is_left_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(documents)
def test_encoded_json_says_the_same_without_controls(document: object) -> None:
    encoded = encode(document)
    assert msgspec.json.decode(encoded) == document
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in encoded.decode())


def test_yaml_is_blocks_with_plain_keys_and_scalars_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = {"a": 1, "empty": [], "list": [{"x": None, "y": ["no", True]}, [], [1, 2]], "m": {}}
    write_document(document, Output.YAML)
    assert capsys.readouterr().out == (
        "a: 1\n"
        "empty: []\n"
        "list:\n"
        "  - x: null\n"
        '    "y":\n'
        '      - "no"\n'
        "      - true\n"
        "  - []\n"
        "  - - 1\n"
        "    - 2\n"
        "m: {}\n"
    )


@pytest.mark.parametrize("key", ["no", "Yes", "null", "1", "a b", "-", "", "a:", "é"])
def test_a_key_that_yaml_would_misread_is_quoted(
    capsys: pytest.CaptureFixture[str], key: str
) -> None:
    write_document({key: 1}, Output.YAML)
    assert capsys.readouterr().out == f'"{key}": 1\n'


@given(documents)
def test_yaml_is_read_back_as_the_same_document(document: object) -> None:
    assert msgspec.yaml.decode(encode_document(document, Output.YAML)) == document


def test_json_lines_are_the_items_of_a_list_or_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_items({"total": 2, "items": [{"a": 1}, {"b": "\x7f"}]}, "items", Output.JSONL)
    write_document({"c": [1, 2]}, Output.JSONL)
    assert capsys.readouterr().out == '{"a":1}\n{"b":"\\u007f"}\n{"c":[1,2]}\n'


@pytest.mark.parametrize("items", [[], [{"a": 1}], [{"a": 1}, {"b": "\x1b"}]])
def test_a_list_written_bit_by_bit_is_one_document(
    items: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    writer = ListWriter(Output.JSON)
    for item in items:
        writer.add(item)
    writer.close()
    assert msgspec.json.decode(capsys.readouterr().out) == items


def test_a_list_that_was_broken_off_is_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    ListWriter(Output.JSON).add(1)
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(capsys.readouterr().out)


def test_a_cut_text_ends_in_an_ellipsis() -> None:
    assert cut("abcd", 4) == "abcd"
    assert cut("abcde", 4) == "abc…"
