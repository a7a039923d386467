"""The compiled modules and the sources that they were compiled from do the same."""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import goqueue.records
from goqueue.records import COMPILED, layout, octets

Store = Callable[[memoryview, int, int], None]
Load = Callable[[memoryview, int], int]

ROOM = Path(goqueue.records.__file__).parent

# Prints which twin ran, then a digest of what every function makes of the same bytes.
DIGEST = """
import hashlib, random
from functools import partial
from goqueue.model import Message, Refused
from goqueue.model.requests import TraceSeed
from goqueue import records
from array import array
from goqueue.records import *
from goqueue.records.arrow import *
seen = hashlib.sha256()
def note(function, *arguments):
    try:
        result = function(*arguments)
    except (Corrupt, Refused, IndexError, KeyError, BufferError) as error:
        result = (type(error).__name__, str(error))
    if isinstance(result, Columns):
        result = [getattr(result, name) for name in ("offsets", "timestamps", "priorities", "flags",
                  "positions", "key_lengths", "value_lengths", "header_lengths")]
    if isinstance(result, Scan):
        note(lambda: result.columns)
        result = (result.end, result.reason, result.needs)
    seen.update(repr(result).encode())
chance = random.Random(7)
for round in range(300):
    batch = []
    spoken = ["a", "\\u00e9", "\\U0001f600", "gq.codec", "gq.deliver-at", "gq.other",
              "traceparent", "gq.delayed-from"]
    parents = [b"00-%032x-%016x-01" % (chance.getrandbits(120), chance.getrandbits(60)), b"17",
               chance.randbytes(3)]
    for _ in range(chance.randrange(4)):
        names = [chance.choice(spoken) for _ in range(chance.randrange(3))]
        is_control = chance.random() < 0.2
        prefix = b"gq." if is_control != (chance.random() < 0.05) else b""
        batch.append(Message(
            value=chance.choice([None, chance.randbytes(chance.randrange(900))]),
            key=prefix + chance.randbytes(chance.randrange(9)),
            priority=chance.randrange(6 if round % 9 == 0 else 5),
            timestamp=chance.choice([0, 1, 2, 2**63 - 1, 2**63]),
            is_control=is_control,
            is_compressed=("gq.codec" in names) != (chance.random() < 0.05),
            is_delayed=chance.random() < (0.5 if "gq.deliver-at" in names else 0.05),
            headers=tuple((name, chance.choice(parents)) for name in names),
        ))
    note(build, batch)
    draft = Draft()
    for message in batch:
        note(draft.add, message.key, message.value, message.headers, message.priority)
        note(draft.put, message)
        due = chance.choice([0, 7, 10**18, 2**63 - 1, 2**63])
        note(draft.delay, message.key, message.value, due, message.headers, message.priority)
        note(draft.delay, message.key, message.value, due)
    note(draft.take)
    try:
        data = build(batch)
    except Refused:
        continue
    note(stamp, data, chance.choice([0, 2, 2**63 - 3, 2**63 - 1]), 1)
    if data and chance.random() < 0.2:
        data[8:16] = (2**63 - chance.randrange(3)).to_bytes(8, "big")
        data[4:8] = crc32c(data[8:]).to_bytes(4, "big")
    for _ in range(chance.randrange(3) if data else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if data and chance.random() < 0.3:
        data[3] ^= 1 << chance.randrange(8)
    if chance.random() < 0.3:
        del data[chance.randrange(len(data) + 1):]
    for function in (verify, examine, walk, scan, decode, crc32c):
        note(function, data)
    note(scan, data, 2)
    note(sums, data, 0, chance.randrange(len(data) + 2))
    note(murmur3, data)
    note(last_offset, data)
    note(find_delayed, data)
    note(find_delayed, data, 5)
    note(mark_delayed, bytearray(data), 3, 10**18)
    note(partial(scan_messages, with_keys=chance.random() < 0.5), data, chance.randrange(5))
    note(lambda: [(told.contexts, told.keys) for told in [scan_traces(data)]])
    note(lambda: [told and (told.contexts, told.keys, told.indexes)
                  for told in [scan_sampled(data, (1, 2), 3, 1 << 63)]])
    note(find_trace_contexts, data)
    note(key_fingerprint, bytes(data))
    note(parse_traceparent, chance.choice(parents)[:chance.choice([54, 55, 99])])
    note(mix_seed, chance.getrandbits(64), chance.getrandbits(64))
    seeds = chance.getrandbits(64), chance.getrandbits(64)
    contexts = derive_contexts(*seeds, [chance.getrandbits(63) for _ in range(chance.randrange(9))])
    note(bytes, contexts)
    note(sampled_indexes, contexts, chance.getrandbits(64))
    note(pick, data, [chance.randrange(9) for _ in range(3)])
    note(has_compressed, data)
    note(scan_values, data)
    note(visible, data, chance.randrange(5), chance.randrange(4))
    first = chance.randrange(9)
    left_out = ((first, first + chance.randrange(1, 4)), (first + 5, first + 6))
    note(visible, data, chance.randrange(5), chance.randrange(9), left_out)
    note(rehead, data, 0, ((chance.choice(spoken), b"new"),))
    wishes = [chance.randrange(-3, 6) for _ in batch] if chance.random() < 0.5 else None
    limits = {"body_bytes_max": chance.choice([100, 2000]), "needs_key": chance.random() < 0.3}
    note(partial(route, **limits), bytes(data), chance.randrange(1, 5), chance.randrange(9), wishes)
    note(slice_records, data, chance.randrange(5), chance.randrange(9), chance.randrange(2000))
    note(index_records, data, chance.randrange(5), chance.randrange(-1, 5), chance.randrange(1000))
    reader = ArrowReader(
        bytes(data), chance.randrange(3), chance.randrange(9), [(1, 2)], with_headers=True
    )
    note(lambda: [getattr(frame, name) for frame in [reader.read(2, 999)] if frame is not None
                  for name in ("offsets", "timestamps", "priorities", "flags", "header_rows")])
    note(lambda: [(column.offsets, column.data, column.validity) for frame in [reader.read(3, 99)]
                  if frame is not None for column in (frame.keys, frame.values,
                  frame.header_names, frame.header_values)])
    ends = memoryview(array("i", [0, *sorted(chance.randrange(99) for _ in range(3))])).cast("B")
    numbers = memoryview(array("q", [chance.randrange(-1, 6) for _ in range(3)])).cast("B")
    pieces = BinaryColumn(3, ends, b"gq." + chance.randbytes(96), chance.choice([None, b"\\x05"]))
    priorities = IntegerColumn(3, numbers, b"\\x03")
    rows = InputColumns(3, keys=pieces, values=pieces, priorities=priorities)
    note(ArrowWriter(3, 60).write, rows)
    messages = JsonMessages(b"[", chance.randrange(2000))
    seed = TraceSeed(*seeds, chance.choice([0, 1 << 63, 1 << 64]))
    messages.begin_partition("t", 1, seed if chance.random() < 0.5 else None, 100)
    note(messages.add_visible, data, chance.randrange(5), chance.randrange(1, 9), left_out)
    messages.begin_lease("t:1:", ":\u00e9", 2, "now")
    note(lambda: messages.add_found(RecordFinder([data, b""]), [first, 2, 0]))
    note(lambda: (messages.room, messages.count, messages.is_full, messages.take(b"]")))
    note(stamp, data, 3, 5)
    note(bytes, data)
print(COMPILED, seen.hexdigest())
"""


def run_twin(*, is_interpreted: bool) -> tuple[str, str]:
    environment = os.environ | {"GOQUEUE_NO_EXTENSIONS": "1" if is_interpreted else "0"}
    run = subprocess.run(
        [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
    )
    is_compiled, digest = run.stdout.split()
    return is_compiled, digest


def test_the_environment_forces_the_interpreted_twin_and_it_does_the_same() -> None:
    interpreted = run_twin(is_interpreted=True)
    preferred = run_twin(is_interpreted=False)

    assert interpreted[0] == "False"
    assert preferred[0] == str(any(ROOM.glob("cursor.*.so")))
    assert interpreted[1] == preferred[1]


def test_this_process_runs_one_twin_throughout() -> None:
    names = [f"goqueue.records.{name}" for name in ("batch", "columns", "cursor", "header_scan")]
    names += [f"goqueue.records.{name}" for name in ("json_messages", "json_text", "record")]
    names += [f"goqueue.records.{name}" for name in ("routing", "traceparent")]
    names += [f"goqueue.records.arrow.{name}" for name in ("input", "reader", "writer")]
    names += ["goqueue.delivery.offset_blocks", "goqueue.delivery.wheel.sieve"]
    for name in (*names, "goqueue.gateways.receipts", "goqueue.model.digits"):
        module = importlib.import_module(name)
        assert str(module.__file__).endswith(".py") is not COMPILED


def test_the_constants_for_the_compiler_are_those_of_the_sources() -> None:
    declared = dict(
        re.findall(r"^    (\w+) = (\w+)$", (ROOM / "layout.pxd").read_text(), re.MULTILINE)
    )

    assert len(declared) > 20
    for name, number in declared.items():
        assert getattr(layout, name) == int(number, 0), name


def test_the_names_for_the_compiler_are_those_of_the_sources() -> None:
    declared = dict(re.findall(r'#define GQ_(\w+) "(.*)"', (ROOM / "layout.pxd").read_text()))

    assert declared == {
        "CONTROL_PREFIX": layout.CONTROL_PREFIX.decode(),
        "CODEC_HEADER": layout.CODEC_HEADER,
        "DELIVER_HEADER": layout.DELIVER_HEADER,
        "BATCH_HEADER": layout.BATCH_HEADER.decode(),
    }


def test_every_reason_has_its_word() -> None:
    answers = {name: code for name, code in vars(layout).items() if name.startswith("BAD_")}

    assert layout.REASONS[layout.OK] == "ok"
    assert layout.REASONS[layout.TRUNCATED] == "truncated"
    for name, code in answers.items():
        assert layout.REASONS[code] == name.removeprefix("BAD_").lower()
    assert len(layout.REASONS) == len(answers) + 2


@pytest.mark.parametrize(
    ("store", "load", "number"),
    [
        (octets.store_u16, octets.load_u16, 0xFEDC),
        (octets.store_u32, octets.load_u32, 0xFEDCBA98),
        (octets.store_i64, octets.load_i64, -2),
    ],
)
def test_the_interpreted_numbers_are_big_endian(store: Store, load: Load, number: int) -> None:
    base = memoryview(bytearray(12))

    store(base, 2, number)

    assert load(base, 2) == number
    assert base[:2] == bytes(2)
    assert base[2] >= 0xFE
