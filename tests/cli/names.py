"""The commands that do something, by what is typed: of a group its own commands."""

from __future__ import annotations

import click

from qidf.cli.group import COMMANDS, SUBCOMMANDS, group

NAMES = tuple(f"{name} {own}".strip() for name in COMMANDS for own in SUBCOMMANDS.get(name, ("",)))


def command_of(name: str) -> click.Command:
    """Return the command called so; the group of all for an empty name."""
    command: click.Command = group
    for word in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command
