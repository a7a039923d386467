"""Prepared transactions, and the one decision that commits them all."""

from goqueue.model import Code
from goqueue.model.requests import (
    BeginTransaction,
    CommitGroup,
    GroupCommitted,
)
from tests.unit.broker.transactions.words import (
    abort,
    begin,
    commit,
    commit_group,
    init,
    prepare,
    refused_code,
    shown,
    transactions,
    warm,
    write,
    writing,
)
from tests.unit.broker.users import ORDERS


def test_a_prepared_transaction_takes_no_more_and_may_be_aborted() -> None:
    node = warm(1)
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    identity = prepare(node, owner)
    assert prepare(node, owner) == identity

    assert refused_code(node, writing(owner, "more")) is Code.TRANSACTION_STATE_INVALID
    assert refused_code(node, BeginTransaction(owner=owner)) is Code.TRANSACTION_STATE_INVALID
    abort(node, owner)
    command = CommitGroup(key="key", transaction_ids=(identity,))
    assert refused_code(node, command) is Code.TRANSACTION_STATE_INVALID
    assert shown(node) == ["warm"]


def test_a_group_with_one_that_is_not_prepared_commits_none() -> None:
    node = warm(1)
    owners = [init(node, name) for name in ("first", "second")]
    for owner in owners:
        begin(node, owner)
        write(node, owner, owner.transactional_id)
    ready = prepare(node, owners[0])
    (other,) = [identity for identity in transactions(node) if identity != ready]
    for wrong, code in (
        (other, Code.TRANSACTION_STATE_INVALID),
        ("77-1", Code.TRANSACTION_NOT_FOUND),
        ("nonsense", Code.TRANSACTION_NOT_FOUND),
        ("-1-1", Code.TRANSACTION_NOT_FOUND),
        ("\u0661-1", Code.TRANSACTION_NOT_FOUND),
    ):
        command = CommitGroup(key="key", transaction_ids=(ready, wrong))
        assert refused_code(node, command) is code

    assert transactions(node)[ready].is_prepared
    assert not commit_group(node, "key", ready), "the key was not used"
    assert shown(node) == ["warm", "first"]
    commit(node, owners[1])
    assert shown(node) == ["warm", "first", "second"]


def test_newcomers_under_a_used_key_are_aborted() -> None:
    node = warm(1)
    first, second = init(node, "first"), init(node, "second")
    begin(node, first)
    write(node, first, "x")
    done = prepare(node, first)
    commit_group(node, "key", done)
    begin(node, second)
    write(node, second, "x again")
    late = prepare(node, second)
    node.restart()

    assert commit_group(node, "key", done, late)

    assert shown(node) == ["warm", "x"]
    assert not transactions(node)


def test_a_repeated_group_commit_is_answered_when_readers_see_the_first() -> None:
    node = warm(1)
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    command = CommitGroup(key="key", transaction_ids=(prepare(node, owner),))
    node.slow_down(ORDERS)
    first = node.begin(command)
    again = node.begin(command)
    assert not node.is_answered(first)
    assert not node.is_answered(again)

    node.speed_up()

    assert not node.reply(first, GroupCommitted).is_repeat
    assert node.reply(again, GroupCommitted).is_repeat
    assert shown(node) == ["warm", "x"]
