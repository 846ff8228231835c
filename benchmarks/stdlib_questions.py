"""Questions about Python's standard library, each with the one file that answers it: what `qidf demo` picks from.

    python benchmarks/stdlib_questions.py [--json]
    python benchmarks/stdlib_questions.py --beir DIR      write them as a BEIR folder, for `qidf advise --evaluate DIR`

Written in one go before any of them was run, from memory of the library; none was dropped for its result (one whose
answer is written in C was). Whole files and questions by one author: an easy collection and no evaluation. It is here
so that the demo's choice of eight can be held against all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import qidf
from qidf.sources.files import FileSource

WORDS = (
    (
        "heappushpop",
        "heapq.py",
    ),
    (
        "asyncio loop hangs when I call run_until_complete from a thread that already has a running event loop",
        "asyncio/base_events.py",
    ),
    (
        "how do I get the next value and the default when the iterator of a zip file member is "
        "exhausted ZipExtFile read1",
        "zipfile.py",
    ),
    (
        "what happens to the file descriptor in subprocess when close_fds is set and pass_fds is given on posix",
        "subprocess.py",
    ),
    (
        "when I copy a file with shutil the permission bits are lost, where does copymode set st_mode",
        "shutil.py",
    ),
    (
        "the logging handler does not rotate the file at midnight, computeRollover returns the wrong time",
        "logging/handlers.py",
    ),
    (
        "where is the default value of the max_workers argument for the number of processes set in the pool",
        "concurrent/futures/process.py",
    ),
    (
        "csv reader does not detect the delimiter of my file, how does sniff guess it",
        "csv.py",
    ),
    (
        "argparse prints the wrong usage when a group of options is mutually exclusive, see "
        "add_mutually_exclusive_group",
        "argparse.py",
    ),
    (
        "ssl certificate is not checked for the host name of the server, what does match_hostname do",
        "ssl.py",
    ),
    (
        "how does the class decide which fields are used for the hash and the order, unsafe_hash eq frozen",
        "dataclasses.py",
    ),
    (
        "the http client raises an error when the server closes the connection without sending a "
        "response RemoteDisconnected",
        "http/client.py",
    ),
    (
        "how does url parsing handle the port number when it is not a number or out of range",
        "urllib/parse.py",
    ),
    (
        "how can I find out which names a function will bind when it is called with these arguments, sig bind partial",
        "inspect.py",
    ),
    (
        "a path with two dots is not made absolute, what is the difference between resolve and absolute in WindowsPath",
        "pathlib.py",
    ),
    (
        "decimal context precision is not used when I convert from a float, from_float create_decimal",
        "_pydecimal.py",
    ),
    (
        "random choice with weights returns the same value, how are cum_weights used",
        "random.py",
    ),
    (
        "the queue get call blocks for ever when the timeout is None and no item is put, not_empty wait",
        "queue.py",
    ),
    (
        "weak reference to a bound method is dead as soon as it is made, WeakMethod",
        "weakref.py",
    ),
    (
        "send a mail message with a login name and a password over smtp, what does the server answer to auth_login",
        "smtplib.py",
    ),
    (
        "parse a date string of the form that is used in the header of a mail message, parsedate_tz",
        "email/_parseaddr.py",
    ),
    (
        "the test runner should stop at the first error or failure, failfast option",
        "unittest/runner.py",
    ),
    (
        "compile all the files of a directory to byte code with more than one worker, compile_dir",
        "compileall.py",
    ),
    (
        "what is the name of the file in which the history of the interactive debugger is kept, do_longlist",
        "pdb.py",
    ),
    (
        "the number of calls and the time per call is printed in a table, print_stats sort by cumulative",
        "pstats.py",
    ),
    (
        "read the value of an option in a section and replace the percent sign names in it, "
        "BasicInterpolation before_get",
        "configparser.py",
    ),
    (
        "fractions with a denominator limit, find the closest to a float, limit_denominator",
        "fractions.py",
    ),
    (
        "how is the seed of the hash used when two dicts compare equal, ChainMap new_child parents",
        "collections/__init__.py",
    ),
    (
        "list all the names of the files in a tar archive and set the mode of each, extract with data_filter",
        "tarfile.py",
    ),
    (
        "glob should not follow links to a directory and not return hidden files, glob1 include_hidden",
        "glob.py",
    ),
    (
        "is the type of the argument an instance of any of the types in the union, get_type_hints include_extras",
        "typing.py",
    ),
    (
        "wait for the first of several tasks to be done and cancel all the rest, TaskGroup _abort",
        "asyncio/taskgroups.py",
    ),
    (
        "read lines from a stream until a separator is found and raise if the limit is over run, readuntil",
        "asyncio/streams.py",
    ),
    (
        "delete a directory tree and ignore errors",
        "shutil.py",
    ),
    (
        "wait until one of many sockets is ready to be read",
        "selectors.py",
    ),
    (
        "how does the parser print usage and help for command line arguments",
        "argparse.py",
    ),
    (
        "convert a struct of bytes to a tuple of values for a wave file header",
        "wave.py",
    ),
    (
        "guess the type of a file from the extension of its name",
        "mimetypes.py",
    ),
    (
        "find the longest matching block of two sequences",
        "difflib.py",
    ),
    (
        "split a command line string like the shell does with quotes",
        "shlex.py",
    ),
    (
        "print a nested list or dict so that it fits the width of the terminal",
        "pprint.py",
    ),
    (
        "wrap a long paragraph of text so that each line is at most so many characters",
        "textwrap.py",
    ),
    (
        "create a temporary directory that is removed when the with block ends",
        "tempfile.py",
    ),
    (
        "generate a random token that is safe to use in a url for a password reset",
        "secrets.py",
    ),
    (
        "run a function at a later time in order of priority and delay",
        "sched.py",
    ),
)
"""Asked in words, most with an identifier."""

PASTED = (
    (
        'Traceback (most recent call last):   File "main.py", line 3, in <module>     data = '
        "json.loads(text) JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "json/decoder.py",
    ),
    (
        'Traceback (most recent call last): File "app.py", line 10, in run self.conn.request("GET", '
        "self.path) http.client.CannotSendRequest: Request-sent",
        "http/client.py",
    ),
    (
        "RuntimeError: dictionary changed size during iteration in for name in self.data: while "
        "another thread removes an item from the WeakValueDictionary",
        "weakref.py",
    ),
    (
        "RuntimeError: This event loop is already running: "
        "self.loop.run_until_complete(self.run(self.name)) in def main(self): self.run()",
        "asyncio/base_events.py",
    ),
    (
        "ValueError: invalid literal for int() with base 10: in def get(self, name, default=None): "
        "return int(self.config.get(self.section, name)) getint",
        "configparser.py",
    ),
    (
        'self.data = open(self.name, "rb").read(); for name in self.names: if name == self.name: '
        "return self.data; tarinfo is None, so the mode and the name of the file are lost",
        "tarfile.py",
    ),
    (
        "def __init__(self, name): self.name = name; how do I make the value of name be set only "
        "once, as in cached_property",
        "functools.py",
    ),
    (
        'if self.name is None: raise ValueError("name is None") in def find_spec(self, name, path, '
        "target=None): return None",
        "importlib/_bootstrap_external.py",
    ),
    (
        "for line in self.file: line = line.strip() if not line: continue, key, value = "
        'line.split("="), is there a parser in the library for the shell quotes, shlex',
        "shlex.py",
    ),
    (
        "try: self.sock.connect(self.address) except OSError as err: self.close() raise, how do I "
        "set the source address, create_connection",
        "socket.py",
    ),
    (
        "class Test(unittest.TestCase): def test_name(self): self.assertEqual(self.get(name), value) "
        "with self.subTest(name=name): the error is printed for each of the values",
        "unittest/case.py",
    ),
    (
        "def run(self): while True: item = self.queue.get() if item is None: break "
        "self.process(item) self.queue.task_done(), the main thread is blocked in join until "
        "all_tasks_done",
        "queue.py",
    ),
    (
        "import os, sys; path = os.path.join(sys.path[0], name); if not os.path.exists(path): "
        "os.mkdir(path) is there a function for this with exist_ok",
        "os.py",
    ),
    (
        "return self.get(key) if key in self.data else self.parent.get(key), a dict with a parent "
        "that is asked when the key is missing, new_child",
        "collections/__init__.py",
    ),
    (
        "def log(self, msg, *args): print(time.time(), self.name, msg % args, file=sys.stderr), with "
        "the name of the function and the line, findCaller stack_info",
        "logging/__init__.py",
    ),
    (
        'with open(self.path, "w") as f: f.write(self.data), if the process is killed half of the '
        "data is in the file, use NamedTemporaryFile and then os.replace",
        "tempfile.py",
    ),
    (
        "self.value = value; self.lock = threading.Lock(); def get(self): with self.lock: return "
        "self.value, set by another process with shared memory and get_lock",
        "multiprocessing/sharedctypes.py",
    ),
    (
        'if len(args) != len(self.args): raise TypeError("wrong number of arguments"), use the names '
        "of the arguments, BoundArguments apply_defaults",
        "inspect.py",
    ),
    (
        'url = "http://" + self.host + ":" + str(self.port) + self.path + "?" + data; the data must '
        "be quoted, quote_plus safe",
        "urllib/parse.py",
    ),
    (
        "def send(self, data): self.sock.send(data) return len(data), the data is sent as chunks, "
        "Transfer-Encoding in the request, encode_chunked",
        "http/client.py",
    ),
    (
        "print(self.name.ljust(20), self.value, self.time) for each function that was called, how "
        "are the callers sorted, print_callers",
        "pstats.py",
    ),
    (
        "from the command line: python -m name -o file.out arg, what is run first, the __main__ of "
        "the package, run_module alter_sys",
        "runpy.py",
    ),
    (
        "the object is not a type: isinstance(obj, self.type) raises TypeError: isinstance() arg 2 "
        "must be a type, for a Protocol that is not runtime_checkable",
        "typing.py",
    ),
    (
        "for name in os.listdir(path): if os.path.isdir(name): self.walk(name), remove all with an "
        "error handler onexc or onerror, rmtree",
        "shutil.py",
    ),
    (
        "the server reads the request line and headers, then calls do_GET with self.path and "
        "self.headers; how are the files of a directory listed, list_directory",
        "http/server.py",
    ),
    (
        "the value of x is 0.1 + 0.2 and the test x == 0.3 is false; what is the relative and the "
        "absolute tolerance, assertAlmostEqual",
        "unittest/case.py",
    ),
)
"""Pasted code or a traceback, with a question: what people and agents send too."""

SYSTEMS: tuple[tuple[str, float | str], ...] = (
    ("standard", 1.0),
    ("standard", "auto"),
    ("code", 1.0),
    ("code", "auto"),
)


def write_beir(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    numbered = [(f"q{i}", text, answer) for i, (text, answer) in enumerate(WORDS + PASTED, 1)]
    lines = [json.dumps({"_id": id, "text": text}) for id, text, _ in numbered]
    (folder / "queries.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")
    lines = ["query-id\tcorpus-id\tscore", *(f"{id}\t{answer}\t1" for id, _, answer in numbered)]
    (folder / "qrels" / "test.tsv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    print(f"{len(numbered)} questions → {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--beir", metavar="DIR", type=Path)
    options = parser.parse_args()
    if options.beir:
        write_beir(options.beir)
        return
    source = FileSource(sysconfig.get_path("stdlib"))
    tests = {"test", "tests", "idle_test"}
    entries = [e for e in source.scan() if e.path.endswith(".py") and tests.isdisjoint(e.path.split("/"))]
    documents = list(source.documents(entries))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        indexes = {
            name: qidf.Index.build(documents, Path(folder) / name, analyzer=name) for name in ("standard", "code")
        }
        for text, answer in WORDS + PASTED:
            ranks = []
            for analyzer, q in SYSTEMS:
                hits = indexes[analyzer].search(text, 100, q=q)
                ranks.append(next((hit.rank for hit in hits if hit.id == answer), 0))
            rows.append({"question": text, "answer": answer, "ranks": ranks})
    summary = {}
    for i, (analyzer, q) in enumerate(SYSTEMS):
        reciprocal = [1 / row["ranks"][i] if row["ranks"][i] else 0.0 for row in rows]
        summary[f"{analyzer}, q = {q}"] = sum(reciprocal) / len(rows)
    moved = {"up": 0, "down": 0, "same": 0}
    for row in rows:
        before, after = (rank or 101 for rank in row["ranks"][:2])
        moved["up" if after < before else "down" if after > before else "same"] += 1
    if options.json:
        json.dump({"python": sys.version.split()[0], "mrr": summary, "standard": moved, "rows": rows}, sys.stdout)
        return
    print("ranks (0: not in the first 100): standard BM25, q-IDF; code BM25, q-IDF")
    for row in rows:
        print(" ".join(f"{rank:4}" for rank in row["ranks"]), f" {row['answer']:32} {row['question'][:70]}")
    for name, value in summary.items():
        print(f"{name:20} mean reciprocal rank {value:.3f}")
    print(f"standard, of {len(rows)} answers: {moved['up']} moved up, {moved['down']} down, {moved['same']} stayed")


if __name__ == "__main__":
    main()
