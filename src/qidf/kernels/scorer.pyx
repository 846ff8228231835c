# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled reader of one segment: look-up, checked access, and exact BM25 top k of weighted terms.

Everything is read straight from the map. A page is checked against its checksum when it is first touched, and every
offset before it is used, so a damaged file gives an error and never a wrong ranking. The formula stands in `score_one`.
"""

cimport cython
from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.math cimport INFINITY
from libc.string cimport memcmp, memset

from qidf.kernels.scan cimport Batch, Scanner, Tok, batch_free, batch_init, code_points, term_hash, utf8

import array

from qidf.errors import IndexCorruptError

cdef enum:
    PAGE = 4096
    WORDS = 512
    NO_MEMORY = -2
    PIECE = 128          # postings
    DENSE = 4            # gather the top k from the postings while they are fewer than 1/DENSE of the documents

cdef uint64_t[512] MULTIPLIERS


cdef void fill_multipliers() noexcept nogil:
    """SplitMix64's first 512 outputs, made odd."""
    cdef uint64_t state = 0, z
    cdef int i
    for i in range(WORDS):
        state += <uint64_t>0x9E3779B97F4A7C15
        z = state
        z = (z ^ z >> 30) * <uint64_t>0xBF58476D1CE4E5B9
        z = (z ^ z >> 27) * <uint64_t>0x94D049BB133111EB
        MULTIPLIERS[i] = (z ^ z >> 31) | 1


fill_multipliers()


cdef inline uint64_t page_sum(const uint8_t* page) noexcept nogil:
    """The multilinear checksum of a page: any single changed word changes it."""
    cdef const uint64_t* words = <const uint64_t*>page
    cdef uint64_t a = 0, b = 0, c = 0, d = 0
    cdef int i
    for i in range(0, WORDS, 4):
        a += words[i] * MULTIPLIERS[i]
        b += words[i + 1] * MULTIPLIERS[i + 1]
        c += words[i + 2] * MULTIPLIERS[i + 2]
        d += words[i + 3] * MULTIPLIERS[i + 3]
    return a + b + c + d


cdef int touch_pages(
    const uint8_t* base, size_t pages, const uint64_t* sums, uint8_t* seen, const void* start, size_t length
) noexcept nogil:
    """Check the pages of `length` bytes from `start` that nobody has touched yet; BAD where one is not what was written."""
    cdef size_t page, stop
    if length == 0:
        return 0
    page = <size_t>(<const uint8_t*>start - base) // PAGE
    stop = (<size_t>(<const uint8_t*>start - base) + length - 1) // PAGE
    while page <= stop:
        if page >= pages:
            return BAD
        if not seen[page]:
            if page_sum(base + page * PAGE) != sums[page]:
                return BAD
            seen[page] = 1
        page += 1
    return 0


def checksums(const uint8_t[::1] data):
    """Return the checksums of the pages of `data`, whose length is a multiple of 4096 bytes, as bytes (uint64 each)."""
    cdef Py_ssize_t pages = data.shape[0] // PAGE, i
    cdef bytes out = bytes(8 * pages)
    cdef uint64_t* sums = <uint64_t*><char*>out
    if data.shape[0] % PAGE:
        raise ValueError(f"data must be whole pages of {PAGE} bytes, got {data.shape[0]} bytes")
    with nogil:
        for i in range(pages):
            sums[i] = page_sum(&data[i * PAGE])
    return out


cdef inline bint worse(double s, uint32_t d, double t, uint32_t e) noexcept nogil:
    """Whether document d with score s ranks behind document e with score t."""
    return s < t or (s == t and d > e)


cdef inline void sift(double* scores, uint32_t* docs, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Restore the heap whose root ranks last, downwards from i."""
    cdef double s = scores[i]
    cdef uint32_t d = docs[i]
    cdef Py_ssize_t child = 2 * i + 1
    while child < n:
        if child + 1 < n and worse(scores[child + 1], docs[child + 1], scores[child], docs[child]):
            child += 1
        if not worse(scores[child], docs[child], s, d):
            break
        scores[i] = scores[child]
        docs[i] = docs[child]
        i = child
        child = 2 * i + 1
    scores[i] = s
    docs[i] = d


cdef inline Py_ssize_t offer(
    double* scores, uint32_t* docs, Py_ssize_t found, Py_ssize_t k, double s, uint32_t d
) noexcept nogil:
    """Offer a hit to the heap of at most k; return how many it holds."""
    cdef Py_ssize_t i
    if found < k:
        scores[found] = s
        docs[found] = d
        found += 1
        if found == k:
            for i in range(k // 2 - 1, -1, -1):
                sift(scores, docs, i, k)
    elif worse(scores[0], docs[0], s, d):
        scores[0] = s
        docs[0] = d
        sift(scores, docs, 0, k)
    return found


@cython.final
cdef class Reader:
    """One segment in a buffer (a map of its file).

    `arrays` gives (offset in bytes, number of items) of each array by name; see `qidf.index.segment` for what they
    hold. The caller has checked the footer that they come from. Documents that were deleted since it was written
    (`delete`) count in no df and are never found.
    """

    def __cinit__(self, buffer, str name, Py_ssize_t documents, seed, dict arrays):
        self.viewed = False
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.viewed = True
        self.base = <const uint8_t*>self.view.buf
        self.size = self.view.len
        self.name = name
        self.documents = documents
        self.seed = seed
        self.pages = arrays["pages"][1]
        self.sums = <const uint64_t*>self.place(arrays, "pages", 8, self.pages)
        self.seen = <uint8_t*>calloc(self.pages + 1, 1)
        if self.seen == NULL:
            raise MemoryError("no memory for the state of the pages")
        self.terms = arrays["body.terms.offsets"][1] - 1
        self.term_offsets = <const uint64_t*>self.place(arrays, "body.terms.offsets", 8, self.terms + 1)
        self.term_bytes = arrays["body.terms.data"][1]
        self.term_data = self.place(arrays, "body.terms.data", 1, self.term_bytes)
        self.slot_mask = max(0, arrays["body.terms.slots"][1] // 2 - 1)     # of none, `place` says that they do not fit
        if (self.slot_mask + 1) & self.slot_mask:
            raise IndexCorruptError(f"{name}: the term table's size is not a power of two")
        self.slots = <const uint32_t*>self.place(arrays, "body.terms.slots", 4, 2 * (self.slot_mask + 1))
        self.posting_offsets = <const uint64_t*>self.place(arrays, "body.postings.offsets", 8, self.terms + 1)
        self.postings = arrays["body.postings.docs"][1]
        self.docs = <const uint32_t*>self.place(arrays, "body.postings.docs", 4, self.postings)
        self.counts = self.place(arrays, "body.postings.counts", 1, self.postings)
        self.large_count = arrays["body.postings.large"][1] // 2
        self.large = <const uint64_t*>self.place(arrays, "body.postings.large", 8, 2 * self.large_count)
        self.lengths = <const uint32_t*>self.place(arrays, "body.lengths", 4, documents)

    def __dealloc__(self):
        free(self.seen)
        free(self.scratch)
        free(self.dead)
        free(self.lost_terms)
        free(self.lost)
        if self.viewed:
            PyBuffer_Release(&self.view)

    cdef const uint8_t* place(self, dict arrays, str name, size_t width, Py_ssize_t count) except NULL:
        offset, items = arrays[name]
        if count < 0 or items != count or offset < 0 or offset % width or offset + count * width > self.size:
            raise IndexCorruptError(f"{self.name}: array {name} does not fit the file")
        return self.base + <size_t>offset

    cdef int touch(self, const void* start, size_t length) noexcept nogil:
        return touch_pages(self.base, self.pages, self.sums, self.seen, start, length)

    cdef object damaged(self, str what):
        return IndexCorruptError(f"{self.name}: damaged {what}")

    def check(self, size_t offset, size_t length):
        """Raise IndexCorruptError unless the bytes at `offset` are what was written."""
        if offset + length > self.pages * PAGE or self.touch(self.base + offset, length) < 0:
            raise self.damaged(f"data near byte {offset}")

    cdef const uint8_t* item(
        self, const uint64_t* places, const uint8_t* data, size_t size, size_t n, size_t* length
    ) noexcept nogil:
        """Item n of a blob of `size` bytes, checked; NULL where it is not what was written."""
        cdef uint64_t a, b
        if self.touch(places + n, 16) < 0:
            return NULL
        a = places[n]
        b = places[n + 1]
        if a > b or b > size or self.touch(data + a, b - a) < 0:
            return NULL
        length[0] = b - a
        return data + a

    cdef int64_t find(self, const uint8_t* term, size_t length) noexcept nogil:
        cdef uint64_t h = term_hash(term, length, self.seed)
        cdef uint32_t tag = <uint32_t>(h >> 32)
        cdef size_t slot = h & self.slot_mask
        cdef size_t probes, n
        cdef uint32_t t
        cdef const uint8_t* found
        for probes in range(self.slot_mask + 1):
            if self.touch(&self.slots[2 * slot], 8) < 0:
                return BAD - 1
            t = self.slots[2 * slot + 1]
            if t == 0:
                return -1
            if self.slots[2 * slot] == tag:
                if t > <size_t>self.terms:
                    return BAD - 1
                found = self.item(self.term_offsets, self.term_data, self.term_bytes, t - 1, &n)
                if found == NULL:
                    return BAD - 1
                if n == length and memcmp(found, term, length) == 0:
                    return t - 1
            slot = (slot + 1) & self.slot_mask
        return -1

    cdef int span(self, int64_t ordinal, size_t* start, size_t* stop) noexcept nogil:
        """The postings of a term, checked; BAD where they are not what was written."""
        if ordinal < 0 or ordinal >= self.terms or self.touch(&self.posting_offsets[ordinal], 16) < 0:
            return BAD
        start[0] = self.posting_offsets[ordinal]
        stop[0] = self.posting_offsets[ordinal + 1]
        if start[0] > stop[0] or stop[0] > <size_t>self.postings:
            return BAD
        return 0

    def ordinal(self, str term):
        """Return the number of `term` in this segment, or -1."""
        cdef Py_ssize_t n
        cdef const uint8_t* data
        try:
            data = utf8(term, &n)
        except UnicodeEncodeError:
            return -1
        cdef int64_t t = self.find(data, n)
        if t < -1:
            raise self.damaged("dictionary")
        return t

    def df(self, int64_t ordinal):
        """Return in how many documents of this segment the term stands."""
        cdef int64_t df = self.live(ordinal)
        if df < 0:
            raise self.damaged("postings")
        return df

    cdef int64_t live(self, int64_t ordinal) noexcept nogil:
        """The df of a term without the documents that were deleted; BAD where the postings are not what was written."""
        cdef size_t start, stop, low = 0, high = self.lost_count, middle
        if self.span(ordinal, &start, &stop) < 0:
            return BAD
        while low < high:
            middle = (low + high) // 2
            if self.lost_terms[middle] < ordinal:
                low = middle + 1
            else:
                high = middle
        if low < self.lost_count and self.lost_terms[low] == ordinal:
            if self.lost[low] > stop - start:
                return BAD
            return stop - start - self.lost[low]
        return stop - start

    def delete(self, const uint32_t[::1] docs, const uint32_t[::1] terms, const uint32_t[::1] lost):
        """Take documents out: `docs` (ascending), and the `terms` that stood in `lost` of them, as `lost` gives them.

        To be called once, before anything is read. IndexCorruptError where the numbers don't fit this segment.
        """
        cdef Py_ssize_t i
        if self.dead != NULL:
            raise ValueError("the documents of this reader were deleted already")
        if terms.shape[0] != lost.shape[0]:
            raise self.damaged("deletes")
        for i in range(docs.shape[0]):
            if docs[i] >= <size_t>self.documents or (i and docs[i - 1] >= docs[i]):
                raise self.damaged("deletes")
        for i in range(terms.shape[0]):
            if terms[i] >= <size_t>self.terms or (i and terms[i - 1] >= terms[i]):
                raise self.damaged("deletes")
        if not docs.shape[0]:
            return
        self.dead = <uint8_t*>calloc(self.documents, 1)
        self.lost_terms = <uint32_t*>malloc((terms.shape[0] + 1) * sizeof(uint32_t))
        self.lost = <uint32_t*>malloc((terms.shape[0] + 1) * sizeof(uint32_t))
        if self.dead == NULL or self.lost_terms == NULL or self.lost == NULL:
            raise MemoryError("no memory for the deleted documents")
        for i in range(docs.shape[0]):
            self.dead[docs[i]] = 1
        for i in range(terms.shape[0]):
            self.lost_terms[i] = terms[i]
            self.lost[i] = lost[i]
        self.lost_count = terms.shape[0]
        self.deleted = docs.shape[0]

    def is_deleted(self, uint32_t doc):
        """Return whether document number `doc` was deleted."""
        return self.dead != NULL and doc < <size_t>self.documents and self.dead[doc] == 1

    def terms_of(self, const uint32_t[::1] docs):
        """Return the terms of some documents (ascending numbers), and in how many of them each stands, as arrays of uint32.

        A segment knows a term's documents, not a document's terms, so this reads the document numbers of every posting.
        """
        cdef uint8_t* wanted = <uint8_t*>calloc(self.documents + 1, 1)
        cdef array.array terms = array.array("I"), counts = array.array("I")
        cdef uint32_t[1024] some, much
        cdef size_t t = 0, p, stop, used
        cdef uint32_t n
        cdef Py_ssize_t i
        cdef int state = 0
        if wanted == NULL:
            raise MemoryError("no memory to look for documents")
        try:
            for i in range(docs.shape[0]):
                if docs[i] >= <size_t>self.documents:
                    raise ValueError(f"docs must be below {self.documents}, got {docs[i]}")
                wanted[docs[i]] = 1
            if (
                self.touch(self.posting_offsets, 8 * (self.terms + 1)) < 0
                or self.touch(self.docs, 4 * self.postings) < 0
            ):
                raise self.damaged("postings")
            while t < <size_t>self.terms and state == 0:
                used = 0
                with nogil:
                    while t < <size_t>self.terms and used < 1024:
                        p = self.posting_offsets[t]
                        stop = self.posting_offsets[t + 1]
                        if p > stop or stop > <size_t>self.postings:
                            state = BAD
                            break
                        n = 0
                        while p < stop:
                            if self.docs[p] >= <uint32_t>self.documents:
                                state = BAD
                                break
                            n += wanted[self.docs[p]]
                            p += 1
                        if n:
                            some[used] = <uint32_t>t
                            much[used] = n
                            used += 1
                        t += 1
                if used:
                    array.extend_buffer(terms, <char*>some, used)
                    array.extend_buffer(counts, <char*>much, used)
            if state < 0:
                raise self.damaged("postings")
        finally:
            free(wanted)
        return terms, counts

    def shift(self, const uint32_t[::1] terms, const int64_t[::1] before, const int64_t[::1] after, tuple others):
        """Tell what a change of dfs here does to the counts of a whole index.

        `terms[i]` of this segment stands in `before[i]` live documents and will stand in `after[i]`; `others` are the
        readers of the other segments. Returns the change of the number of terms (df ≥ 1) and of those with df = 1.
        """
        cdef Py_ssize_t i, j, k = len(others)
        cdef int64_t rest, ordinal, df, words = 0, once = 0
        cdef int state = 0
        cdef const uint8_t* term
        cdef size_t n
        cdef void** readers
        if before.shape[0] != terms.shape[0] or after.shape[0] != terms.shape[0]:
            raise ValueError("the arrays' sizes do not fit each other")
        readers = <void**>malloc((k + 1) * sizeof(void*))
        if readers == NULL:
            raise MemoryError("no memory to count terms")
        try:
            for j in range(k):
                readers[j] = <void*>(<Reader?>others[j])
            with nogil:
                for i in range(terms.shape[0]):
                    term = NULL
                    if terms[i] < <size_t>self.terms:
                        term = self.item(self.term_offsets, self.term_data, self.term_bytes, terms[i], &n)
                    if term == NULL:
                        state = BAD
                        break
                    rest = 0
                    for j in range(k):
                        ordinal = (<Reader>readers[j]).find(term, n)
                        if ordinal < -1:
                            state = BAD
                            break
                        if ordinal >= 0:
                            df = (<Reader>readers[j]).live(ordinal)
                            if df < 0:
                                state = BAD
                                break
                            rest += df
                            if rest > 1:
                                break
                    if state < 0:
                        break
                    words += (rest + after[i] > 0) - (rest + before[i] > 0)
                    once += (rest + after[i] == 1) - (rest + before[i] == 1)
        finally:
            free(readers)
        if state < 0:
            raise self.damaged("dictionary")
        return words, once

    cdef uint64_t large_number(self, size_t posting) noexcept nogil:
        """The count of a posting whose byte says 255; 0 where none is stored."""
        cdef size_t low = 0, high = self.large_count, middle
        while low < high:
            middle = (low + high) // 2
            if self.large[2 * middle] < posting:
                low = middle + 1
            else:
                high = middle
        if low < self.large_count and self.large[2 * low] == posting:
            return self.large[2 * low + 1]
        return 0

    def count(self, int64_t ordinal, uint32_t doc):
        """Return how often the term stands in document number `doc` (binary search)."""
        cdef size_t start, stop, middle
        if self.span(ordinal, &start, &stop) < 0:
            raise self.damaged("postings")
        if self.touch(&self.docs[start], 4 * (stop - start)) < 0 or self.touch(&self.counts[start], stop - start) < 0:
            raise self.damaged("postings")
        if self.touch(self.large, 16 * self.large_count) < 0:
            raise self.damaged("counts")
        cdef size_t end = stop
        while start < stop:
            middle = (start + stop) // 2
            if self.docs[middle] < doc:
                start = middle + 1
            else:
                stop = middle
        if start == end or self.docs[start] != doc:
            return 0
        cdef uint64_t tf = self.large_number(start) if self.counts[start] == 255 else self.counts[start]
        if tf == 0:
            raise self.damaged("counts")
        return tf

    def length(self, uint32_t doc):
        """Return the number of tokens of document number `doc`."""
        if doc >= self.documents or self.touch(&self.lengths[doc], 4) < 0:
            raise self.damaged("lengths")
        return self.lengths[doc]

    def ids(self, const int64_t[::1] docs, size_t offsets, size_t data, size_t data_bytes):
        """Return the ids of document numbers, None for −1: items of the blob at `offsets` (uint64) and `data`."""
        cdef Py_ssize_t i
        cdef int64_t doc
        cdef const uint64_t* places = <const uint64_t*>(self.base + offsets)
        cdef const uint8_t* found
        cdef size_t n
        cdef list out = []
        if offsets % 8 or offsets + 8 * (self.documents + 1) > self.size or data + data_bytes > self.size:
            raise self.damaged("ids")
        for i in range(docs.shape[0]):
            doc = docs[i]
            if doc < 0:
                out.append(None)
                continue
            if doc >= self.documents:
                raise self.damaged("ids")
            found = self.item(places, self.base + data, data_bytes, doc, &n)
            if found == NULL:
                raise self.damaged("ids")
            try:
                out.append(PyUnicode_DecodeUTF8(<const char*>found, n, "surrogatepass"))
            except UnicodeDecodeError as error:
                raise self.damaged("ids") from error
        return out

    def number(self, bytes id, size_t offsets, size_t data, size_t data_bytes):
        """Return the number of the document with an id's bytes, −1 if there is none or it was deleted (binary search)."""
        cdef const uint64_t* places = <const uint64_t*>(self.base + offsets)
        cdef const uint8_t* wanted = <const uint8_t*><const char*>id
        cdef const uint8_t* found
        cdef size_t low = 0, high = self.documents, middle, n
        cdef int c
        if offsets % 8 or offsets + 8 * (self.documents + 1) > self.size or data + data_bytes > self.size:
            raise self.damaged("ids")
        while low < high:
            middle = (low + high) // 2
            found = self.item(places, self.base + data, data_bytes, middle, &n)
            if found == NULL:
                raise self.damaged("ids")
            c = by_bytes(found, n, wanted, len(id))
            if c == 0:
                return -1 if self.is_deleted(middle) else <Py_ssize_t>middle
            if c < 0:
                low = middle + 1
            else:
                high = middle
        return -1

    def norms(self, double k1, double b, double average, double[::1] out):
        """Write k1·((1 − b) + b·dl/avgdl) of each document into `out`, ∞ for a deleted one: that makes its score 0."""
        cdef Py_ssize_t i
        cdef int state = 0
        if out.shape[0] != self.documents:
            raise ValueError(f"out must have {self.documents} items, got {out.shape[0]}")
        with nogil:
            state = self.touch(self.lengths, 4 * self.documents)
            if state == 0:
                for i in range(self.documents):
                    out[i] = k1 * ((1.0 - b) + b * (self.lengths[i] / average))
                if self.dead != NULL:
                    for i in range(self.documents):
                        if self.dead[i]:
                            out[i] = INFINITY
        if state < 0:
            raise self.damaged("lengths")

    def parts(self, const double[::1] norms, double[::1] out):
        """Write tf / (tf + norm) of every posting into `out`: what `score` would compute again for each query."""
        cdef Py_ssize_t p
        cdef int state = 0
        cdef double tf
        if norms.shape[0] != self.documents or out.shape[0] != self.postings:
            raise ValueError(f"norms and out must have {self.documents} and {self.postings} items")
        with nogil:
            if (
                self.touch(self.docs, 4 * self.postings) < 0
                or self.touch(self.counts, self.postings) < 0
                or self.touch(self.large, 16 * self.large_count) < 0
            ):
                state = BAD
            for p in range(self.postings):
                if state < 0 or self.docs[p] >= <uint32_t>self.documents:
                    state = BAD
                    break
                tf = self.counts[p]
                if tf == 255:
                    tf = self.large_number(p)
                    if tf == 0:
                        state = BAD
                out[p] = tf / (tf + norms[self.docs[p]])
        if state < 0:
            raise self.damaged("postings")

    def score(
        self,
        const int64_t[::1] offsets,
        const int64_t[::1] ordinals,
        const double[::1] weights,
        const double[::1] norms,
        Py_ssize_t k,
        int64_t[::1] out_docs,
        double[::1] out_scores,
        Py_ssize_t first,
        Py_ssize_t last,
        const double[::1] parts = None,
    ):
        """Rank queries `first` to `last`: the k best documents of each, by score, ties by number. No GIL.

        Query i has the terms `ordinals[offsets[i]:offsets[i + 1]]` (−1: not in this segment) with `weights` ≥ 0. Row i
        of `out_docs` and `out_scores` (k items each) gets its hits, then −1 and 0. A hit has a score above 0. `parts`, if
        given, is what `parts` wrote for these norms: the same scores, faster, for eight bytes a posting.
        """
        cdef Py_ssize_t queries = offsets.shape[0] - 1, i, found
        cdef Py_ssize_t room = k if k < self.documents else self.documents
        cdef int state = 0
        if (
            first < 0 or last > queries or norms.shape[0] != self.documents or k < 1
            or out_docs.shape[0] < last * k or out_scores.shape[0] < last * k
            or weights.shape[0] != ordinals.shape[0]
            or (parts is not None and parts.shape[0] != self.postings)
        ):
            raise ValueError("the arrays' sizes do not fit each other")
        for i in range(first, last):
            if offsets[i] < 0 or offsets[i] > offsets[i + 1] or offsets[i + 1] > ordinals.shape[0]:
                raise ValueError("offsets must rise and stay within the terms")
        if self.documents == 0:
            for i in range(first * k, last * k):
                out_docs[i] = -1
                out_scores[i] = 0.0
            return
        cdef const double* ready = &parts[0] if parts is not None and self.postings else NULL
        cdef double* scores = self.scratch
        self.scratch = NULL
        if scores == NULL:
            scores = <double*>calloc(self.documents, sizeof(double))
        cdef double* heap_scores = <double*>malloc(room * sizeof(double))
        cdef uint32_t* heap_docs = <uint32_t*>malloc(room * sizeof(uint32_t))
        try:
            if scores == NULL or heap_scores == NULL or heap_docs == NULL:
                raise MemoryError("no memory to rank")
            with nogil:
                if self.touch(self.large, 16 * self.large_count) < 0:
                    state = BAD
                i = first
                while i < last and state == 0:
                    state = self.score_one(
                        &ordinals[0] + offsets[i] if ordinals.shape[0] else NULL,
                        &weights[0] + offsets[i] if ordinals.shape[0] else NULL,
                        offsets[i + 1] - offsets[i],
                        &norms[0],
                        ready,
                        room,
                        scores,
                        heap_scores,
                        heap_docs,
                        k,
                        &out_docs[i * k],
                        &out_scores[i * k],
                    )
                    i += 1
                if state < 0:
                    memset(scores, 0, self.documents * sizeof(double))
            if state == BAD:
                raise self.damaged("postings")
        finally:
            free(heap_scores)
            free(heap_docs)
            if self.scratch == NULL:
                self.scratch = scores
            else:
                free(scores)

    cdef int score_one(
        self,
        const int64_t* ordinals,
        const double* weights,
        Py_ssize_t terms,
        const double* norms,
        const double* parts,
        Py_ssize_t room,
        double* scores,
        double* heap_scores,
        uint32_t* heap_docs,
        Py_ssize_t k,
        int64_t* out_docs,
        double* out_scores,
    ) noexcept nogil:
        cdef Py_ssize_t i, found = 0
        cdef size_t start, stop, p, total = 0
        cdef uint32_t d
        cdef double w, s, threshold
        cdef double[PIECE] tf
        cdef double[PIECE] part
        cdef size_t piece, j, length
        cdef const uint32_t* docs
        cdef const uint8_t* counts
        cdef uint8_t most
        cdef uint32_t documents = <uint32_t>self.documents, last
        # Σ over terms, in the query's order, of w · tf / (tf + k1·((1 − b) + b·dl/avgdl))
        for i in range(terms):
            w = weights[i]
            if ordinals[i] < 0 or w == 0:
                continue
            if self.span(ordinals[i], &start, &stop) < 0:
                return BAD
            if (
                self.touch(&self.docs[start], 4 * (stop - start)) < 0
                or self.touch(&self.counts[start], stop - start) < 0
            ):
                return BAD
            total += stop - start
            if parts != NULL:
                for p in range(start, stop):
                    scores[self.docs[p]] += w * parts[p]      # `parts` has checked the documents' numbers
                continue
            # in pieces, so that the divisions become vector instructions
            piece = start
            while piece < stop:
                length = stop - piece if stop - piece < PIECE else PIECE
                docs = self.docs + piece
                counts = self.counts + piece
                most = 0
                for j in range(length):
                    if docs[j] >= documents:
                        return BAD
                    part[j] = norms[docs[j]]
                for j in range(length):
                    tf[j] = counts[j]
                    most = most if most > counts[j] else counts[j]
                if most == 255:
                    for j in range(length):
                        if counts[j] == 255:
                            tf[j] = self.large_number(piece + j)
                            if tf[j] == 0:
                                return BAD
                for j in range(length):
                    part[j] = w * (tf[j] / (tf[j] + part[j]))
                for j in range(length):
                    scores[docs[j]] += part[j]
                piece += length
        # the k best, leaving every score at 0 for the next query
        if total < <size_t>self.documents // DENSE:
            for i in range(terms):
                if ordinals[i] < 0 or weights[i] == 0:
                    continue
                if self.span(ordinals[i], &start, &stop) < 0:
                    return BAD
                for p in range(start, stop):
                    d = self.docs[p]
                    s = scores[d]
                    scores[d] = 0
                    if s > 0:
                        found = offer(heap_scores, heap_docs, found, room, s, d)
        else:
            threshold = 0
            d = 0
            while d < documents:
                if d + 8 <= documents and not (
                    (scores[d] > threshold) | (scores[d + 1] > threshold)
                    | (scores[d + 2] > threshold) | (scores[d + 3] > threshold)
                    | (scores[d + 4] > threshold) | (scores[d + 5] > threshold)
                    | (scores[d + 6] > threshold) | (scores[d + 7] > threshold)
                ):
                    d += 8
                    continue
                last = d + 8 if d + 8 <= documents else documents
                while d < last:
                    if scores[d] > threshold:
                        found = offer(heap_scores, heap_docs, found, room, scores[d], d)
                        if found == room:
                            threshold = heap_scores[0]
                    d += 1
            memset(scores, 0, self.documents * sizeof(double))
        for i in range(found, k):
            out_docs[i] = -1
            out_scores[i] = 0.0
        if found < room:
            for i in range(found // 2 - 1, -1, -1):
                sift(heap_scores, heap_docs, i, found)
        while found > 0:
            found -= 1
            out_docs[found] = heap_docs[0]
            out_scores[found] = heap_scores[0]
            heap_scores[0] = heap_scores[found]
            heap_docs[0] = heap_docs[found]
            sift(heap_scores, heap_docs, 0, found)
        return 0


cdef struct Row:
    int64_t df
    uint32_t count
    uint32_t shaped


@cython.final
cdef class Terms:
    """The known terms of many queries in a row; see `analyze`."""

    cdef Scanner scanner
    cdef tuple readers
    cdef Py_ssize_t segments
    cdef Row* rows
    cdef int64_t* numbers        # per row: the term's number in each segment
    cdef size_t used, capacity
    cdef uint32_t* table         # of the query in hand: row + 1 by hash
    cdef size_t table_mask
    cdef size_t query            # the first row of the query in hand

    def __cinit__(self, Scanner scanner, tuple readers):
        self.scanner = scanner
        self.readers = readers
        self.segments = len(readers)
        self.capacity = 1024
        self.table_mask = 255
        self.rows = <Row*>malloc(self.capacity * sizeof(Row))
        self.numbers = <int64_t*>malloc(self.capacity * self.segments * sizeof(int64_t))
        self.table = <uint32_t*>calloc(self.table_mask + 1, sizeof(uint32_t))
        if self.rows == NULL or self.numbers == NULL or self.table == NULL:
            raise MemoryError("no memory for the queries' terms")

    def __dealloc__(self):
        free(self.rows)
        free(self.numbers)
        free(self.table)

    cdef int add(self, void** readers, const uint8_t* term, size_t length, bint shaped) noexcept nogil:
        """Count one token of the query in hand."""
        cdef Py_ssize_t i
        cdef int64_t* numbers
        cdef int64_t df = 0, number, here, key = -1
        cdef size_t slot, row, capacity
        cdef void* grown
        if self.used + 1 >= self.capacity:
            capacity = 2 * self.capacity
            grown = realloc(self.rows, capacity * sizeof(Row))
            if grown == NULL:
                return NO_MEMORY
            self.rows = <Row*>grown
            grown = realloc(self.numbers, capacity * self.segments * sizeof(int64_t))
            if grown == NULL:
                return NO_MEMORY
            self.numbers = <int64_t*>grown
            self.capacity = capacity
        numbers = self.numbers + self.used * self.segments
        for i in range(self.segments):
            number = (<Reader>readers[i]).find(term, length)
            if number < -1:
                return BAD
            numbers[i] = number
            if number >= 0:
                here = (<Reader>readers[i]).live(number)
                if here < 0:
                    return BAD
                df += here
                if key < 0:
                    key = number * self.segments + i
        if df == 0:
            return 0
        slot = (<uint64_t>key * <uint64_t>0x9E3779B97F4A7C15 >> 32) & self.table_mask
        while self.table[slot]:
            row = self.query + self.table[slot] - 1
            i = 0
            while i < self.segments and self.numbers[row * self.segments + i] == numbers[i]:
                i += 1
            if i == self.segments:
                self.rows[row].count += 1
                self.rows[row].shaped |= shaped
                return 0
            slot = (slot + 1) & self.table_mask
        self.rows[self.used].df = df
        self.rows[self.used].count = 1
        self.rows[self.used].shaped = shaped
        self.used += 1
        self.table[slot] = <uint32_t>(self.used - self.query)
        if 2 * (self.used - self.query) > self.table_mask:
            return self.widen()
        return 0

    cdef int widen(self) noexcept nogil:
        cdef size_t row, slot, mask = 4 * (self.table_mask + 1) - 1
        cdef uint32_t* table = <uint32_t*>calloc(mask + 1, sizeof(uint32_t))
        if table == NULL:
            return NO_MEMORY
        free(self.table)
        self.table = table
        self.table_mask = mask
        for row in range(self.query, self.used):
            slot = self.slot_of(row)
            while table[slot]:
                slot = (slot + 1) & mask
            table[slot] = <uint32_t>(row - self.query) + 1
        return 0

    cdef size_t slot_of(self, size_t row) noexcept nogil:
        cdef Py_ssize_t i = 0
        while self.numbers[row * self.segments + i] < 0:
            i += 1
        return (
            <uint64_t>(self.numbers[row * self.segments + i] * self.segments + i) * <uint64_t>0x9E3779B97F4A7C15 >> 32
        ) & self.table_mask

    cdef void next_query(self) noexcept nogil:
        """Clear the table of the query in hand, by its rows if they are few."""
        cdef size_t row, slot
        if 8 * (self.used - self.query) > self.table_mask:
            memset(self.table, 0, (self.table_mask + 1) * sizeof(uint32_t))
        else:
            for row in range(self.query, self.used):
                slot = self.slot_of(row)
                while self.table[slot]:
                    self.table[slot] = 0
                    slot = (slot + 1) & self.table_mask
        self.query = self.used


def analyze(Scanner scanner, list readers, texts, spans):
    """Return the known terms of many queries: what `query_terms` and the segments' dictionaries say of each.

    `spans[i]` is None or the identifier-shaped spans of `texts[i]`, in code points; `spans` is None where shape does not
    matter. Unknown terms are left out; the others stand in order of their first occurrence.

    Returns
    -------
    offsets : array of int64, queries + 1: where each query's terms begin
    numbers : array of int64, terms x segments: each term's number in each segment, -1 where it does not stand
    dfs, counts, shaped : arrays of int64, one item a term
    """
    import numpy as np

    cdef Terms terms = Terms(scanner, tuple(readers))
    cdef void** pointers = <void**>malloc((len(readers) + 1) * sizeof(void*))
    cdef Batch batch
    cdef Py_ssize_t n, at, byte, point, i, k, pair
    cdef const uint8_t* data
    cdef int state = 0
    cdef bint shaped, plain
    cdef Tok* tok
    cdef Py_ssize_t end
    offsets = np.zeros(len(texts) + 1, np.int64)
    cdef int64_t[::1] starts = offsets
    cdef int64_t[:, ::1] places = np.zeros((0, 2), np.int64)
    if pointers == NULL or batch_init(&batch, 0) < 0:
        free(pointers)
        raise MemoryError("no memory for the queries' terms")
    try:
        for i in range(len(readers)):
            pointers[i] = <void*>(<Reader?>readers[i])
        for i in range(len(texts)):
            text = texts[i]
            span = spans[i] if spans is not None else None
            prepared = scanner.prepare(text)
            plain = not span
            if not plain and len(prepared) != len(text):      # lower() or surrogates moved the offsets: rare
                for token in scanner.tokens(text):
                    term = token.term.encode()
                    shaped = not token.part and any(a < token.end and token.start < b for a, b in span)
                    state = terms.add(pointers, <const uint8_t*><const char*>term, len(term), shaped)
                    if state < 0:
                        break
            else:
                data = utf8(prepared, &n)
                if not plain:
                    places = np.array(span, np.int64).reshape(-1, 2)
                with nogil:
                    at = 0
                    byte = 0
                    point = 0
                    pair = 0
                    while at < n and state == 0:
                        at = scanner.scan(data, n, at, &batch)
                        if at < 0:
                            state = NO_MEMORY
                            break
                        for k in range(batch.count):
                            tok = &batch.toks[k]
                            shaped = False
                            if not plain and not tok.part:
                                point += code_points(data, byte, tok.start)
                                byte = tok.start
                                end = point + code_points(data, tok.start, tok.end)
                                while pair < places.shape[0] and places[pair, 1] <= point:
                                    pair += 1
                                shaped = pair < places.shape[0] and places[pair, 0] < end
                            state = terms.add(pointers, batch.buffer + tok.at, tok.length, shaped)
                            if state < 0:
                                break
            if state == BAD:
                raise IndexCorruptError("a segment's dictionary is damaged")
            if state < 0:
                raise MemoryError("no memory for the queries' terms")
            terms.next_query()
            starts[i + 1] = terms.used
    finally:
        free(pointers)
        batch_free(&batch)
    rows = np.frombuffer((<char*>terms.rows)[: terms.used * sizeof(Row)], np.dtype("i8,u4,u4"))
    numbers = np.frombuffer((<char*>terms.numbers)[: terms.used * terms.segments * 8], np.int64)
    return (
        offsets,
        numbers.reshape(-1, terms.segments),
        rows["f0"].copy(),
        rows["f1"].astype(np.int64),
        rows["f2"].astype(np.int64),
    )
