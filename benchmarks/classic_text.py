"""Makes Cranfield or CISI a collection in BEIR's layout, out of the files that are passed around since SMART.

    python benchmarks/classic_text.py cran.all.1400 cran.qry cranqrel -o cranfield
    python benchmarks/classic_text.py CISI.ALL CISI.QRY CISI.REL -o cisi

Documents are title and abstract. Queries are numbered by their order, as the judgments number them: Cranfield's own
numbers have gaps. Of Cranfield's grades 1 to 4 are relevant, -1 (and 5) is not; all count the same.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from qidf.lab.collection import Collection, write
from qidf.sources import Document


def records(path: str) -> list[dict[str, str]]:
    """Return {field: text} of each record; fields begin with `.T`, `.W` and so on at the start of a line."""
    found = []
    for record in re.split(r"^\.I +\d+ *$", Path(path).read_text("latin-1"), flags=re.MULTILINE)[1:]:
        fields = re.split(r"^\.([A-Z]) *$", record, flags=re.MULTILINE)[1:]
        texts = [" ".join(text.split()) for text in fields[1::2]]
        found.append(dict(zip(fields[::2], texts, strict=True)))
    return found


def judgments(path: str) -> dict[str, list[str]]:
    """Return the relevant documents of each query."""
    relevant: dict[str, list[str]] = {}
    for line in Path(path).read_text("latin-1").splitlines():
        query, document, *rest = line.split()
        grade = int(rest[0]) if len(rest) == 1 else 1  # CISI has 0 and 0.000000 there
        if 1 <= grade <= 4:
            relevant.setdefault(query, []).append(document)
    return relevant


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents")
    parser.add_argument("queries")
    parser.add_argument("judgments")
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    collection = Collection(about={"kind": "text", "name": Path(arguments.documents).name})
    for number, record in enumerate(records(arguments.documents), 1):
        title, abstract = record.get("T", ""), record.get("W", "")
        text = abstract if abstract.startswith(title) else f"{title}\n{abstract}"
        collection.documents.append(Document(str(number), text))
    relevant = judgments(arguments.judgments)
    for number, record in enumerate(records(arguments.queries), 1):
        if str(number) in relevant and record.get("W"):
            collection.queries[str(number)] = record["W"]
            collection.relevant[str(number)] = relevant[str(number)]
    write(collection, arguments.output)
    print(f"{len(collection.queries)} queries, {len(collection.documents)} documents")


if __name__ == "__main__":
    main()
