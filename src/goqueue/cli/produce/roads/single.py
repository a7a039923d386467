"""One message from the command line, and where it went."""

import msgspec

from goqueue.cli.asking import ServerRefusal, Session, describe
from goqueue.cli.output import Output
from goqueue.cli.produce.draft import Draft, as_json
from goqueue.cli.produce.roads.posting import post_messages
from goqueue.cli.render import printable, write_document
from goqueue.client import GoQueueError

__all__ = ["produce_single"]


class _Result(msgspec.Struct, frozen=True):
    partition: int = 0
    offset: int = 0
    code: str = ""
    error: str = ""
    due: str = msgspec.field(default="", name="deliverAt")


class _Results(msgspec.Struct, frozen=True):
    results: tuple[_Result]


async def produce_single(session: Session, topic: str, draft: Draft, output: Output) -> None:
    body = await post_messages(session, topic, [as_json(draft)])
    try:
        (result,) = msgspec.json.decode(body, type=_Results).results
    except msgspec.MsgspecError as error:
        words = f"the answer is not what the contract says: {error}"
        raise GoQueueError("response_invalid", words) from error
    if output is not Output.TABLE:
        write_document(msgspec.json.decode(body), output)
    if result.code:
        raise ServerRefusal(describe(result.code, result.error))
    if output is Output.TABLE:
        due = f", due {result.due}" if result.due else ""
        print(printable(f"{topic} {result.partition}:{result.offset}{due}"))
