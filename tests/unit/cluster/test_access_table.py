"""Keys, ACLs and tenants of an image: what changes add up to, and how that is stated again."""

import pytest

from goqueue.cluster import AccessStated, AccessTable, ImageStated, MetadataChange, MetadataImage
from goqueue.model import KeyId
from goqueue.model.requests import (
    AclEffect,
    AclSpec,
    KeyVerifiers,
    Operation,
    Quotas,
    ResourceType,
    Role,
    ScramVerifier,
)
from goqueue.security import (
    AclDeleted,
    AclStated,
    KeyDeleted,
    KeyRevoked,
    KeyStated,
    TenantDeleted,
    TenantStated,
)

_SCRAM = ScramVerifier(b"salt", 1, b"stored", b"server")


def key(number: int) -> KeyStated:
    digest = b"%032d" % number
    return KeyStated(
        id=KeyId(f"key_{number:016x}"),
        name=f"key {number}",
        prefix="gq_00000000",
        roles=(Role.ADMIN,),
        tenant="default",
        created_at=number,
        verifiers=KeyVerifiers(digest=digest, scram_256=_SCRAM, scram_512=_SCRAM, sigv4=b""),
    )


def acl(number: int) -> AclStated:
    spec = AclSpec(
        principal="*",
        resource_type=ResourceType.TOPIC,
        resource_name=f"topic-{number}",
        operation=Operation.READ,
        effect=AclEffect.DENY,
    )
    return AclStated(id=f"acl_{number}", acl=spec)


def tenant(name: str) -> TenantStated:
    return TenantStated(id=name, name=name, created_at=1, updated_at=1, quotas=Quotas())


def filled(count: int) -> AccessTable:
    table = AccessTable()
    for number in range(count):
        table.apply(key(number))
        table.apply(acl(number))
    table.apply(tenant("acme"))
    return table


def test_the_same_entries_have_the_same_sum_in_whatever_order_they_came() -> None:
    one, other = AccessTable(), AccessTable()
    for number in range(5):
        one.apply(key(number))
        other.apply(key(4 - number))
    other.apply(acl(1))
    assert one.sum != other.sum
    other.apply(AclDeleted(id="acl_1"))
    assert one.sum == other.sum != 0


def test_a_revoked_key_keeps_no_verifier_and_what_is_deleted_is_gone() -> None:
    table = filled(2)
    table.apply(KeyRevoked(id=key(0).id))
    assert table.keys[key(0).id].is_revoked
    assert table.keys[key(0).id].verifiers is None
    table.apply(KeyDeleted(id=key(0).id))
    table.apply(TenantDeleted(id="acme"))
    assert list(table.keys) == [key(1).id]
    assert not table.tenants


def test_a_change_of_what_is_gone_changes_nothing() -> None:
    table = AccessTable()
    for change in (KeyRevoked(id=key(0).id), KeyDeleted(id=key(0).id), AclDeleted(id="acl_1")):
        table.apply(change)
    assert (len(table), table.sum) == (0, 0)


def test_a_table_is_stated_in_bounded_pieces_and_read_again_from_them() -> None:
    table, read = filled(200), AccessTable()
    pieces = list(table.state_pieces())
    assert [each.is_last for each in pieces] == [False] * (len(pieces) - 1) + [True]
    assert max(len(each.entries) for each in pieces) <= 128

    read.begin_statement()
    for piece in pieces:
        assert not read.is_whole
        read.take_piece(piece)
    assert read.is_whole
    assert (read.sum, len(read)) == (table.sum, 401)


def test_what_changes_between_two_pieces_is_read_once_and_right() -> None:
    table, read = filled(200), AccessTable()
    read.begin_statement()
    changes = iter((KeyRevoked(id=key(199).id), AclDeleted(id="acl_3"), key(500), key(3), acl(1)))
    for piece in table.state_pieces():
        read.take_piece(piece)
        for change in (next(changes, None),):
            if change is not None:
                table.apply(change)
                read.apply(change)
    assert read.is_whole
    assert read.sum == table.sum
    assert read.keys[key(199).id].is_revoked


def test_a_statement_that_lost_an_acl_is_found_out() -> None:
    read = AccessTable()
    read.begin_statement()
    *pieces, last = filled(100).state_pieces()
    for piece in pieces:
        read.take_piece(piece)
    with pytest.raises(AssertionError):
        read.take_piece(AccessStated(entries=last.entries[:-1], is_last=True, sum=last.sum))


def test_a_table_that_is_whole_learns_nothing_from_a_statement() -> None:
    table = filled(3)
    before = table.sum
    table.take_piece(AccessStated(entries=(key(7),), is_last=True, sum=1))
    assert table.sum == before


def test_an_image_says_how_much_follows_and_is_whole_with_the_last_piece() -> None:
    image = MetadataImage()
    image.apply([tenant("acme"), *[key(number) for number in range(300)]], 1)
    stated = image.stated()
    assert (stated.access_count, stated.access_sum) == (301, image.access.sum)

    read = MetadataImage()
    records: list[list[MetadataChange]] = [[stated]]
    records.extend([piece] for piece in image.access.state_pieces())
    records[0] += records.pop(1)
    for version, record in enumerate(records, start=2):
        assert not read.access.is_whole or version == 2
        read.apply(record, version)
    assert read.access.is_whole
    assert read.stated().access_sum == stated.access_sum


def test_an_image_without_keys_is_stated_in_one_record() -> None:
    image = MetadataImage()
    stated = image.stated()
    assert isinstance(stated, ImageStated)
    assert stated.access_count == 0
    assert not list(image.access.state_pieces())
    read = MetadataImage()
    read.apply([stated], 1)
    assert read.access.is_whole
