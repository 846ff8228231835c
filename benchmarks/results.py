"""Gathers studies and what their collections were made of into docs/results.

    python benchmarks/results.py STUDIES COLLECTION... -o docs/results

STUDIES is a folder with a folder for each group of studies (the `--output` of `qidf study`). Copied are their tables,
plots and JSON; collections.md says what each collection was made of, by its collection.json. No corpus is copied.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any


def sources(collection: Path, about: dict[str, Any]) -> str:
    """Return the repositories that gave documents, each with the commit that was read."""
    if about.get("kind") == "commits":
        return f"{_repository(about['repository'])}: tree {about['base'][:12]}, commits up to {about['tip'][:12]}"
    given: Counter[str] = Counter()
    with open(collection / "corpus.jsonl", encoding="utf-8") as lines:
        for line in lines:
            given[json.loads(line)["_id"].partition("/")[0]] += 1
    found = [
        f"{_repository(own['path'])} {own.get('commit', '')[:12]} ({given[own['path']]:,})"
        for own in about.get("sources", [])
        if given[own["path"]]
    ]
    return f"{len(found)} repositories: {', '.join(found)}" if found else str(about.get("name", ""))


def _repository(name: str) -> str:
    return name.replace("+", "/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path)
    parser.add_argument("collections", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    for folder in sorted(path for path in arguments.studies.iterdir() if path.is_dir()):
        place = arguments.output / folder.name
        place.mkdir(parents=True, exist_ok=True)
        for file in sorted(folder.iterdir()):
            if file.suffix in (".md", ".svg", ".json") and not file.name.startswith("."):
                shutil.copyfile(file, place / file.name)
    lines = [
        "# Collections",
        "",
        "Made by `qidf collection` from these repositories, at these commits; in brackets the functions of each.",
        "",
        "| collection | documents | queries | made of |",
        "|---|---:|---:|---|",
    ]
    for collection in arguments.collections:
        about = json.loads((collection / "collection.json").read_text())
        row = [collection.name, f"{about['documents']:,}", f"{about['queries']:,}", sources(collection, about)]
        lines.append(f"| {' | '.join(row)} |")
    (arguments.output / "collections.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
