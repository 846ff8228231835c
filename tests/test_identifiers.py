"""What `qidf.weighting` takes for an identifier in a query's text, and which terms that makes shaped."""

# ruff: noqa: SIM905 (one line a kind reads better than one string a line)
from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qidf.weighting import QueryTerm, identifier_spans, is_identifier, query_terms

IDENTIFIERS = """
    getUser GetUser getUserById HTTPServer IOError parseURL URLParser aB iPhone XMLHttpRequest
    get_user __init__ _private MAX_SIZE trailing_ a_b user_1 2_foo 2023_report _0x1a __A T_ CPPFLAGS_
    sha256 utf8 x86 md5 s3 h264 python3 base64 i18n x86_64 x86-64 py3.11 go1.21
    os.path os.path.join a.b.size self.x foo.bar() foo.bar. foo.bar(baz) (getUser) "getUser", 'get_user'
    std::vector std::vector<int> A::b Foo::Bar::baz ::std::move self->ptr p->next this->m_x ->getUser <-getUser->
    node.js index.html README.md foo.py ASP.NET vue.js a.out Cargo.toml
    java.net java.io System.Net System.IO java.net.URL com.example.foo org.apache.lucene tokio.net scipy.io
    example.com.Foo e.g.getUser v1.Pod api.v1 self->e.g std::e.g
    end.Next well-known.thing getUser-like non-UTF8 foo_bar-baz re-getUser URLs.append kB_total parseURLs
    getUser: getUser... ...getUser key:get_user a:b::c foo-v1.2::bar
    größeMax имяФайла ИмяФайла ΔValue maxΔ été_2 имя_файла файл2 модуль.функция 文件_名 _名 변수_1 sha256算法 ÉCOLEName
""".split()

WORDS = """
    parser Parser JSON json I a HTTP URL well-known state-of-the-art foo- -foo foo() Foo. (foo) foo, foo: ->x foo-> x->
    ... :: -> . _ __ ___ _1 1_000 --help --dry-run -v a:b key:value http:// a>b a-->b foo...bar foo..bar foo--bar a:::b
    utf-8 UTF-8 sha-256 covid-19 A-1
    e.g. e.g (e.g., i.e. i.e., a.m. p.m. U.S. U.S.A. U.S.-based a.k.a. w.r.t. J.R.R. x.y
    etc. etc.) vs. cf. fig.3 p.12 No.5 Ph.D. Ph.D PhD PhDs M.Sc. MSc B.Sc. Ed.D.
    1st 2nd 3rd 22nd 101th 1st-class 2ND 1er 20th
    10ms 5GB 100px 3D 2x 1e6 1e-6 64bit 3.5GHz 5kHz 10MBps 2kWh 16KiB 20µs 5кг 3D-printed 10ms-long 5GB/s 4K 1080p 24x7
    kHz MHz GHz kB MiB GiB kWh Mbps GBps dB dBm mA mAh pH eV
    0x1F 0xDEADBEEF 0b1010 1L 10u32 1_000ms
    v1 v2 V8 v1.2 1.0.3 3.11rc1 2.0.0-beta 2.0.0-beta1 2.0.0-beta.1 1.0-rc2 v1.2.3-rc.1 v1.x 1.0.x v2.0-final v1beta1
    1.2.3.RELEASE 1.0.0-SNAPSHOT python-3.11 foo-v1.2 v2-style 10.0.0.1
    example.com example.com:8080 example.com. https://example.com foo.org 3com.com my-site.com sub.my-site.com
    Amazon.com mit.edu foo.co.uk abc.com.au www.foo.org www.foo.de www.python.io user.github.io docs.readthedocs.io
    10:30 10:30pm 5pm 12:00:30 2024-01-02 2024-01-02T10:30:00Z 1990s mid-1990s '90s
    URLs IDs APIs JSONs PDFs CPU-IDs
    Größe ÉCOLE Привет ПРИВЕТ имя-файла 4-й مرحبا שלום 名前 变量 변수
    第3章 共有3个文件 2024年3月5日 你好.世界 제3장 x² ª ２０２４年
""".split()


@pytest.mark.parametrize("run", IDENTIFIERS)
def test_is_an_identifier(run: str) -> None:
    assert is_identifier(run)
    assert identifier_spans(run)
    assert identifier_spans(f"why is {run} so slow")


@pytest.mark.parametrize("run", WORDS)
def test_is_no_identifier(run: str) -> None:
    assert not is_identifier(run)
    assert not identifier_spans(run)
    assert not identifier_spans(f"why is {run} so slow")
    assert not identifier_spans(f".{run}:")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("how does getUser() call os.path.join?", ["getUser", "os.path.join"]),
        ("see foo.bar.", ["foo.bar"]),
        ("(self->ptr) and ->get_x:", ["self->ptr", "get_x"]),
        ("the std::vector<std::string> type", ["std::vector", "std::string"]),
        ("`__init__` of _private", ["__init__", "_private"]),
        ("https://example.com/foo_bar/1.2", ["foo_bar"]),
        ("getUser-like, e.g. sha256", ["getUser-like", "sha256"]),
        ("größeMax, имяФайла", ["größeMax", "имяФайла"]),
        ("İ ŉ ǅ ﬁ 𝒳 getUser", ["getUser"]),
        ("we waited 10ms in the U.S. for example.com", []),
        ("", []),
        ("\ud800getUser\udfff", ["getUser"]),
    ],
)
def test_spans_are_runs_without_their_surrounding_punctuation(text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in identifier_spans(text)] == found


pieces = st.sampled_from(
    ["a", "B", "é", "Ж", "名", "1", "_", ".", ":", ">", "-", "::", "->", " ", "(", "e.g.", "v1", "com"]
)
texts = st.lists(pieces, max_size=20).map("".join) | st.text(max_size=20)


@given(texts)
@example("İ_a ŉB")
@example(".e.g.")
def test_spans_are_ordered_disjoint_and_inside_the_text(text: str) -> None:
    position = 0
    for start, end in identifier_spans(text):
        assert position <= start < end <= len(text)
        assert text[start] not in ".:>-"
        assert text[end - 1] not in ".:>-"
        assert re.fullmatch(r"[\w.:>-]+", text[start:end])
        assert is_identifier(text[start:end])
        position = end


Tokens = list[tuple[str, int, int, bool]]


def words(text: str) -> Tokens:
    return [(match.group().lower(), *match.span(), False) for match in re.finditer(r"[^\W_]+", text)]


@given(texts)
def test_counts_sum_to_the_tokens(text: str) -> None:
    tokens = words(text)
    terms = query_terms(text, tokens)
    assert sum(term.count for term in terms) == len(tokens)
    assert [term.term for term in terms] == list(dict.fromkeys(term for term, *_ in tokens))


@given(texts)
def test_a_term_is_shaped_where_a_token_overlaps_a_span(text: str) -> None:
    spans, tokens = identifier_spans(text), words(text)
    shaped = {term for term, start, end, _ in tokens if any(start < e and s < end for s, e in spans)}
    assert {term.term for term in query_terms(text, tokens) if term.shaped} == shaped


def test_terms_keep_their_first_order_counts_and_shape() -> None:
    text = "join paths: os.path.join or Path"
    assert query_terms(text, words(text)) == [
        QueryTerm("join", 2, shaped=True),  # shaped once is shaped
        QueryTerm("paths", 1, shaped=False),
        QueryTerm("os", 1, shaped=True),
        QueryTerm("path", 2, shaped=True),
        QueryTerm("or", 1, shaped=False),
    ]


def test_parts_are_never_shaped() -> None:
    text = "getUser"
    tokens = [("getuser", 0, 7, False), ("get", 0, 3, True), ("user", 3, 7, True)]
    assert [term.shaped for term in query_terms(text, tokens)] == [True, False, False]


def test_a_token_that_reaches_beyond_the_run_is_shaped() -> None:
    text = "getUser's name"  # UAX #29 keeps the apostrophe inside
    assert [term.shaped for term in query_terms(text, [("getuser's", 0, 9, False), ("name", 10, 14, False)])] == [
        True,
        False,
    ]


HARD = (
    "a", "a.", "::", "->", "1", "aA", "A", "_", "-", "a-", "a:", "a->", "1.", "1_", "v1-", "v1.", "www.", "a.b-",
    "foo.com ", "URLs.", "é", "名", "名a", "éa ", "Aa ", "e.g.", "1-a", "a--", "kHz-",
)  # fmt: skip


@pytest.mark.parametrize("unit", HARD)
def test_a_megabyte_of_anything_takes_linear_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit)) + "!"
    start = time.perf_counter()
    identifier_spans(text)
    assert time.perf_counter() - start < 1.5  # measured: 0.05 to 0.35 s


def test_a_long_query_is_quick() -> None:
    text = "how do I convert the well-known getUser value in os.path to utf8, e.g. for the JSON Parser " * 10_000
    tokens = words(text)
    start = time.perf_counter()
    terms = query_terms(text, tokens)
    assert time.perf_counter() - start < 1.5
    assert {term.term for term in terms if term.shaped} == {"getuser", "os", "path", "utf8"}
