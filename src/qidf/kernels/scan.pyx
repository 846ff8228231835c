# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled scanner: UTF-8 text to lowercased terms, the four analyzers of `qidf.analysis` in one pass without objects.

It knows the committed Unicode tables and nothing of documents, indexes or queries.
"""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from qidf.analysis import Token
from qidf.analysis import get as get_analyzer

cdef enum:
    STANDARD = 0
    SIMPLE = 1
    WORD = 2
    CODE = 3
    CODE_POINTS = 0x110000
    WINDOW = 255         # UTF-16 units in which `standard` looks for a token; code points of a run in `code`
    LONG = 40            # bytes from which `simple` drops a token
    LETTER = 1
    UPPER = 2
    DIGIT = 3
    UNDERSCORE = 4
    MARK = 5
    SINGLE = 6


cdef int batch_init(Batch* batch, uint64_t seed) noexcept nogil:
    batch.seed = seed
    batch.count = 0
    batch.used = 0
    batch.capacity = 1 << 16
    batch.toks = <Tok*>malloc(BATCH_SIZE * sizeof(Tok))
    batch.buffer = <uint8_t*>malloc(batch.capacity)
    return 0 if batch.toks != NULL and batch.buffer != NULL else -1


cdef void batch_free(Batch* batch) noexcept nogil:
    free(batch.toks)
    free(batch.buffer)
    batch.toks = NULL
    batch.buffer = NULL


cdef inline uint32_t decode(const uint8_t* p, int* width) noexcept nogil:
    """The code point at `p` of well-formed UTF-8 (surrogates may stand in it as three bytes)."""
    cdef uint32_t c = p[0]
    if c < 0x80:
        width[0] = 1
        return c
    if c < 0xE0:
        width[0] = 2
        return (c & 0x1F) << 6 | (p[1] & 0x3F)
    if c < 0xF0:
        width[0] = 3
        return (c & 0x0F) << 12 | (<uint32_t>p[1] & 0x3F) << 6 | (p[2] & 0x3F)
    width[0] = 4
    return (c & 0x07) << 18 | (<uint32_t>p[1] & 0x3F) << 12 | (<uint32_t>p[2] & 0x3F) << 6 | (p[3] & 0x3F)


cdef inline int encode(uint32_t c, uint8_t* p) noexcept nogil:
    if c < 0x80:
        p[0] = <uint8_t>c
        return 1
    if c < 0x800:
        p[0] = <uint8_t>(0xC0 | c >> 6)
        p[1] = <uint8_t>(0x80 | (c & 0x3F))
        return 2
    if c < 0x10000:
        p[0] = <uint8_t>(0xE0 | c >> 12)
        p[1] = <uint8_t>(0x80 | (c >> 6 & 0x3F))
        p[2] = <uint8_t>(0x80 | (c & 0x3F))
        return 3
    p[0] = <uint8_t>(0xF0 | c >> 18)
    p[1] = <uint8_t>(0x80 | (c >> 12 & 0x3F))
    p[2] = <uint8_t>(0x80 | (c >> 6 & 0x3F))
    p[3] = <uint8_t>(0x80 | (c & 0x3F))
    return 4


cdef const uint8_t* utf8(object text, Py_ssize_t* n) except NULL:
    """The UTF-8 of a str (cached in it) or of bytes; the object must outlive the pointer."""
    if isinstance(text, bytes):
        n[0] = len(<bytes>text)
        return <const uint8_t*><const char*>text
    return <const uint8_t*>PyUnicode_AsUTF8AndSize(text, n)


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define QIDF_LOWEST_BIT(word) __builtin_ctzll(word)
    #else
    static int QIDF_LOWEST_BIT(unsigned long long word) { int n = 0; while (!(word & 1)) { word >>= 1; n++; } return n; }
    #endif
    """
    int lowest_bit "QIDF_LOWEST_BIT" (uint64_t word) noexcept nogil


cdef struct Block:
    Py_ssize_t base      # 64 bytes of the text from here, a bit each
    uint64_t plain       # ASCII letters and digits, `_` too if asked for
    uint64_t other       # bytes of characters beyond ASCII


cdef inline uint64_t gather(const uint8_t* flags) noexcept nogil:
    """64 bytes of 0 or 1 as bits."""
    cdef uint64_t bits = 0, word
    cdef int i
    for i in range(8):
        memcpy(&word, flags + 8 * i, 8)
        bits |= (word * <uint64_t>0x0102040810204080 >> 56) << (8 * i)
    return bits


cdef void load_block(const uint8_t* text, Py_ssize_t n, Py_ssize_t base, bint underscore, Block* block) noexcept nogil:
    """Classify 64 bytes at once: the compiler turns these loops into vector instructions."""
    cdef uint8_t tail[64]
    cdef uint8_t plain[64]
    cdef uint8_t other[64]
    cdef const uint8_t* bytes = text + base
    cdef uint8_t extra = 95 if underscore else 48
    cdef uint8_t c, any_other = 0
    cdef int i
    if base + 64 > n:
        memset(tail, 0, 64)
        memcpy(tail, bytes, n - base)
        bytes = tail
    for i in range(64):
        c = bytes[i]
        plain[i] = (<uint8_t>((c | 32) - 97) < 26) | (<uint8_t>(c - 48) < 10) | (c == extra)
        other[i] = c >> 7
        any_other |= c
    block.base = base
    block.plain = gather(plain)
    block.other = gather(other) if any_other >> 7 else 0


cdef inline Py_ssize_t next_start(
    const uint8_t* text, Py_ssize_t n, Py_ssize_t at, bint underscore, Block* block
) noexcept nogil:
    """The first place from `at` that is plain or beyond ASCII; n if there is none."""
    cdef uint64_t bits
    while at < n:
        if at - block.base >= 64 or at < block.base:
            load_block(text, n, at, underscore, block)
        bits = (block.plain | block.other) >> (at - block.base)
        if bits:
            return at + lowest_bit(bits)
        at = block.base + 64
    return n


cdef inline Py_ssize_t plain_end(
    const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Py_ssize_t stop, bint underscore, Block* block
) noexcept nogil:
    """The first place from `at` that is not plain, `stop` (at most n) if there is none before it."""
    cdef uint64_t bits
    while at < stop:
        if at - block.base >= 64 or at < block.base:
            load_block(text, n, at, underscore, block)
        bits = ~block.plain >> (at - block.base)
        if bits:
            at += lowest_bit(bits)
            return at if at < stop else stop
        at = block.base + 64
    return stop


cdef class Scanner:
    """The scanner of the analyzer called `name`. It is immutable and may be shared by threads."""

    def __cinit__(self, str name):
        get_analyzer(name)      # names the choices in its error
        from qidf.analysis import unicode as tables

        self.name = name
        self.kind = ("standard", "simple", "word", "code").index(name)
        self.classes = <uint8_t*>calloc(CODE_POINTS, 1)
        self.lower = <int32_t*>calloc(CODE_POINTS, sizeof(int32_t))
        if self.classes == NULL or self.lower == NULL:
            raise MemoryError("no memory for the scanner's tables")
        cdef int32_t first, last, c, step, delta
        cdef int i, j, state
        if self.kind == STANDARD or self.kind == CODE:
            ranges = tables.STANDARD_CLASSES if self.kind == STANDARD else tables.CODE_CLASSES
            for first, last, i in ranges:
                for c in range(first, last + 1):
                    self.classes[c] = <uint8_t>i
        else:
            for first, last in tables.SIMPLE_ALNUM if self.kind == SIMPLE else tables.WORD_CHARS:
                for c in range(first, last + 1):
                    self.classes[c] = 1
        if self.kind == WORD:
            for c in range(65, 91):
                self.lower[c] = 32   # other capitals are lowered before the scan, in context, as str.lower() does
            from qidf.analysis.word import STOP_WORDS

            self.stop_words = tuple(sorted(word.encode() for word in STOP_WORDS))
            if len(self.stop_words) > 64:
                raise ValueError("more stop words than the scanner has room for")
            for i, word in enumerate(self.stop_words):
                self.stop[i] = <const uint8_t*><const char*>word
                self.stop_length[i] = <uint8_t>len(word)
                self.stops_by_byte[self.stop[i][0]] |= <uint64_t>1 << i
        else:
            for first, last, step, delta in tables.RUST_LOWER if self.kind == SIMPLE else tables.LOWER:
                for c in range(first, last + 1, step):
                    self.lower[c] = delta
        if self.kind == STANDARD:
            if len(tables.STANDARD_DFA) > 128 or len(tables.STANDARD_NAMES) > 64:
                raise ValueError("the automaton of `standard` is larger than the scanner has room for")
            for state, row in enumerate(tables.STANDARD_DFA):
                self.accept[state] = tables.STANDARD_ACCEPT[state]
                for i, j in enumerate(row):
                    self.transitions[state * 64 + i] = <uint8_t>j
        for c in range(128):
            self.ascii_class[c] = self.classes[c]
            plain = chr(c).isalnum() or (c == 95 and self.kind != SIMPLE)
            if self.kind != STANDARD and plain != (self.classes[c] != 0):
                raise ValueError(f"in ASCII a word is letters, digits and _, got class {self.classes[c]} for {c}")
            if self.lower[c] != (32 if 65 <= c <= 90 else 0):
                raise ValueError(f"ASCII is lowered as everywhere, got {c} to {c + self.lower[c]}")
        if self.kind == STANDARD:
            self.plain_runs()

    def __dealloc__(self):
        free(self.classes)
        free(self.lower)

    cdef void plain_runs(self):
        """Find out whether the automaton's state after ASCII letters, digits and `_`, begun by a letter, follows from
        the last of them alone: then such runs, nearly all there is in code, need no walk.
        """
        cdef bytes word = b"_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        cdef int c, state, following
        cdef set reached = {self.transitions[64 + self.ascii_class[c]] for c in word[11:]}
        cdef list open_states = list(reached)
        for c in range(128):
            self.after[c] = 0
        self.direct = True
        for c in word[11:]:
            self.after[c] = self.transitions[64 + self.ascii_class[c]]
        while open_states:
            state = open_states.pop()
            for c in word:
                following = self.transitions[state * 64 + self.ascii_class[c]]
                if self.after[c] == 0:
                    self.after[c] = <uint8_t>following
                if self.after[c] != following or not self.accept[following]:
                    self.direct = False
                if following not in reached:
                    reached.add(following)
                    open_states.append(following)

    cdef object prepare(self, str text):
        """What to scan for `text`: itself where its UTF-8 can be had."""
        if self.kind == WORD and not text.isascii():
            text = text.lower()
        cdef Py_ssize_t n
        try:
            utf8(text, &n)
        except UnicodeEncodeError:
            return text.encode("utf-8", "surrogatepass")
        return text

    cdef Py_ssize_t scan(self, const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Batch* out) noexcept nogil:
        """Fill `out` with tokens from `text[at:n]`; return where to go on, n at the end, or -1 without memory."""
        out.count = 0
        out.used = 0
        if self.kind == STANDARD:
            return self.scan_standard(text, n, at, out)
        if self.kind == CODE:
            return self.scan_code(text, n, at, out)
        return self.scan_runs(text, n, at, out)

    cdef inline uint8_t kind_at(self, const uint8_t* p, int* width) noexcept nogil:
        """The class of the character at `p`, and its bytes."""
        if p[0] < 0x80:
            width[0] = 1
            return self.ascii_class[p[0]]
        return self.classes[decode(p, width)]

    cdef int emit(self, const uint8_t* text, Py_ssize_t start, Py_ssize_t end, uint32_t part, Batch* out) noexcept nogil:
        """Add the token `text[start:end]`, lowercased."""
        cdef size_t need = out.used + 2 * <size_t>(end - start) + 32
        cdef uint8_t* p
        cdef uint8_t* grown
        cdef Py_ssize_t i = start
        cdef int width = 0
        cdef uint32_t c
        cdef Tok* tok
        if need > out.capacity:
            grown = <uint8_t*>realloc(out.buffer, 2 * need)
            if grown == NULL:
                return -1
            out.buffer = grown
            out.capacity = 2 * need
        p = out.buffer + out.used
        while i < end:
            if text[i] < 0x80:
                p[0] = text[i] + (32 if 65 <= text[i] <= 90 else 0)
                p += 1
                i += 1
                continue
            c = decode(text + i, &width)
            i += width
            if c == 0x130 and self.kind == SIMPLE:   # the one capital that Rust lowers to two code points
                p[0] = 0x69
                p += 1
                c = 0x307
            p += encode(c + <uint32_t>self.lower[c], p)
        memset(p, 0, 8)
        tok = &out.toks[out.count]
        tok.start = start
        tok.end = end
        tok.at = out.used
        tok.length = <uint32_t>(p - out.buffer - out.used)
        tok.part = part
        tok.hash = padded_hash(out.buffer + out.used, tok.length, out.seed)
        out.used += (tok.length + 7) & ~<size_t>7
        out.count += 1
        return 0

    cdef inline int emit_plain(
        self, const uint8_t* text, Py_ssize_t n, Py_ssize_t start, Py_ssize_t end, uint32_t part, Batch* out
    ) noexcept nogil:
        """`emit` for ASCII, eight bytes at a time: lower, pad and hash in one pass."""
        cdef size_t length = end - start
        cdef size_t words = (length + 7) // 8
        cdef size_t i
        cdef uint64_t word, upper, h
        cdef uint64_t* p
        cdef Tok* tok
        if start + 8 * <Py_ssize_t>words > n or out.used + 8 * words > out.capacity:
            return self.emit(text, start, end, part, out)    # near the text's end; no byte beyond it is read
        h = out.seed ^ (length * <uint64_t>0x9E3779B97F4A7C15)
        p = <uint64_t*>(out.buffer + out.used)
        for i in range(words):
            memcpy(&word, text + start + 8 * i, 8)
            if i + 1 == words and length & 7:
                word &= (<uint64_t>1 << (8 * (length & 7))) - 1
            # a byte from A to Z gets bit 5: its high bit differs between + (128 − 65) and + (128 − 91)
            upper = (word + <uint64_t>0x3F3F3F3F3F3F3F3F) ^ (word + <uint64_t>0x2525252525252525)
            word |= (upper & <uint64_t>0x8080808080808080) >> 2
            p[i] = word
            h = (h ^ word) * <uint64_t>0xBF58476D1CE4E5B9
            h ^= h >> 32
        h *= <uint64_t>0x94D049BB133111EB
        tok = &out.toks[out.count]
        tok.start = start
        tok.end = end
        tok.at = out.used
        tok.hash = h ^ (h >> 29)
        tok.length = <uint32_t>length
        tok.part = part
        out.used += 8 * words
        out.count += 1
        return 0

    cdef Py_ssize_t scan_standard(self, const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Batch* out) noexcept nogil:
        cdef Py_ssize_t pos, last
        cdef int width = 1
        cdef int first, units, unit
        cdef uint8_t kind, state
        cdef Py_ssize_t limit
        cdef Block block
        block.base = -64
        while at < n and out.count < BATCH_STOP:
            pos = next_start(text, n, at, True, &block)
            if pos > at:
                if pos < n and text[pos] >= 0x80 and (text[pos - 1] == 35 or text[pos - 1] == 42):
                    pos -= 1      # # and * may begin a keycap
                at = pos
                if at == n:
                    break
            if self.direct and 65 <= text[at] < 0x80 and text[at] != 95:
                limit = at + WINDOW if at + WINDOW < n else n
                pos = plain_end(text, n, at + 1, limit, True, &block)
                if pos == limit or (
                    text[pos] < 0x80
                    and self.transitions[self.after[text[pos - 1]] * 64 + self.ascii_class[text[pos]]] == 0
                ):
                    if self.emit_plain(text, n, at, pos, 0, out) < 0:
                        return -1
                    at = pos
                    continue
            kind = self.kind_at(text + at, &width)
            state = self.transitions[64 + kind]
            if state == 0:
                at += width
                continue
            first = width
            pos = at + width
            units = 1 + (width == 4)
            last = pos if self.accept[state] else -1
            while pos < n:
                if text[pos] < 0x80:
                    width = 1
                    unit = 1
                    kind = self.ascii_class[text[pos]]
                else:
                    kind = self.classes[decode(text + pos, &width)]
                    unit = 1 + (width == 4)
                units += unit
                if units > WINDOW:
                    break
                state = self.transitions[state * 64 + kind]
                if state == 0:
                    break
                pos += width
                if self.accept[state]:
                    last = pos
            if last < 0:
                at += first
                continue
            if self.emit(text, at, last, 0, out) < 0:
                return -1
            at = last
        return at

    cdef Py_ssize_t scan_runs(self, const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Batch* out) noexcept nogil:
        """`simple` and `word`: maximal runs of one class."""
        cdef Py_ssize_t pos
        cdef int width = 1
        cdef int points
        cdef Block block
        block.base = -64
        cdef bint inside
        while at < n and out.count < BATCH_STOP:
            at = next_start(text, n, at, self.kind == WORD, &block)
            if at == n:
                break
            if text[at] < 0x80:
                pos = plain_end(text, n, at + 1, n, self.kind == WORD, &block)
                if pos == n or text[pos] < 0x80:
                    if self.kind == SIMPLE:
                        if pos - at < LONG and self.emit_plain(text, n, at, pos, 0, out) < 0:
                            return -1
                    elif pos - at >= 2:
                        if self.emit_plain(text, n, at, pos, 0, out) < 0:
                            return -1
                        self.stop_last(out)
                    at = pos
                    continue
            inside = self.kind_at(text + at, &width) != 0
            if not inside:
                at += width
                continue
            pos = at
            points = 0
            while True:
                pos += width
                points += 1
                if pos >= n:
                    break
                inside = self.kind_at(text + pos, &width) != 0
                if not inside:
                    break
            if self.kind == SIMPLE:
                if pos - at < LONG and self.emit(text, at, pos, 0, out) < 0:
                    return -1
            elif points >= 2:
                if self.emit(text, at, pos, 0, out) < 0:
                    return -1
                self.stop_last(out)
            at = pos
        return at

    cdef inline void stop_last(self, Batch* out) noexcept nogil:
        """Take the last token back if it is a stop word."""
        cdef Tok* tok = &out.toks[out.count - 1]
        cdef uint64_t candidates = self.stops_by_byte[out.buffer[tok.at]]
        cdef int i
        while candidates:
            i = lowest_bit(candidates)
            candidates &= candidates - 1
            if tok.length == self.stop_length[i] and memcmp(out.buffer + tok.at, self.stop[i], tok.length) == 0:
                out.count -= 1
                out.used = tok.at
                return

    cdef Py_ssize_t scan_code(self, const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Batch* out) noexcept nogil:
        """Identifiers whole, then their parts: the rule stands in `qidf.analysis.code`."""
        cdef uint8_t kinds[WINDOW + 1]
        cdef Py_ssize_t places[WINDOW + 1]
        cdef int starts[WINDOW + 1]
        cdef int stops[WINDOW + 1]
        cdef Py_ssize_t pos
        cdef int width = 1
        cdef int length, parts, i, j, begin, row, upper
        cdef uint8_t kind, previous
        cdef bint content
        cdef Block block
        block.base = -64
        while at < n and out.count < BATCH_STOP:
            at = next_start(text, n, at, True, &block)
            if at == n:
                break
            if text[at] < 0x80:
                kind = self.ascii_class[text[at]]
                if kind == LETTER or kind == UPPER:     # a word with no more than a leading capital has no parts
                    pos = at + 1
                    while pos < n and pos - at <= WINDOW and text[pos] < 0x80:
                        kind = self.ascii_class[text[pos]]
                        if kind != LETTER:
                            break
                        pos += 1
                    if (pos == n or (text[pos] < 0x80 and kind == 0)) and pos - at <= WINDOW:
                        if self.emit_plain(text, n, at, pos, 0, out) < 0:
                            return -1
                        at = pos
                        continue
            kind = self.kind_at(text + at, &width)
            if kind == 0 or kind == MARK:
                at += width
                continue
            # the run, or one character and its marks
            pos = at
            length = 0
            content = False
            while True:
                kinds[length] = kind
                places[length] = pos
                content = content or (kind != UNDERSCORE and kind != MARK)
                length += 1
                pos += width
                if pos >= n or length == WINDOW:
                    break
                kind = self.kind_at(text + pos, &width)
                if kind == 0 or kind == SINGLE or (kinds[0] == SINGLE and kind != MARK):
                    break
            places[length] = pos
            if content and self.emit(text, at, pos, 0, out) < 0:
                return -1
            if not content or kinds[0] == SINGLE:
                at = pos
                continue
            # its parts
            parts = 0
            begin = -1
            row = 0
            upper = 0
            previous = 0
            for i in range(length):
                kind = kinds[i]
                if kind == MARK:
                    continue
                if kind == UNDERSCORE:
                    if begin >= 0:
                        starts[parts] = begin
                        stops[parts] = i
                        parts += 1
                    begin = -1
                    previous = 0
                    continue
                if begin < 0:
                    begin = i
                else:
                    j = -1
                    if (previous == DIGIT) != (kind == DIGIT) or (previous == LETTER and kind == UPPER):
                        j = i
                    elif previous == UPPER and kind == LETTER and row >= 2:
                        j = upper
                        if text[places[i]] == 115:     # an s that no lower-case letter follows: a plural
                            j = i + 1
                            while j < length and kinds[j] == MARK:
                                j += 1
                            j = upper if j < length and kinds[j] == LETTER else -1
                    if j >= 0:
                        starts[parts] = begin
                        stops[parts] = j
                        parts += 1
                        begin = j
                if kind == UPPER:
                    row = row + 1 if previous == UPPER else 1
                    upper = i
                previous = kind
            if begin >= 0:
                starts[parts] = begin
                stops[parts] = length
                parts += 1
            if parts > 1 or stops[0] - starts[0] < length:
                for i in range(parts):
                    if self.emit(text, places[starts[i]], places[stops[i]], 1, out) < 0:
                        return -1
            at = pos
        return at

    def tokens(self, str text):
        """Return what `qidf.analysis.get(name).analyze(text)` returns: a list of Token."""
        prepared = self.prepare(text)
        if self.kind == WORD and "\u0130" in text:   # lower() moves the offsets
            return get_analyzer(self.name).analyze(text)   # U+0130 grew under lower(): rare, so the definition does it
        cdef Py_ssize_t n
        cdef const uint8_t* data = utf8(prepared, &n)
        cdef bint plain = text.isascii()
        cdef Py_ssize_t at = 0, byte = 0, point = 0, start, end
        cdef Batch batch
        cdef Tok* tok
        cdef int i
        cdef list out = []
        try:
            if batch_init(&batch, 0) < 0:
                raise MemoryError("no memory for tokens")
            while at < n:
                at = self.scan(data, n, at, &batch)
                if at < 0:
                    raise MemoryError("no memory for tokens")
                for i in range(batch.count):
                    tok = &batch.toks[i]
                    start = tok.start
                    end = tok.end
                    if not plain:
                        point += code_points(data, byte, tok.start)
                        byte = tok.start
                        start = point
                        end = point + code_points(data, tok.start, tok.end)
                    term = PyUnicode_DecodeUTF8(<const char*>batch.buffer + tok.at, tok.length, NULL)
                    out.append(Token(term, start, end, bool(tok.part)))
        finally:
            batch_free(&batch)
        return out

    def find(self, str text, dict wanted):
        """Return (start, end, value) for each token of `text` whose term, as UTF-8 bytes, is a key of `wanted`.

        Offsets are code points into `text`. Tokens of other terms cost no object.
        """
        prepared = self.prepare(text)
        if self.kind == WORD and "\u0130" in text:   # lower() moves the offsets
            tokens = get_analyzer(self.name).analyze(text)
            return [(t.start, t.end, wanted[t.term.encode()]) for t in tokens if t.term.encode() in wanted]
        cdef Py_ssize_t n
        cdef const uint8_t* data = utf8(prepared, &n)
        cdef bint plain = text.isascii()
        cdef Py_ssize_t at = 0, byte = 0, point = 0, start, end
        cdef Batch batch
        cdef Tok* tok
        cdef int i
        cdef bint[256] lengths        # whether a wanted term has this many bytes (255: or more)
        cdef list out = []
        for i in range(256):
            lengths[i] = False
        for term in wanted:
            lengths[min(len(term), 255)] = True
        try:
            if batch_init(&batch, 0) < 0:
                raise MemoryError("no memory for tokens")
            while at < n:
                with nogil:
                    at = self.scan(data, n, at, &batch)
                if at < 0:
                    raise MemoryError("no memory for tokens")
                for i in range(batch.count):
                    tok = &batch.toks[i]
                    if not lengths[tok.length if tok.length < 255 else 255]:
                        continue
                    value = wanted.get((<const char*>batch.buffer + tok.at)[: tok.length])
                    if value is None:
                        continue
                    start = tok.start
                    end = tok.end
                    if not plain:
                        point += code_points(data, byte, tok.start)
                        byte = tok.start
                        start = point
                        end = point + code_points(data, tok.start, tok.end)
                    out.append((start, end, value))
        finally:
            batch_free(&batch)
        return out

    def bag(self, str text):
        """Return the terms of `text` in order of first occurrence with their counts: a dict of str to int."""
        cdef dict out = {}
        prepared = self.prepare(text)
        cdef Py_ssize_t n, at = 0
        cdef const uint8_t* data = utf8(prepared, &n)
        cdef Batch batch
        cdef Tok* tok
        cdef int i
        try:
            if batch_init(&batch, 0) < 0:
                raise MemoryError("no memory for tokens")
            while at < n:
                at = self.scan(data, n, at, &batch)
                if at < 0:
                    raise MemoryError("no memory for tokens")
                for i in range(batch.count):
                    tok = &batch.toks[i]
                    term = PyUnicode_DecodeUTF8(<const char*>batch.buffer + tok.at, tok.length, NULL)
                    out[term] = out.get(term, 0) + 1
        finally:
            batch_free(&batch)
        return out
