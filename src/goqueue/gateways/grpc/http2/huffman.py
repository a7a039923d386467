"""The Huffman code of HPACK (RFC 7541, appendix B): decodes header strings.

The code is canonical: the lengths of the codes of all symbols say which codes they are. Decoding
takes four bits at a time through a table that is built when it is first needed.

Cost: two steps per byte. A string decodes to at most 8/5 of its size.
"""

import functools
from collections.abc import Iterator
from itertools import groupby

__all__ = ["HuffmanInvalid", "decode_huffman"]

# How many bits the codes of the symbols 0 to 256 have, as (bits, number of symbols); 256 is the
# end of a string, of which only the first bits may appear, as padding.
_LENGTHS = (
    "13 23 28*7 24 30 28 28 30 28*8 30 28*9 6 10 10 12 13 6 8 11 10 10 8 11 8 6*3 5*3 6*7 7 8 15 6 "
    "12 10 13 6 7*22 8 7 8 13 19 13 14 6 15 5 6 5 6 5 6*3 5 7 7 6*3 5 6 7 6 5 5 6 7*5 15 11 14 13 "
    "28 20 22 20 20 22*3 23 22 23*5 24 23 24 24 22 23 24 23*4 21 22 23 22 23 23 24 22 21 20 22 22 "
    "23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22*3 23 22 22 23 26 26 20 19 22 "
    "23 22 25 26*3 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27*3 20 24 20 21 22 21 21 "
    "23 22 22 25 25 24 24 26 23 26 27 26 26 27*5 28 27*5 26 30"
)
_END = 256
_PADDING_BITS_MAX = 7


class HuffmanInvalid(Exception):
    """Bits that are no string of this code."""


def _lengths() -> Iterator[int]:
    for word in _LENGTHS.split():
        bits, _, count = word.partition("*")
        yield from [int(bits)] * int(count or 1)


class _Node:
    """A place in the tree of codes."""

    __slots__ = ("children", "is_padding", "symbol")

    def __init__(self, *, is_padding: bool) -> None:
        self.children: list[_Node | None] = [None, None]
        self.symbol: int | None = None
        # Whether a string may end here: after at most seven ones.
        self.is_padding = is_padding


def _tree() -> _Node:
    lengths = list(_lengths())
    assert len(lengths) == _END + 1
    root = _Node(is_padding=True)
    code = previous = 0
    ordered = sorted(range(len(lengths)), key=lambda symbol: (lengths[symbol], symbol))
    for bits, symbols in groupby(ordered, key=lambda symbol: lengths[symbol]):
        code <<= bits - previous
        previous = bits
        for symbol in symbols:
            node = root
            for depth in range(bits):
                bit = code >> (bits - 1 - depth) & 1
                child = node.children[bit]
                if child is None:
                    is_padding = node.is_padding and bit == 1 and depth < _PADDING_BITS_MAX
                    child = node.children[bit] = _Node(is_padding=is_padding)
                node = child
            node.symbol = symbol
            code += 1
    return root


# By node and four bits: the node after them, and the byte that they complete, or -1.
_Table = list[list[tuple[int, int]]]


@functools.cache
def _table() -> tuple[_Table, list[bool]]:
    root = _tree()
    nodes, numbers = [root], {id(root): 0}
    for node in nodes:
        for child in node.children:
            if child is not None and child.symbol is None and id(child) not in numbers:
                numbers[id(child)] = len(nodes)
                nodes.append(child)
    table = [[_step(node, root, nibble, numbers) for nibble in range(16)] for node in nodes]
    return table, [node.is_padding for node in nodes]


def _step(start: _Node, root: _Node, nibble: int, numbers: dict[int, int]) -> tuple[int, int]:
    """The outcome of four bits; no code is shorter than five, so at most one byte is complete."""
    node, found = start, -1
    for shift in (3, 2, 1, 0):
        child = node.children[nibble >> shift & 1]
        if child is None or child.symbol == _END:
            return -1, -1
        if child.symbol is not None:
            found, child = child.symbol, root
        node = child
    return numbers[id(node)], found


def decode_huffman(data: bytes) -> bytes:
    """The string that these bytes encode; raises HuffmanInvalid."""
    table, may_end = _table()
    decoded = bytearray()
    state = 0
    for byte in data:
        for nibble in (byte >> 4, byte & 15):
            state, symbol = table[state][nibble]
            if state < 0:
                raise HuffmanInvalid
            if symbol >= 0:
                decoded.append(symbol)
    if not may_end[state]:
        raise HuffmanInvalid
    return bytes(decoded)
