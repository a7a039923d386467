"""ACLs: which rules there are, and what they decide about a name.

A rule is about a principal (a key id, `role:<role>` or `*`), the names that its glob matches, and
an operation. One matching deny refuses; otherwise one matching allow permits; otherwise nothing is
decided, and the caller of this module refuses. Never knows tenants or roles: see `access.py`.

Hostile input: a glob is text of a caller. It has the characters of a name, `*` and `?`, at most
`STARS_MAX` stars and `GLOB_CHARACTERS_MAX` characters; one of groups has any printable text, in at
most `GROUP_BYTES_MAX` bytes, and `*` and `?` stand for others there, too. Names are compared
character by character, without case folding or normalisation. A glob is matched part by part from
left to right without going back, so the time is bounded by the length of the name times the length
of the longest part.

Invariant: the index has exactly the rules in `_acls`, each once.
Cost of a decision: for each principal one dictionary lookup for the name, one for each length of
the literal text with which its patterns begin, and one match for each pattern found; 100,000 rules
about other names cost nothing. No decision compares more than `ALIKE_MAX` patterns and as many
rules about the very name, for each principal.
"""

import bisect
import re
from collections.abc import Iterable
from typing import NamedTuple

from goqueue.model import Code, Refused
from goqueue.model.requests import (
    ACLS_MAX,
    AclDescription,
    AclEffect,
    AclList,
    AclSpec,
    CreateAcl,
    DeleteAcl,
    ListAcls,
    Operation,
    ResourceType,
    Role,
)
from goqueue.security.api_keys import PAGE_MAX
from goqueue.security.changes import AclDeleted, AclStated

__all__ = ["ALIKE_MAX", "GLOB_CHARACTERS_MAX", "STARS_MAX", "Acls", "Glob", "check_acl"]

GLOB_CHARACTERS_MAX = 249
# Of a pattern of groups, whose names may be any printable text.
GROUP_BYTES_MAX = 255
_GLOB = re.compile(r"[A-Za-z0-9._*?-]+")
_KEY = re.compile(r"key_[0-9a-f]{16}")
STARS_MAX = 8
# Rules of one principal about one type of resource: so many patterns, and so many about one name.
ALIKE_MAX = 1000

_ID_CHARACTERS_MAX = 64
_ROLES = frozenset(f"role:{role.value}" for role in Role)
_EVERYBODY = "*"
# One bit for each operation; `all` has every one, `describe` none of its own.
_BITS = {
    Operation.READ: 1,
    Operation.WRITE: 2,
    Operation.CREATE: 4,
    Operation.ALTER: 8,
    Operation.DELETE: 16,
    Operation.ALL: 31,
}


class _Part:
    """What stands between two stars: texts at their distances, `?` between them."""

    __slots__ = ("_texts", "length", "text")

    def __init__(self, pattern: str) -> None:
        self.length = len(pattern)
        # The whole of it, if it has no `?`.
        self.text = None if "?" in pattern else pattern
        texts = []
        at = 0
        for text in pattern.split("?"):
            if text:
                texts.append((at, text))
            at += len(text) + 1
        self._texts = tuple(texts)

    def fits(self, name: str, at: int) -> bool:
        for distance, text in self._texts:  # noqa: SIM110  # `all` takes twice as long
            if not name.startswith(text, at + distance):
                return False
        return True

    def find(self, name: str, at: int, end: int) -> int:
        """The leftmost place of it in a piece of a name, or -1."""
        if self.text is not None:
            return name.find(self.text, at, end)
        for place in range(at, end - self.length + 1):
            if self.fits(name, place):
                return place
        return -1


class Glob:
    """A pattern with `*` (any text) and `?` (one character), split at its stars."""

    __slots__ = (
        "_first",
        "_inner",
        "_is_literal",
        "_last",
        "_length_min",
        "is_pattern",
        "is_prefix",
        "literal",
    )

    def __init__(self, pattern: str) -> None:
        parts = pattern.split("*")
        self._is_literal = len(parts) == 1
        self._first = _Part(parts[0])
        self._last = _Part(parts[-1])
        self._inner = tuple(_Part(part) for part in parts[1:-1] if part)
        self.is_pattern = len(parts) > 1 or "?" in pattern
        self._length_min = sum(map(len, parts))
        # What every match begins with.
        self.literal = parts[0].partition("?")[0]
        # The usual one: whatever begins with `literal` matches.
        self.is_prefix = pattern == self.literal + "*"

    def matches(self, name: str) -> bool:
        size = len(name)
        if self._is_literal:
            return size == self._length_min and self._first.fits(name, 0)
        end = size - self._last.length
        if size < self._length_min or not self._last.fits(name, end):
            return False
        if not self._first.fits(name, 0):
            return False
        at = self._first.length
        for part in self._inner:
            # The leftmost place is as good as any: what follows only gains room by it.
            at = part.find(name, at, end)
            if at < 0:
                return False
            at += part.length
        return True


def check_acl(acl: AclSpec) -> None:
    """Refuse a rule that could never be meant."""
    principal = acl.principal
    if not (_KEY.fullmatch(principal) or principal in _ROLES or principal == _EVERYBODY):
        reason = "is neither a key id nor role:<role> nor *"
        raise Refused(Code.REQUEST_INVALID, field="principal", reason=reason)
    if acl.operation not in _BITS:
        reason = "is implied by every other operation"
        raise Refused(Code.REQUEST_INVALID, field="operation", reason=reason)
    glob = acl.resource_name
    if acl.resource_type is ResourceType.GROUP:
        # Clients of other protocols name groups as they like.
        if not glob.isprintable() or not 0 < len(glob.encode()) <= GROUP_BYTES_MAX:
            reason = f"is not 1 to {GROUP_BYTES_MAX} bytes of printable text"
            raise Refused(Code.REQUEST_INVALID, field="resource_name", reason=reason)
    elif len(glob) > GLOB_CHARACTERS_MAX or not _GLOB.fullmatch(glob):
        reason = f"is not 1 to {GLOB_CHARACTERS_MAX} characters of a name, or * and ?"
        raise Refused(Code.REQUEST_INVALID, field="resource_name", reason=reason)
    if glob.count("*") > STARS_MAX:
        reason = f"has more than {STARS_MAX} stars"
        raise Refused(Code.REQUEST_INVALID, field="resource_name", reason=reason)


class _Rule:
    """One ACL, ready to be matched."""

    __slots__ = ("allows", "denies", "glob")

    def __init__(self, acl: AclSpec) -> None:
        bits = _BITS[acl.operation]
        is_allow = acl.effect is AclEffect.ALLOW
        self.glob = Glob(acl.resource_name)
        self.allows = bits if is_allow else 0
        self.denies = 0 if is_allow else bits


class _Effects(NamedTuple):
    """Operations as bits."""

    allows: int
    denies: int


class _Rules:
    """The rules of one principal about one type of resource: by name, or by how they begin."""

    __slots__ = ("_by_literal", "_by_name", "_lengths", "_patterns")

    def __init__(self) -> None:
        self._by_name: dict[str, dict[str, _Rule]] = {}
        self._by_literal: dict[str, dict[str, _Rule]] = {}
        # How many beginnings have each length.
        self._lengths: dict[int, int] = {}
        self._patterns = 0

    def __bool__(self) -> bool:
        return bool(self._by_literal or self._by_name)

    def count_like(self, glob: Glob) -> int:
        """How many rules are compared where this one would be: all patterns, or one name."""
        if glob.is_pattern:
            return self._patterns
        return len(self._by_name.get(glob.literal, ()))

    def add(self, acl_id: str, rule: _Rule) -> None:
        literal = rule.glob.literal
        if not rule.glob.is_pattern:
            self._by_name.setdefault(literal, {})[acl_id] = rule
            return
        self._patterns += 1
        if literal not in self._by_literal:
            self._by_literal[literal] = {}
            self._lengths[len(literal)] = self._lengths.get(len(literal), 0) + 1
        self._by_literal[literal][acl_id] = rule

    def remove(self, acl_id: str, glob: Glob) -> None:
        literal = glob.literal
        found = (self._by_literal if glob.is_pattern else self._by_name)[literal]
        del found[acl_id]
        if not glob.is_pattern:
            if not found:
                del self._by_name[literal]
            return
        self._patterns -= 1
        if not found:
            del self._by_literal[literal]
            self._lengths[len(literal)] -= 1
            if not self._lengths[len(literal)]:
                del self._lengths[len(literal)]

    @property
    def cost(self) -> int:
        """At most so many patterns and beginnings are compared with a name."""
        return self._patterns + len(self._lengths)

    def effects(self, name: str) -> "_Effects":
        """What all rules about a name say together: a loop, because a generator costs as much."""
        allows = denies = 0
        named = self._by_name.get(name)
        if named is not None:
            for rule in named.values():
                allows |= rule.allows
                denies |= rule.denies
        size = len(name)
        for length in self._lengths:
            begun = self._by_literal.get(name[:length]) if length <= size else None
            if begun is not None:
                for rule in begun.values():
                    if rule.glob.is_prefix or rule.glob.matches(name):
                        allows |= rule.allows
                        denies |= rule.denies
        return _Effects(allows, denies)


class Acls:
    """The ACLs of a node by id, and by what they are about."""

    def __init__(self) -> None:
        self._acls: dict[str, AclSpec] = {}
        self._ids: list[str] = []
        self._index: dict[tuple[str, ResourceType], _Rules] = {}
        # How many patterns decisions have compared so far.
        self.compared = 0

    def __len__(self) -> int:
        return len(self._acls)

    @property
    def ids(self) -> list[str]:
        """The ids of all rules, sorted."""
        return list(self._ids)

    def get(self, acl_id: str) -> AclSpec | None:
        return self._acls.get(acl_id)

    # Deciding about rules

    def copy(self) -> dict[str, AclSpec]:
        """All rules by their ids, as they are now."""
        return dict(self._acls)

    def create(self, command: CreateAcl) -> AclStated:
        """A new rule under an id that the shell drew."""
        check_acl(command.acl)
        if not 0 < len(command.id) <= _ID_CHARACTERS_MAX or command.id in self._acls:
            raise Refused(Code.REQUEST_INVALID, field="id", reason="is in use, or not an id")
        if len(self._acls) >= ACLS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="acls", limit=ACLS_MAX, used=len(self._acls))
        rules = self._index.get((command.acl.principal, command.acl.resource_type))
        alike = 0 if rules is None else rules.count_like(Glob(command.acl.resource_name))
        if alike >= ALIKE_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="similar acls", limit=ALIKE_MAX, used=alike)
        return AclStated(id=command.id, acl=command.acl)

    def delete(self, command: DeleteAcl) -> AclDeleted:
        if command.id not in self._acls:
            raise Refused(Code.ACL_NOT_FOUND, acl=command.id)
        return AclDeleted(id=command.id)

    def page(self, command: ListAcls) -> AclList:
        """Rules in the order of their ids."""
        limit = max(1, min(command.limit, PAGE_MAX))
        first = bisect.bisect_right(self._ids, command.after)
        ids = self._ids[first : first + limit]
        has_more = first + limit < len(self._ids)
        return AclList(
            acls=tuple(AclDescription(id=each, acl=self._acls[each]) for each in ids),
            next=ids[-1] if has_more else None,
        )

    # Applying

    def apply(self, change: AclStated | AclDeleted) -> None:
        """The only mutator."""
        before = self._acls.pop(change.id, None)
        if before is not None:
            of = (before.principal, before.resource_type)
            self._index[of].remove(change.id, Glob(before.resource_name))
            if not self._index[of]:
                del self._index[of]
        if isinstance(change, AclDeleted):
            if before is not None:
                del self._ids[bisect.bisect_left(self._ids, change.id)]
            return
        if before is None:
            bisect.insort(self._ids, change.id)
        acl = self._acls[change.id] = change.acl
        rules = self._index.setdefault((acl.principal, acl.resource_type), _Rules())
        rules.add(change.id, _Rule(acl))

    # Deciding about names

    def decide(
        self, principals: Iterable[str], kind: ResourceType, name: str, operation: Operation
    ) -> AclEffect | None:
        """What the rules say about an operation; None if no rule is about it.

        To describe is permitted by every operation that is permitted, and never denied by itself.
        """
        allows = denies = 0
        for principal in principals:
            rules = self._index.get((principal, kind))
            if rules is not None:
                self.compared += rules.cost
                found = rules.effects(name)
                allows |= found.allows
                denies |= found.denies
        if operation is Operation.DESCRIBE:
            if allows & ~denies:
                return AclEffect.ALLOW
            return AclEffect.DENY if denies else None
        bits = _BITS[operation]
        if denies & bits:
            return AclEffect.DENY
        return AclEffect.ALLOW if allows & bits else None
