"""Texts that an analyzer may stumble over, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = [
    *"aZsqU09_.:;,->'\"`$#@*/\\ \t\n\r\0(){}[]",
    "getUserById", "HTTPServer", "URLs", "IDsByName", "sha256_hex", "__init__", "a->b", "std::vector", "x_1", "don't",
    "1,000.5", "foo.bar", "the", "and", "not", "I", "AbC", "A1b2", "ABCs", "ABCsD", "_", "__", "a_", "_9", "s", "Ss",
    "İ", "ı", "ß", "ẞ", "Σ", "ΑΣ", "ς", "K", "ſ", "Å", "ǅ", "ﬁ", "é", "E\u0301", "ñ", "Ω", "ά", "Я", "ё", "Ԁ", "Ⅷ", "Ⓐ",
    "Ａ", "９", "²", "½", "ª", "º", "·", "\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u0301", "\u0345",
    "漢", "字", "々", "ひ", "ら", "゙", "ー", "カ", "ﾅ", "タ゚", "한", "글", "ᄀ", "ไทย", "ลาว", "မြန်", "ខ្មែ",
    "שלום", "ש׳", 'צה"ל', "ע״ב",
    "العَرَبِيَّة", "٣", "۴", "हिन्दी", "क्‍ष", "१२", "தமிழ்", "ᠮᠣᠩ",
    "Ꭰ", "ꭰ", "Ა", "ა", "Ⴀ", "ኢት", "ⴰ", "𐐀", "𐐨", "𝒜", "𝟙", "𞤀", "🄰",
    "😀", "👍🏽", "👨‍👩‍👧", "🇩🇪", "🇩", "1️⃣", "#⃣", "❤️", "☎︎", "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "🏽", "©", "™", "\ufe0f", "\u20e3", "\U000e007f", "\U000e0067",
    "𠀀", "\U0002f800", "\U0001b000", "𛀁", "\ud800", "\udc00", "\udfff\ud800", "\uffff", "\U0010ffff", "\ue000",
]  # fmt: skip

pieces = st.sampled_from(PIECES) | st.characters()
"""`st.characters` gives lone surrogates too."""

runs = st.builds(lambda piece, n: piece * n, pieces, st.sampled_from([2, 3, 39, 40, 127, 128, 254, 255, 256, 513]))
texts = st.lists(pieces | st.sampled_from(PIECES) | runs, max_size=30).map("".join)
