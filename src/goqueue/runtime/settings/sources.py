"""The sources of settings: flags, the environment, a TOML file. Validates names only.

The environment and the flags are passed in. Loading the file is separate from parsing it, so that
an unreadable file is reported together with the other problems.
"""

import enum
import os
import stat
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping

import msgspec

from goqueue.model import nearest_name
from goqueue.runtime.settings.catalogue import SETTINGS
from goqueue.runtime.settings.problems import Problem, problem_with, quote

__all__ = [
    "CONFIG_FLAG",
    "Given",
    "SettingsFile",
    "Source",
    "clear_secrets",
    "find_settings_file",
    "from_environment",
    "from_file",
    "from_flags",
    "read_settings_file",
]

# The flag with the path of the file; no setting has this name.
CONFIG_FLAG = "config"

_PREFIX = "GOQUEUE_"
_CONFIG_VARIABLE = "GOQUEUE_CONFIG"
_FILE_NAME = "goqueue.toml"
_FILE_BYTES_MAX = 1 << 20
# Variables of the command line and of the interpreter; none of them configures a node.
_CLIENT_KEY_VARIABLE = "GOQUEUE_API_KEY"
_OTHER_VARIABLES = (
    "GOQUEUE_ALLOW_PLAINTEXT",
    _CLIENT_KEY_VARIABLE,
    "GOQUEUE_API_KEY_FILE",
    "GOQUEUE_CA_FILE",
    "GOQUEUE_CLIENT_CERT",
    "GOQUEUE_CLIENT_KEY",
    _CONFIG_VARIABLE,
    "GOQUEUE_CONTEXT",
    "GOQUEUE_NO_EXTENSIONS",
    "GOQUEUE_SERVER",
    "GOQUEUE_TIMEOUT",
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
_SECTIONS = tuple(
    dict.fromkeys(name.split(".")[0] for name in _BY_NAME if "." in name),
)


class Source(enum.StrEnum):
    """The sources, in order of precedence; later ones win."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one setting in one place. Only a file supplies values other than text."""

    name: str
    source: Source
    place: str
    value: object


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True):
    """A TOML file, or why it could not be read."""

    path: str
    content: bytes = b""
    fault: str = ""


def find_settings_file(
    flags: Mapping[str, str], environment: Mapping[str, str]
) -> SettingsFile | None:
    """The requested file, else `goqueue.toml` in the working directory, else none."""
    asked = flags.get(CONFIG_FLAG)
    if asked is None:
        asked = environment.get(_CONFIG_VARIABLE) or None
    if asked is not None:
        return read_settings_file(asked)
    return read_settings_file(_FILE_NAME) if os.path.lexists(_FILE_NAME) else None


def read_settings_file(path: str) -> SettingsFile:
    """The file with its content, or with the error."""
    try:
        # Without O_NONBLOCK a named pipe would block the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        # A path with a NUL is a ValueError with a text of the interpreter.
        reason = error.strerror if isinstance(error, OSError) else "no such path"
        return SettingsFile(path=path, fault=f"cannot be read: {reason}")
    try:
        return _read_open_file(path, descriptor)
    except OSError as error:
        return SettingsFile(path=path, fault=f"cannot be read: {error.strerror}")
    finally:
        os.close(descriptor)


def _read_open_file(path: str, descriptor: int) -> SettingsFile:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        return SettingsFile(path=path, fault="is a directory, not a file")
    if not stat.S_ISREG(mode):
        return SettingsFile(path=path, fault="is not a regular file")
    with os.fdopen(os.dup(descriptor), "rb") as file:
        content = file.read(_FILE_BYTES_MAX + 1)
    if len(content) > _FILE_BYTES_MAX:
        return SettingsFile(path=path, fault=f"has more than {_FILE_BYTES_MAX} bytes")
    return SettingsFile(path=path, content=content)


def from_flags(flags: Mapping[str, str], problems: list[Problem]) -> list[Given]:
    """Flags by the names of their settings; one with a secret is refused."""
    given: list[Given] = []
    for name, text in flags.items():
        setting = _BY_NAME.get(name)
        if setting is not None and setting.is_secret:
            reason = (
                "is a secret, and other users of the machine can see flags: "
                f"set {setting.variable} or {setting.variable}_FILE"
            )
            problems.append(problem_with(setting, f"flag {setting.flags[0]}", text, reason))
        elif setting is not None:
            place = f"flag {setting.flags[0]}"
            given.append(Given(name=name, source=Source.FLAG, place=place, value=text))
        elif name != CONFIG_FLAG:
            problems.append(_unknown(f"flag {quote(name)}", name, _BY_NAME))
    return given


def from_environment(environment: Mapping[str, str], warnings: list[str]) -> list[Given]:
    """Our variables; an unknown one is only a warning, as another program may use it."""
    given: list[Given] = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(_PREFIX) or variable in _OTHER_VARIABLES:
            continue
        setting = _BY_VARIABLE.get(variable)
        if setting is None:
            hint = _hint(variable, _BY_VARIABLE)
            warnings.append(f"variable {quote(variable)} is not known and ignored{hint}")
            continue
        given.append(
            Given(
                name=setting.name,
                source=Source.ENVIRONMENT,
                place=f"variable {variable}",
                value=text,
            )
        )
    return given


def clear_secrets(environment: MutableMapping[str, str]) -> None:
    """Remove the variables with secrets, so that no child and no dump of the variables has them."""
    for setting in SETTINGS:
        if setting.is_secret:
            environment.pop(setting.variable, None)
    environment.pop(_CLIENT_KEY_VARIABLE, None)


def from_file(file: SettingsFile, problems: list[Problem]) -> list[Given]:
    """Keys of a TOML file."""
    origin = f"file {quote(file.path)}"
    fault = file.fault
    document: dict[str, object] = {}
    if not fault:
        try:
            document = tomllib.loads(file.content.decode())
        except UnicodeDecodeError as error:
            fault = f"is not UTF-8: byte {error.start}"
        except RecursionError:
            fault = "is nested too deeply"
        except ValueError as error:
            fault = f"is not TOML: {quote(str(error))[1:-1]}"
    if fault:
        problems.append(Problem(setting="", origin=origin, given="", reason=fault))
        return []
    given: list[Given] = []
    for path, value in _leaves(document):
        place = f"{origin}, key {quote(path)[1:-1]}"
        if path in _BY_NAME:
            given.append(Given(name=path, source=Source.FILE, place=place, value=value))
        elif path in _SECTIONS:
            reason = f"is a section: write [{path}]"
            problems.append(Problem(setting=path, origin=place, given="", reason=reason))
        else:
            problems.append(_unknown(place, path, _BY_NAME))
    return given


def _leaves(document: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    """Keys with their sections. The contents of an unknown section are skipped."""
    for key, value in document.items():
        if isinstance(value, dict) and key in _SECTIONS:
            for name, inner in value.items():
                yield f"{key}.{name}", inner
        else:
            yield key, value


def _unknown(origin: str, name: str, known: Iterable[str]) -> Problem:
    return Problem(
        setting=quote(name)[1:-1],
        origin=origin,
        given="",
        reason=f"there is no such setting{_hint(name, known)}",
    )


def _hint(name: str, known: Iterable[str]) -> str:
    near = nearest_name(name, known)
    return "" if near is None else f"; did you mean {near}?"
