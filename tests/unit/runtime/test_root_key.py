"""The root key: what is accepted as one, and that the process keeps it to itself."""

import subprocess
import sys

import pytest

from goqueue.model import Secret
from goqueue.runtime import RootKeyUnusable, read_root_key
from goqueue.runtime.settings import ApiSettings


def test_a_root_key_has_32_or_more_visible_characters() -> None:
    assert read_root_key(ApiSettings(root_key=Secret("k" * 32))) == b"k" * 32


@pytest.mark.parametrize("text", ["k" * 31, "k" * 31 + " ", "k" * 40 + "\n", "\x7f" * 40, "é" * 40])
def test_what_is_no_key_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(RootKeyUnusable) as unusable:
        read_root_key(ApiSettings(root_key=Secret(text)))
    assert text not in str(unusable.value)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this switch")
def test_the_memory_of_a_node_with_keys_is_not_dumped() -> None:
    program = (
        "import ctypes\n"
        "from goqueue.runtime import forbid_memory_dumps\n"
        "get = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)\n"
        "before = get()\n"
        "forbid_memory_dumps()\n"
        "print(before, get())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["1", "0"]
