"""The `qidf` command: its subcommands by name, each imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

from qidf import __version__
from qidf.cli.options import epilog

COMMANDS = (
    "search",
    "index",
    "explain",
    "profile",
    "apply",
    "advise",
    "proxy",
    "similarity",
    "dictionary",
    "collection",
    "evaluate",
    "sweep",
    "compare",
    "study",
    "report",
    "demo",
)
"""The subcommands, in the order of the help. Each is the `command` of the module of its name."""

SUBCOMMANDS = {"collection": ("docstrings", "commits", "published"), "dictionary": ("build", "show", "check")}
"""Of the subcommands that are groups."""


BEGIN = """\
qidf demo                            see what it does, on Python's own library
qidf search "parse the config file"  search the current directory
qidf COMMAND --help                  examples for each command
"""


class LazyGroup(click.Group):
    """A group whose commands are modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"qidf.cli.{cmd_name}").command
        return command


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=epilog("Begin with", BEGIN),
)
@click.version_option(__version__, prog_name="qidf", message="%(prog)s %(version)s")
@click.pass_context
def group(context: click.Context) -> None:
    """Search code with BM25 whose term weights know how rare an identifier is (q-IDF)."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
