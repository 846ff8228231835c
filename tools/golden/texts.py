# ruff: noqa: E501
"""The texts of the golden files: every script and rule by hand, borders, code, and random strings. Deterministic."""

from __future__ import annotations

import random

from qidf.analysis import unicode

WORDS = """
foo.bar|don't|__init__|foo:bar|_|__|a_b|_a|a_|_1|1_|a:b:c|a::b|a..b|foo->bar|std::vector<int>|x.y.z()|e.g. this|i.e., that
1,000.5|3.14|1.2.3|1,2;3|1'000|1.a|a.1|a1.b2|v1.2b|0xFF|1e-9|10:30|10;30|a,b|a;b|50%|$5.00|#include|#tag|@user|C++|C#|a-b
getUserById|HTTPServer|sha256_hex|utf8|UTF-8|snake_case_name|SCREAMING_CASE|kebab-case-name|camelCase123Number|x86_64|iOS
İstanbul|IĞDIR ığdır|ΑΣ ΣΑΣ|straße STRASSE ẞ|ǅ ǆ Ǆ|Ångström Å|ﬁ ﬀ|Ⅷ ⅷ|Ⓐ ⓐ|½ ² ٣ ৪|café cafe\u0301|na\u00adive|zero\u200bwidth
rock’n’roll|l·l|a‧b|a＇b|a．b|a：b|1٫5|1٬000|‿a‿b‿|a⁀b|a\u202fb|foo\u2019s|'quoted'|"double"|a"b|a''b|it''s
שלום עולם|צה"ל|ג'|ג'ורג'|א"א"א|א"א'|א'"א|א.א"א|א:א'|א"|"א|א״א|צה״ל תש"ף|מ'מ"מ|אa"ב|aא"ב|1א"ב
カタカナ|ｶﾀｶﾅ|カ_ナ|カaカ|aカ|カ1|カ・ナ|ー|ゝゞ|ひらがな|ひ゛ら|が゙|ヴ|漢字|漢\u0301字|々〆〇|漢字かな交じり文|東京tower2020|㍻|〱〲|𠀀𠀁|﨎
한국어|한국어1|한_국|ㄱㄴㄷ|각|한국abc|조선말|北京大學|中文,测试|混合mixed文字
ภาษาไทย|ภาษาไทย123|ภาษาไทยabc|ไทย ๑๒๓|ພາສາລາວ|မြန်မာဘာသာ|ភាសាខ្មែរ|ᦀᦁᦂ|ꪀꪁ|ก\u200dข|ั|ัก|ᥐᥑ|𑜀𑜝
हिन्दी भाषा|বাংলা|தமிழ்|తెలుగు|ಕನ್ನಡ|മലയാളം|ગુજરાતી|ਪੰਜਾਬੀ|සිංහල|བོད་སྐད་|ქართული ᲥᲐᲠ|Հայերեն և|ትግርኛ|ᏣᎳᎩ ꭰ|ᠮᠣᠩᠭᠣᠯ|ދިވެހި
العربية|اللُّغَة|فارسی|می‌خواهم|اردو|١٢٣|۱۲۳|ܣܘܪܝܝܐ|ⴰⵎⴰⵣⵉⵖ|Ελληνικά Ώ|Русский ЯЗЫК|українська м'ята|Ѐѐ|𐐀𐐨|𝐀𝑏𝟙|𞤀𞤢
😀|😀😀|👍🏽|👩‍👩‍👧‍👦|👩🏽‍💻|❤️|❤|❤︎|☎️☎︎|🏳️‍🌈|🏴󠁧󠁢󠁥󠁮󠁧󠁿|🏴️󠁧󠁢󠁥󠁮󠁧󠁿|🇩🇪|🇩🇪🇫🇷|🇩🇪🇫|🇩|a🇩🇪b|1️⃣|#️⃣|*⃣|1⃣2️⃣|12️⃣|#⃣️|©|™a|a™|ℹ️|ℹa|🅰️|🅰b|Ⓜ️x
👩‍|‍👩|‍‍👩|👩️‍👩|👩️‍🏽|👩‍🏽|🏽|🏽‍👩|🏽️|👩️️|👩️\u0301|👩\u0301️|😀a|a😀|😀1|1😀|a‍😀|ℹ‍ℹ|ℹ‍ℹa|✈️fly|☕coffee|🈁|㊗️|㊙|🀄|‼️|⁉|〰|〽️|🄰|🆔id
a\u0301|\u0301a|_\u0301a|a\u0301_b|a.\u0301b|a\u200db|a\u200d.b|1\u0301,2|\u200d|\ufe0f|1\ufe0fa|a\ufe0fb|\ufe0e|\U000e0041|x\U000e0041\U000e007fy
\u0000a\u0001|a\tb\rc|a\u0085b|a\u2028b|a\u3000b|a\u00a0b|\ufeffbom|\ud800|a\ud800b|a\udc00|\udfffb|\uffff|\U0010ffff|\ue000|a\U000f0000b
https://example.org/a_b/c.html?q=1&r=x%20y|user@example.com|C:\\Users\\me|/usr/lib/python3.11|192.168.0.1|fe80::1|2024-01-31T10:30:00Z
"""

CODE = (
    '''def get_user_by_id(self, user_id: int = 0) -> User | None:
    """Don't return `None`; see https://example.org/x_y."""
    return self.__users.get(user_id, DEFAULT_USER)  # O(1)''',
    """static inline uint32_t hash32(const char *s, size_t n) {
    for (size_t i = 0; i < n; ++i) h ^= s[i], h *= 0x01000193u;
    return h->next ? h : NULL; /* FNV-1a */ }""",
    """public final class HTTPServer<T extends Map.Entry<K, V>> implements java.io.Closeable {
    private static final int MAX_RETRIES = 3; // isn't configurable
    @Override public void close() throws IOException { this.fooBar.close(); } }""",
    """impl<'a> Iterator for Tokens<'a> { type Item = &'a str;
    fn next(&mut self) -> Option<Self::Item> { self.iter.next().map(|t| t.trim_end_matches("::")) } }""",
    """export const getURLs = async ({ids, ...rest}) => (await fetch(`/api/v2/${ids.join(",")}`)).json?.();
    document.querySelector('#main > .item:nth-child(2n+1)').innerHTML = "<b>Grüße</b>";""",
    """func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
    defer s.mu.Unlock(); x := []byte{0x1F, 'a'}; return fmt.Errorf("bad id %q: %w", r.URL.Path, err) }""",
    "SELECT u.id, COUNT(*) AS n_users FROM users_2024 u LEFT JOIN `order-items` o ON o.user_id=u.id WHERE x<>'it''s';",
)


def _borders() -> list[str]:
    found = [unit * n for unit in ("a", "1", "_a", "カ", "ก", "漢") for n in (254, 255, 256, 511)]
    for before in range(251, 257):
        found += ["a" * before + tail for tail in ("'b", ".b c", "_", "\u0301b", "\U00010400" * 2, "\U0001f600", 'א"א')]
        found.append("1" * before + "\ufe0f\u20e3")
        found.append("_" * before + "a")
        found.append("😀" + "\u200d😀" * (before // 3))
    return [*found, "\U00010400" * 300, "x" + "\U00010400" * 300, "é\u0301" * 200, "a " * 300, "_" * 600, "🇩🇪" * 100]


def _random() -> list[str]:
    members: list[list[int]] = [[] for _ in unicode.STANDARD_NAMES]
    members[0] = [0x20, 0x0A, 0x2D, 0x3000, 0x300C, 0x10FFFF]
    for first, last, number in unicode.STANDARD_CLASSES:
        members[number] += [first, last]
    rng = random.Random(12)
    found = []
    for _ in range(400):
        kinds = rng.sample(members, rng.choice((3, 5, 28)))
        found.append("".join(chr(rng.choice(rng.choice(kinds))) for _ in range(rng.randint(2, 24))))
    return found


def texts() -> list[str]:
    handwritten = [word for line in WORDS.strip("\n").split("\n") for word in line.split("|")]
    return [
        "",
        "a\nb\r\nc",
        *handwritten,
        *CODE,
        *(line for code in CODE for line in code.split("\n")),
        *_borders(),
        *_random(),
    ]
