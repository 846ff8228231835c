from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import click
import pytest

from qidf import __version__
from qidf.cli.group import COMMANDS, group
from tests.cli.names import NAMES, command_of

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_in_the_help_and_in_an_example(name: str) -> None:
    command = command_of(name)
    context = click.Context(command, info_name=f"qidf {name}", help_option_names=["-h", "--help"])
    help = command.get_help(context)
    options, _, examples = help.partition("Examples:")
    assert examples.count(f"qidf {name}") >= 2
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            flag = max(parameter.opts, key=len)
            assert parameter.help
            assert re.search(rf"^  (-\w, )?{flag}\b", options, re.MULTILINE), flag
            assert re.search(rf" {flag}\b", examples), f"no example has {flag}"
    assert max(map(len, help.splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_examples_parse(name: str) -> None:
    import shlex

    command = command_of(name)
    assert command.epilog is not None
    for line in command.epilog.partition("Examples:")[2].splitlines():
        words = shlex.split(re.split(r"(?<=\S) {2,}(?=[a-z])", line.strip())[0])
        if words:
            own = name.split()
            assert words[: 1 + len(own)] == ["qidf", *own]
            command.make_context(name, words[1 + len(own) :])


def test_options_are_named_as_in_the_api() -> None:
    import inspect

    from qidf import Index

    command = group.get_command(click.Context(group), "search")
    assert command is not None
    flags = {parameter.name: parameter for parameter in command.params}
    for name, argument in inspect.signature(Index.search).parameters.items():
        if name != "self":
            assert name in flags
            if argument.default is not inspect.Parameter.empty and argument.default is not None:
                assert flags[name].default == argument.default


def test_alone_it_shows_the_help(qidf: Run) -> None:
    done = qidf()
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: qidf ")
    assert all(re.search(rf"^  {name} ", done.stdout, re.MULTILINE) for name in COMMANDS)


def test_version(qidf: Run) -> None:
    assert qidf("--version").stdout == f"qidf {__version__}\n"
