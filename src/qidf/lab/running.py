"""Runs a study over collections: each is measured once and kept, so that an interrupted study goes on where it stopped.

In the folder of a study stand NAME.json (all that was measured), NAME.md (its tables), NAME.svg (its plot), and .cells:
what is kept of single collections.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from qidf.errors import SourceError
from qidf.lab.files import write
from qidf.lab.studies import STUDIES, Cell, Settings, Table

KEPT = ".cells"

Progress = Callable[[int, int], None]


def run(
    name: str,
    folders: Sequence[str],
    output: str,
    settings: Settings,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[Table]]:
    """Measure the collections that were not measured before, write the study, and return what NAME.json says.

    Parameters
    ----------
    name : str
        One of `qidf.lab.studies.STUDIES`.
    folders : sequence of str
        Collections in BEIR's layout.
    output : str
        A folder; made if need be.
    settings : Settings
    progress : callable, optional
        Is told how many collections are done, of how many.

    Raises
    ------
    SourceError
        A collection can't be read, or the output can't be written.
    """
    from qidf import __version__

    study = STUDIES[name]
    names = _names(folders)
    kept = os.path.join(output, KEPT)
    try:
        os.makedirs(kept, exist_ok=True)
    except OSError as error:
        raise SourceError(f"can't write {output}: {error.strerror or error}") from None
    cells: dict[str, Cell] = {}
    for number, (folder, label) in enumerate(zip(folders, names, strict=True), 1):
        place = os.path.join(kept, f"{name}-{_key(name, folder, settings)}.json")
        cell = _load(place)
        if cell is None:
            cell = study.measure(folder, settings)
            write(place, [json.dumps(cell)])
        cells[label] = cell
        if progress:
            progress(number, len(folders))
    result = {
        "study": name,
        "settings": asdict(settings),
        "qidf": __version__,
        "collections": cells,
    }
    tables = study.tables(cells)
    write(os.path.join(output, f"{name}.json"), [json.dumps(result, indent=1) + "\n"])
    write(os.path.join(output, f"{name}.md"), [markdown(tables)])
    from qidf.lab.plots import plot

    write(os.path.join(output, f"{name}.svg"), [plot(name, cells)])
    return result, tables


def markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown."""
    lines: list[str] = []
    for table in tables:
        lines += [f"### {table.title}", ""]
        lines.append(f"| {' | '.join(table.head)} |")
        lines.append("|---" + "|---:" * (len(table.head) - 1) + "|")
        lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in table.rows]
        lines.append("")
        for note in table.notes:
            lines += [note, ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _names(folders: Sequence[str]) -> list[str]:
    names: list[str] = []
    for folder in folders:
        if not os.path.isdir(folder):
            raise SourceError(f"no such folder: {folder}")
        name = os.path.basename(os.path.abspath(folder))
        if name in names:
            raise SourceError(f"two collections are called {name}: rename a folder")
        names.append(name)
    return names


def _key(name: str, folder: str, settings: Settings) -> str:
    """Return a name for what is measured: another one where a file of the collection, the settings or qidf changed."""
    from qidf import __version__

    version = STUDIES[name].version
    parts: list[Any] = [name, version, os.path.abspath(folder), asdict(settings), __version__]
    for base, _, files in sorted(os.walk(folder)):
        for file in sorted(files):
            status = os.stat(os.path.join(base, file))
            parts.append([file, status.st_size, status.st_mtime_ns])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _load(path: str) -> Cell | None:
    try:
        with open(path, encoding="utf-8") as file:
            cell = json.load(file)
    except (OSError, ValueError):
        return None
    return cell if isinstance(cell, dict) else None
