"""The documentation says what is so: its examples run and print what it shows, and it has every command and option.

A ```python block is run, the blocks of a page one after the other in one process, in a folder of their own; a ```text
block titled "prints" holds what the block above it printed. In a ```console block each `$ command` is run and followed
by what it printed. Titled "fragment" a block is not run; titled with a file's name it is that file, in the folder where
the examples run. Everything else (```sh, ```text) is not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests.cli.names import NAMES, command_of

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
_MARK = "\x1e"  # between the outputs of two blocks
_OLD = 1_700_000_000  # a refresh counts a file that is younger than a moment as changed


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    found = re.findall(
        r'^```(\w*)(?: title="([^"]*)")?\n(.*?)^```$', (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    return [Block(*block) for block in found]


def with_block(language: str) -> list[str]:
    return [page for page in PAGES if any(block.language == language and not block.title for block in blocks(page))]


def in_shop(name: str, folder: Path) -> Path:
    return folder.parent / name.removeprefix("/tmp/") if name.startswith("/tmp/") else folder / name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder `shop` with the files that cli.md shows; what is in /tmp there stands beside it."""
    shop = tmp_path / "shop"
    shop.mkdir()
    for block in blocks("cli.md"):
        if "." in block.title:
            file = in_shop(block.title, shop)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text.replace("/tmp/", f"{shop.parent}/"))
            os.utime(file, (_OLD, _OLD))
    return shop


def environment(folder: Path) -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("QIDF", "COLUMNS", "PYTHON"))}
    home = str(folder.parent)
    path = f"{Path(sys.executable).parent}{os.pathsep}{keep.get('PATH', '')}"
    return {**keep, "HOME": home, "XDG_CACHE_HOME": f"{home}/.cache", "PATH": path, "PYTHONIOENCODING": "utf-8"}


@pytest.mark.parametrize("page", with_block("python"))
def test_python_examples_run_and_print_what_is_shown(page: str, tmp_path: Path) -> None:
    program, shown = [], []
    for block in blocks(page):
        if block.language == "python" and not block.title:
            program.append(block.text)
            shown.append("")
        elif block.title == "prints":
            shown[-1] = block.text
    script = f"print({_MARK!r})\n".join(program)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.split(f"{_MARK}\n") == shown


def settled(text: str, folder: Path) -> str:
    """Replace what differs from run to run: times, sizes of an index, names out of hashes and random bytes."""
    text = text.replace(str(folder.parent), "/home/me")
    text = re.sub(r"^qidf: the compiled kernels are not in use.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b(?:[0-9a-f]{16}){1,2}\b", "0" * 16, text)
    text = re.sub(r"\bin \d+\.\d+ s\b", "in 0.00 s", text)
    text = re.sub(r"\bindex [\d.]+ (bytes|kB)", "index 0 kB", text)
    return re.sub(r'("(?:index_bytes|seconds|crc32)"): [\d.]+', r"\1: 0", text).strip("\n")


@pytest.mark.parametrize("page", with_block("console"))
def test_commands_print_what_is_shown(page: str, folder: Path) -> None:
    for block in blocks(page):
        if block.language != "console":
            continue
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
            here = command.replace("/tmp/", f"{folder.parent}/")
            done = subprocess.run(
                here,
                shell=True,
                cwd=folder,
                env=environment(folder),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
            )
            expected = shown.replace("/tmp/", f"{folder.parent}/")
            assert settled(done.stdout, folder) == settled(expected, folder), command


# The command line and its page


def section(name: str) -> str:
    title = f"qidf {name}".strip()
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", (DOCS / "cli.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"docs/cli.md has no section '## {title}'"
    return found[1]


def flags(command: click.Command) -> set[str]:
    context = click.Context(command, help_option_names=["-h", "--help"])
    return {
        flag
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    titles = re.findall(r"^## qidf ?(.*)$", (DOCS / "cli.md").read_text(), re.MULTILINE)
    assert sorted(titles) == sorted(("", *NAMES))


@pytest.mark.parametrize("name", ["", *NAMES])
def test_a_section_has_exactly_the_options_of_its_command(name: str) -> None:
    text = section(name)
    rows = re.findall(r"^\| (`-.*?) \|", text, re.MULTILINE)
    assert {flag for row in rows for flag in re.findall(r"`(--?[\w-]+)", row)} == flags(command_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_a_command_is_in_one_of_its_examples(name: str) -> None:
    examples = re.findall(rf"^(?:\$ )?qidf {name} (.*)$", section(name), re.MULTILINE)
    words = {word for example in examples for word in example.split()}
    assert flags(command_of(name)) - {"-h", "--help"} <= words


def test_no_page_names_an_option_that_does_not_exist() -> None:
    known = {flag for name in ("", *NAMES) for flag in flags(command_of(name))}
    for page in PAGES:
        text = (DOCS / page).read_text()
        for line in re.findall(r"\bqidf ([a-z][^`|\n]*)", text):
            name = max((own for own in NAMES if line.startswith(f"{own} ")), key=len, default="")
            rest = line.removeprefix(name)
            if name:
                assert set(re.findall(r"(?<!\S)--[a-z][\w-]*", rest)) <= flags(command_of(name)), f"{page}: {rest}"
        assert set(re.findall(r"`(--[a-z][\w-]*)", text)) <= known, page
