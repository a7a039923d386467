"""`goqueue config`: the settings of a node, shown and checked; and settings as flags of a command.

`setting_options` gives a command its flags, `given_settings` reads what they and the rest say.
"""

from goqueue.cli.config.commands import config
from goqueue.cli.config.flags import (
    exit_with,
    given_flags,
    given_settings,
    setting_options,
    tell,
)

__all__ = ["config", "exit_with", "given_flags", "given_settings", "setting_options", "tell"]
