"""Keys of transactions, those of the broker's own moves among them."""

from goqueue.model import TransactionKey


def test_a_transaction_of_a_producer_is_not_internal() -> None:
    assert not TransactionKey(7, 1).is_internal
    assert str(TransactionKey(7, 12)) == "7-12"


def test_the_transaction_of_a_move_is_internal_and_names_the_move() -> None:
    key = TransactionKey.of_move(3)

    assert key.is_internal
    assert key.move == 3
    # As logs and journals have stored it since the first release.
    assert key == (-3, 1)
