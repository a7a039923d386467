"""One flipped byte on the disk of a real node: what each kind of reader still gets."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import goqueue
from goqueue.records import walk
from tests.integration.http_api import Api
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess

SECONDS_MAX = 60


def harm(directory: Path, partition: int, offset: int) -> None:
    path = directory / "logs" / "orders" / str(partition) / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[walk(data).positions[offset] + 40] ^= 1
    path.write_bytes(data)


def test_every_reader_gets_all_but_the_damaged_record(
    mortal: ServerProcess, tmp_path: Path, connect: Callable[[ServerProcess], Api]
) -> None:
    api = connect(mortal)
    api.create("orders", 2)
    for partition in range(2):
        messages = [{"value": f"{partition}.{n}" * 9, "partition": partition} for n in range(5)]
        api.publish("orders", *messages)
    mortal.stop()
    harm(mortal.directory, 0, 2)
    mortal.begin()
    mortal.wait_until_ready()
    api.close()
    api = connect(mortal)
    good = {f"{p}.{n}" * 9 for p in range(2) for n in range(5)} - {"0.2" * 9}

    # By HTTP: the offset itself is refused, with where to continue.
    path = "/topics/orders/partitions/0/messages"
    answer = api.ask("GET", path, offset=2)
    assert (answer.status, answer.code) == (500, "records_damaged")
    assert answer.body["details"]["next_offset"] == 3
    assert [each["offset"] for each in api.get(path, offset=0)["messages"]] == [0, 1]
    assert [each["offset"] for each in api.get(path, offset=3)["messages"]] == [3, 4]

    # By the command line, over all partitions.
    done = Program(mortal.url, tmp_path).run("consume", "orders", "-n", "0", "--values")
    assert set(done.out.decode().split()) == good
    assert "offsets 2 to 2 are damaged" in done.err

    # By the SDK, as a stream and as a queue.
    async def read() -> None:
        async with asyncio.timeout(SECONDS_MAX), goqueue.connect(mortal.url) as q:
            seen: set[str] = set()
            async with q.stream("orders") as stream:
                async for message in stream:
                    seen.add((message.value or b"").decode())
                    if seen == good:
                        break
            seen = set()
            async with q.consume("orders", group="workers") as queue:
                async for message in queue:
                    seen.add((message.value or b"").decode())
                    await message.ack()
                    if seen == good:
                        break

    asyncio.run(read())
    mortal.wait_to_say("log=orders-0 first=2 next_offset=3")
    assert mortal.said.count("records_damaged: ") == 1
