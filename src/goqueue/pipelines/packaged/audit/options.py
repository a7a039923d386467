"""What an audit looks at, checked before anything is begun."""

import msgspec

from goqueue.pipelines.packaged.wiring import OptionWrong, Wiring, check_topic

__all__ = ["AuditOptions", "CopyOptions"]


class AuditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Loss, duplicates and order in a topic. Expressions are SQL over the columns of the connector.

    With `sequence` all three are looked for: who numbers (`producer`, by itself the key) begins at
    `first` if that is given, and used `expected` numbers. With `identity` only duplicates are.
    """

    wiring: Wiring
    topic: str
    sequence: str | None = None
    producer: str | None = None
    identity: str | None = None
    first: int | None = None
    expected: dict[str, int] = {}
    starting: str = "earliest"
    ending: str = "latest"

    def __post_init__(self) -> None:
        check_topic("--topic", self.topic)
        if (self.sequence is None) is (self.identity is None):
            words = "say by --sequence how rows are numbered, or by --id what tells them apart"
            raise OptionWrong("--sequence", words)
        for option, given in (
            ("--producer", self.producer is not None),
            ("--first", self.first is not None),
            ("--expected", bool(self.expected)),
        ):
            if given and self.sequence is None:
                raise OptionWrong(option, "goes with --sequence")
        if any(count < 0 for count in self.expected.values()):
            raise OptionWrong("--expected", "is not negative")


class CopyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a topic holds each row of another once, and rows of a key in the same order."""

    wiring: Wiring
    topic: str
    against: str
    identity: str = "concat_ws(':', hex(key), md5(value))"
    target_identity: str | None = None
    starting: str = "earliest"
    ending: str = "latest"

    def __post_init__(self) -> None:
        check_topic("--topic", self.topic)
        check_topic("--against", self.against)
        if self.topic == self.against:
            raise OptionWrong("--against", "is the same topic")
