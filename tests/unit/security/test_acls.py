"""ACLs decide as a naive reading of all rules would, whatever text globs hold."""

import fnmatch
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, Refused
from goqueue.model.requests import (
    ACLS_MAX,
    AclEffect,
    AclSpec,
    CreateAcl,
    DeleteAcl,
    ListAcls,
    Operation,
    ResourceType,
)
from goqueue.security import ALIKE_MAX, AclDeleted, Acls, AclStated, Glob, check_acl

KEY = "key_0123456789abcdef"
READ, WRITE, ALL, DESCRIBE = Operation.READ, Operation.WRITE, Operation.ALL, Operation.DESCRIBE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALLOW, DENY = AclEffect.ALLOW, AclEffect.DENY

names = st.text("ab.", min_size=1, max_size=6)
globs = st.text("ab.*?", min_size=1, max_size=6)


def rule(
    name: str,
    operation: Operation = ALL,
    effect: AclEffect = ALLOW,
    *,
    principal: str = KEY,
    kind: ResourceType = TOPIC,
) -> AclSpec:
    return AclSpec(
        principal=principal,
        resource_type=kind,
        resource_name=name,
        operation=operation,
        effect=effect,
    )


def holding(*acls: AclSpec) -> Acls:
    held = Acls()
    for number, acl in enumerate(acls):
        held.apply(held.create(CreateAcl(id=f"acl_{number:04}", acl=acl)))
    return held


def decide(acls: Acls, name: str, operation: Operation) -> AclEffect | None:
    return acls.decide((KEY, "role:consumer", "*"), TOPIC, name, operation)


# Globs


@given(globs, names)
def test_a_glob_matches_what_fnmatch_does(glob: str, name: str) -> None:
    assert Glob(glob).matches(name) == fnmatch.fnmatchcase(name, glob)


@given(globs, names)
def test_every_match_begins_with_the_literal_under_which_it_is_indexed(
    glob: str, name: str
) -> None:
    pattern = Glob(glob)
    assert not pattern.matches(name) or name.startswith(pattern.literal)


@pytest.mark.parametrize("glob", ["[ab]", "a{1}", "a+", "(a)", "^a$", "a|b", "\\a"])
def test_no_other_character_of_a_glob_is_special(glob: str) -> None:
    assert Glob(glob).matches(glob)
    assert not Glob(glob).matches("a")


def test_a_glob_of_stars_does_not_go_back() -> None:
    # With going back this takes longer than the universe has existed.
    glob = Glob("*a" * 8 + "b")
    assert not glob.matches("a" * 249)
    assert Glob("?*?a?*?a*").matches("xaaxaax" * 30)


# Deciding


def naive(acls: list[AclSpec], name: str, operation: Operation) -> AclEffect | None:
    about = [
        each
        for each in acls
        if each.principal in (KEY, "role:consumer", "*")
        and each.resource_type is TOPIC
        and fnmatch.fnmatchcase(name, each.resource_name)
    ]
    if operation is DESCRIBE:
        others = [each for each in Operation if each not in (ALL, DESCRIBE)]
        if any(naive(acls, name, each) is ALLOW for each in others):
            return ALLOW
        return DENY if any(each.effect is DENY for each in about) else None
    effects = [each.effect for each in about if each.operation in (operation, ALL)]
    return DENY if DENY in effects else ALLOW if effects else None


specs = st.builds(
    AclSpec,
    principal=st.sampled_from([KEY, "key_ffffffffffffffff", "role:consumer", "role:admin", "*"]),
    resource_type=st.sampled_from([TOPIC, GROUP]),
    resource_name=globs,
    operation=st.sampled_from([each for each in Operation if each is not DESCRIBE]),
    effect=st.sampled_from(AclEffect),
)


@given(st.lists(specs, max_size=12), names, st.data())
def test_rules_decide_like_a_naive_reading_of_all_of_them(
    acls: list[AclSpec], name: str, data: st.DataObject
) -> None:
    held = holding(*acls)
    gone = data.draw(st.sets(st.integers(0, 11)))
    for number in gone:
        if number < len(acls):
            held.apply(held.delete(DeleteAcl(id=f"acl_{number:04}")))
    left = [each for number, each in enumerate(acls) if number not in gone]
    operation = data.draw(st.sampled_from([each for each in Operation if each is not ALL]))
    assert decide(held, name, operation) is naive(left, name, operation)


@pytest.mark.parametrize("order", list(itertools.permutations([0, 1])))
def test_a_deny_wins_in_whatever_order_rules_were_made(order: tuple[int, ...]) -> None:
    both = [rule("orders"), rule("ord*", READ, DENY, principal="*")]
    acls = holding(*(both[number] for number in order))
    assert decide(acls, "orders", READ) is DENY
    assert decide(acls, "orders", WRITE) is ALLOW
    # What may be written may be described.
    assert decide(acls, "orders", DESCRIBE) is ALLOW


def test_a_rule_stated_again_replaces_the_one_before() -> None:
    acls = holding(rule("orders"))
    acls.apply(AclStated(id="acl_0000", acl=rule("bills")))
    assert len(acls) == 1
    assert decide(acls, "orders", READ) is None
    assert decide(acls, "bills", READ) is ALLOW


def test_a_rule_that_is_deleted_twice_is_gone_once() -> None:
    acls = holding(rule("orders"))
    acls.apply(AclDeleted(id="acl_0000"))
    acls.apply(AclDeleted(id="acl_0000"))
    assert len(acls) == 0
    assert decide(acls, "orders", READ) is None


# Making and listing


@pytest.mark.parametrize(
    ("acl", "field"),
    [
        (rule("x", principal="alice"), "principal"),
        (rule("x", principal="role:root"), "principal"),
        (rule("x", principal="key_short"), "principal"),
        (rule("x", DESCRIBE), "operation"),
        (rule(""), "resource_name"),
        (rule("x" * 250), "resource_name"),
        (rule("a\nb"), "resource_name"),
        (rule("*a" * 9), "resource_name"),
        (rule("équipe/1"), "resource_name"),
        (rule("", kind=GROUP), "resource_name"),
        (rule("é" * 128, kind=GROUP), "resource_name"),
        (rule("a\x00b", kind=GROUP), "resource_name"),
        (rule("a\u2028b", kind=GROUP), "resource_name"),
        (rule("\ud800", kind=GROUP), "resource_name"),
        (rule("*é" * 9, kind=GROUP), "resource_name"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(acl: AclSpec, field: str) -> None:
    with pytest.raises(Refused) as refused:
        check_acl(acl)
    assert refused.value.code is Code.REQUEST_INVALID
    assert refused.value.facts["field"] == field


@pytest.mark.parametrize("pattern", ["équipe/1", "équipe/*", "?quipe/?", "*/1"])
def test_a_rule_about_groups_may_name_any_printable_text(pattern: str) -> None:
    acls = holding(rule(pattern, kind=GROUP))
    assert acls.decide((KEY,), GROUP, "équipe/1", READ) is ALLOW
    # Neither another case nor another form of the same letter is the same name.
    for other in ("Équipe/1/", "équipe2", "e\u0301quipe/1"):
        found = acls.decide((KEY,), GROUP, other, READ)
        assert found is (ALLOW if fnmatch.fnmatchcase(other, pattern) else None)
    assert acls.decide((KEY,), TOPIC, "équipe/1", READ) is None


def test_an_unknown_rule_cannot_be_deleted() -> None:
    with pytest.raises(Refused) as refused:
        Acls().delete(DeleteAcl(id="acl_0000"))
    assert refused.value.code is Code.ACL_NOT_FOUND


def test_there_are_not_more_rules_than_the_limit() -> None:
    acls = Acls()
    for number in range(ACLS_MAX):
        acls.apply(AclStated(id=f"acl_{number:06}", acl=rule("x")))
    with pytest.raises(Refused) as refused:
        acls.create(CreateAcl(id="one more", acl=rule("x")))
    assert refused.value.code is Code.QUOTA_EXCEEDED


@pytest.mark.parametrize("name", ["*a{0}*", "a{0:0100}?", "a*"])
def test_a_principal_has_so_many_patterns_and_no_more(name: str) -> None:
    acls = holding(*(rule(name.format(number)) for number in range(ALIKE_MAX)))

    with pytest.raises(Refused) as refused:
        acls.create(CreateAcl(id="one more", acl=rule("b*")))
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert refused.value.facts == {"quota": "similar acls", "limit": ALIKE_MAX, "used": ALIKE_MAX}
    others = [rule("b"), rule("b*", kind=GROUP), rule("b*", principal="role:consumer")]
    for number, other in enumerate(others):
        acls.apply(acls.create(CreateAcl(id=f"other {number}", acl=other)))
    acls.apply(AclDeleted(id="acl_0000"))
    assert acls.create(CreateAcl(id="one more", acl=rule("b*"))).id == "one more"


def test_a_name_has_so_many_rules_of_a_principal_and_no_more() -> None:
    acls = holding(*(rule("a", READ) for _ in range(ALIKE_MAX)))

    with pytest.raises(Refused) as refused:
        acls.create(CreateAcl(id="one more", acl=rule("a", WRITE)))
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert acls.create(CreateAcl(id="one more", acl=rule("ab", WRITE))).id == "one more"


def test_a_decision_compares_no_rules_about_shorter_names(monkeypatch: pytest.MonkeyPatch) -> None:
    acls = holding(*(rule("a" * (1 + number % 200)) for number in range(2000)), rule("a*a"))
    compared: list[str] = []

    def matches(glob: Glob, name: str) -> bool:
        compared.append(glob.literal)
        return name.startswith(glob.literal)

    monkeypatch.setattr(Glob, "matches", matches)
    assert decide(acls, "a" * 249, READ) is ALLOW
    assert compared == ["a"]


def test_rules_are_listed_page_by_page_in_the_order_of_their_ids() -> None:
    acls = Acls()
    for number in (3, 1, 2):
        acls.apply(AclStated(id=f"acl_{number}", acl=rule(f"topic{number}")))
    first = acls.page(ListAcls(limit=2))
    assert [each.id for each in first.acls] == ["acl_1", "acl_2"]
    assert first.next == "acl_2"
    second = acls.page(ListAcls(after=first.next, limit=2))
    assert [each.id for each in second.acls] == ["acl_3"]
    assert second.next is None
