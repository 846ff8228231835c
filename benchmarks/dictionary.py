"""The identifier dictionary: bytes an identifier, and what a look-up takes.

    python benchmarks/dictionary.py --identifiers 5000000

Names are drawn from 30,000 words by Zipf's law, two to six of them: a real vocabulary has longer lists for fewer words,
or shorter ones for more. Queries are words drawn by the same law, so that most have long lists.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from itertools import accumulate

from qidf.expansion.dictionary import About, Dictionary, in_order, write

WORDS = 30_000
SIZES = (2, 3, 4, 5, 6)
SHARES = (35, 30, 18, 10, 7)


def main() -> None:
    """Make a dictionary, ask it, and print what was measured as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--identifiers", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--words", type=int, default=6, help="Words of a query.")
    arguments = parser.parse_args()
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = list(dict.fromkeys("".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(WORDS)))
    weights = list(accumulate(1 / (i + 10) for i in range(len(words))))
    parts: dict[str, tuple[str, ...]] = {}
    while len(parts) < arguments.identifiers:
        own = tuple(chance.choices(words, cum_weights=weights, k=chance.choices(SIZES, SHARES)[0]))
        if len(set(own)) > 1:
            parts.setdefault("".join(own), own)
    text = sum(map(len, parts))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "identifiers")
        start = time.perf_counter()
        size = write(path, About("", "standard", 1, 1, "texts"), in_order(parts), {})
        written = time.perf_counter() - start
        del parts
        dictionary = Dictionary(path)
        taken = []
        for _ in range(arguments.queries):
            query = {
                word: chance.uniform(1, 9) for word in chance.choices(words, cum_weights=weights, k=arguments.words)
            }
            start = time.perf_counter()
            dictionary.candidates(query, 64)
            taken.append(1000 * (time.perf_counter() - start))
    taken.sort()
    print(
        json.dumps(
            {
                "identifiers": arguments.identifiers,
                "bytes": size,
                "bytes an identifier beyond its text": round((size - text) / arguments.identifiers, 1),
                "write, s": round(written, 1),
                "look-up, ms: median": round(taken[len(taken) // 2], 2),
                "look-up, ms: 95 %": round(taken[int(0.95 * len(taken))], 2),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
