# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled merger: segments to one, without what was deleted. Postings pass through in pieces.

In memory stand the vocabularies' numbers and 12 bytes a document; never the postings. Ids are merged in the order of
their bytes, so that a document's new number breaks ties as its id does. It knows nothing of files or scores.
"""

cimport cython
from cpython cimport array
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from qidf.kernels.scan cimport term_hash
from qidf.kernels.scorer cimport BAD, Reader, by_bytes

import array

from qidf.errors import IndexCorruptError

cdef enum:
    NONE = 0xFFFFFFFF

cdef struct Blob:
    const uint64_t* offsets
    const uint8_t* data
    uint64_t size

cdef struct Head:
    const uint8_t* term
    size_t length

cdef array.array BYTES = array.array("B")
cdef array.array NUMBERS = array.array("I")
cdef array.array PLACES = array.array("Q")


@cython.final
cdef class Merger:
    """The documents of several segments that were not deleted, as one segment.

    `ids` gives for each reader where its ids stand: (offsets, data, bytes of data). IndexCorruptError where a segment is
    not what was written, or two hold the same id.

    Attributes
    ----------
    documents, postings, tokens, terms, hapax, most : int
        Of the new segment; `most` is the largest df.
    segments, docs : array of uint32
        By new number, where the document comes from.
    vocabulary : dict of arrays
        `terms.data`, `terms.offsets`, `terms.slots`, `postings.offsets`.
    """

    cdef readonly Py_ssize_t documents
    cdef readonly Py_ssize_t terms
    cdef readonly uint64_t postings
    cdef readonly uint64_t tokens
    cdef readonly Py_ssize_t hapax
    cdef readonly Py_ssize_t most
    cdef readonly array.array segments
    cdef readonly array.array docs
    cdef readonly dict vocabulary
    cdef tuple readers
    cdef Py_ssize_t k
    cdef void** views
    cdef uint32_t** new_doc      # by segment and old number; NONE where it was deleted
    cdef uint32_t** new_term     # by segment and old number; NONE where nobody holds it any more
    cdef size_t* heads           # by segment: the next term to be read
    cdef size_t* at              # by segment: of the term in hand, the next posting, and where they end
    cdef size_t* stops
    cdef size_t term             # the next new one
    cdef uint64_t done           # postings given out
    cdef object big              # posting, count, posting, … for counts of 255 and more: an array of uint64

    def __cinit__(self, list readers, list ids, uint64_t seed):
        cdef Py_ssize_t i, n
        cdef Reader reader
        self.readers = tuple(readers)
        self.k = len(readers)
        self.big = array.array("Q")
        self.views = <void**>calloc(self.k + 1, sizeof(void*))
        self.new_doc = <uint32_t**>calloc(self.k + 1, sizeof(uint32_t*))
        self.new_term = <uint32_t**>calloc(self.k + 1, sizeof(uint32_t*))
        self.heads = <size_t*>calloc(self.k + 1, sizeof(size_t))
        self.at = <size_t*>calloc(self.k + 1, sizeof(size_t))
        self.stops = <size_t*>calloc(self.k + 1, sizeof(size_t))
        if not (self.views and self.new_doc and self.new_term and self.heads and self.at and self.stops):
            raise MemoryError("no memory to merge segments")
        for i in range(self.k):
            reader = <Reader?>readers[i]
            self.views[i] = <void*>reader
            self.new_doc[i] = <uint32_t*>malloc((reader.documents + 1) * sizeof(uint32_t))
            self.new_term[i] = <uint32_t*>malloc((reader.terms + 1) * sizeof(uint32_t))
            if self.new_doc[i] == NULL or self.new_term[i] == NULL:
                raise MemoryError("no memory to merge segments")
            if (
                reader.touch(reader.lengths, 4 * reader.documents) < 0
                or reader.touch(reader.posting_offsets, 8 * (reader.terms + 1)) < 0
                or reader.touch(reader.large, 16 * reader.large_count) < 0
            ):
                raise reader.damaged("dictionary")
            for n in range(reader.terms):
                if (
                    reader.posting_offsets[n] > reader.posting_offsets[n + 1]
                    or reader.posting_offsets[n + 1] > <uint64_t>reader.postings
                ):
                    raise reader.damaged("dictionary")
        self.number_documents(ids)
        self.number_terms(seed)

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.k):
            if self.new_doc != NULL:
                free(self.new_doc[i])
            if self.new_term != NULL:
                free(self.new_term[i])
        free(self.views)
        free(self.new_doc)
        free(self.new_term)
        free(self.heads)
        free(self.at)
        free(self.stops)

    cdef int number_documents(self, list ids) except -1:
        cdef Py_ssize_t i, best, total = 0
        cdef Reader reader
        cdef size_t* heads = <size_t*>calloc(self.k + 1, sizeof(size_t))
        cdef Blob* blobs = <Blob*>calloc(self.k + 1, sizeof(Blob))
        cdef const uint8_t* first = NULL
        cdef const uint8_t* last = NULL
        cdef size_t n, m = 0, size = 0
        cdef int state = 0
        cdef uint32_t* segments
        cdef uint32_t* docs
        cdef uint32_t serial = 0
        try:
            if heads == NULL or blobs == NULL:
                raise MemoryError("no memory to merge segments")
            for i in range(self.k):
                find_blob(<Reader>self.views[i], ids[i], &blobs[i])
                reader = <Reader>self.views[i]
                total += reader.documents - reader.deleted
            if total >= NONE:
                raise ValueError(f"a segment holds fewer than {NONE} documents, got {total}")
            self.segments = array.clone(NUMBERS, total, False)
            self.docs = array.clone(NUMBERS, total, False)
            segments = self.segments.data.as_uints
            docs = self.docs.data.as_uints
            with nogil:
                while True:
                    best = -1
                    for i in range(self.k):
                        while heads[i] < <size_t>(<Reader>self.views[i]).documents and (
                            (<Reader>self.views[i]).dead != NULL and (<Reader>self.views[i]).dead[heads[i]]
                        ):
                            self.new_doc[i][heads[i]] = NONE
                            heads[i] += 1
                        if heads[i] >= <size_t>(<Reader>self.views[i]).documents:
                            continue
                        n = blobs[i].offsets[heads[i] + 1] - blobs[i].offsets[heads[i]]
                        if best < 0 or by_bytes(blobs[i].data + blobs[i].offsets[heads[i]], n, first, m) < 0:
                            best = i
                            first = blobs[i].data + blobs[i].offsets[heads[i]]
                            m = n
                    if best < 0:
                        break
                    if last != NULL and by_bytes(last, size, first, m) >= 0:
                        state = BAD
                        break
                    last = first
                    size = m
                    self.new_doc[best][heads[best]] = serial
                    segments[serial] = <uint32_t>best
                    docs[serial] = <uint32_t>heads[best]
                    self.tokens += (<Reader>self.views[best]).lengths[heads[best]]
                    heads[best] += 1
                    serial += 1
            if state < 0:
                name = bytes(last[:size]).decode("utf-8", "replace")
                raise IndexCorruptError(f"segments hold documents out of order, or twice, at the id {name!r}")
            self.documents = total
        finally:
            free(heads)
            free(blobs)
        return 0

    cdef int number_terms(self, uint64_t seed) except -1:
        cdef Py_ssize_t i, most = 0
        cdef size_t room = 0, used = 0, terms = 0, m = 0, mask = 1, slot, t
        cdef int64_t df, here
        cdef const uint8_t* first = NULL
        cdef Head* heads = <Head*>malloc((self.k + 1) * sizeof(Head))
        cdef int state = 0
        cdef Reader reader
        cdef uint64_t h
        if heads == NULL:
            raise MemoryError("no memory to merge segments")
        for i in range(self.k):
            reader = <Reader>self.views[i]
            room += reader.term_bytes
            most += reader.terms
        cdef array.array data = array.clone(BYTES, room, False)
        # For all terms of all segments; what the shared ones leave over is never touched, so it takes no memory.
        cdef array.array offsets = array.clone(PLACES, most + 1, False)
        cdef array.array starts = array.clone(PLACES, most + 1, False)
        cdef uint8_t* data_p = data.data.as_uchars
        cdef uint64_t* offsets_p = <uint64_t*>offsets.data.as_ulonglongs
        cdef uint64_t* starts_p = <uint64_t*>starts.data.as_ulonglongs
        offsets_p[0] = starts_p[0] = 0
        with nogil:
            while True:
                first = NULL
                for i in range(self.k):
                    if self.heads[i] >= <size_t>(<Reader>self.views[i]).terms:
                        continue
                    heads[i].term = (<Reader>self.views[i]).item(
                        (<Reader>self.views[i]).term_offsets,
                        (<Reader>self.views[i]).term_data,
                        (<Reader>self.views[i]).term_bytes,
                        self.heads[i],
                        &heads[i].length,
                    )
                    if heads[i].term == NULL:
                        state = BAD
                        break
                    if first == NULL or by_bytes(heads[i].term, heads[i].length, first, m) < 0:
                        first = heads[i].term
                        m = heads[i].length
                if first == NULL or state < 0:
                    break
                df = 0
                for i in range(self.k):
                    if self.heads[i] >= <size_t>(<Reader>self.views[i]).terms:
                        continue
                    if by_bytes(heads[i].term, heads[i].length, first, m) != 0:
                        continue
                    here = (<Reader>self.views[i]).live(self.heads[i])
                    if here < 0:
                        state = BAD
                        break
                    df += here
                    self.new_term[i][self.heads[i]] = <uint32_t>terms if here else NONE
                    self.heads[i] += 1
                if state < 0:
                    break
                if df == 0:
                    continue
                memcpy(data_p + used, first, m)
                used += m
                terms += 1
                offsets_p[terms] = used
                starts_p[terms] = starts_p[terms - 1] + df
                self.hapax += df == 1
                if df > self.most:
                    self.most = df
        free(heads)
        if state < 0:
            raise IndexCorruptError("a segment's dictionary is damaged")
        self.terms = terms
        self.postings = starts_p[terms]
        while mask < terms + terms // 2 + 1:
            mask *= 2
        cdef array.array slots = array.clone(NUMBERS, 2 * mask, True)
        cdef uint32_t* slots_p = slots.data.as_uints
        mask -= 1
        with nogil:
            for t in range(terms):
                h = term_hash(data_p + offsets_p[t], offsets_p[t + 1] - offsets_p[t], seed)
                slot = h & mask
                while slots_p[2 * slot + 1] != 0:
                    slot = (slot + 1) & mask
                slots_p[2 * slot] = <uint32_t>(h >> 32)
                slots_p[2 * slot + 1] = <uint32_t>t + 1
        self.vocabulary = {
            "terms.data": memoryview(data)[:used],
            "terms.offsets": memoryview(offsets)[: terms + 1],
            "terms.slots": slots,
            "postings.offsets": memoryview(starts)[: terms + 1],
        }
        for i in range(self.k):
            self.heads[i] = 0
        return 0

    def fill(self, uint32_t[::1] docs, uint8_t[::1] counts):
        """Write the postings of the next terms, as many as fit (`docs` must hold the largest df), and return their number.

        0 when all were written. The GIL is released.
        """
        cdef Py_ssize_t i, best
        cdef size_t n = 0, p, reader_terms, capacity = docs.shape[0]
        cdef uint32_t d, least
        cdef uint64_t df
        cdef uint8_t c
        cdef int state = 0
        cdef Reader reader
        cdef const uint64_t* starts
        cdef const uint64_t[::1] offsets = self.vocabulary["postings.offsets"]
        if counts.shape[0] < docs.shape[0]:
            raise ValueError("the arrays' sizes do not fit each other")
        if <Py_ssize_t>capacity < self.most:
            raise ValueError(f"docs must hold {self.most} numbers, got {capacity}")
        starts = &offsets[0]
        with nogil:
            while self.term < <size_t>self.terms and state == 0:
                df = starts[self.term + 1] - starts[self.term]
                if n + df > capacity:
                    break
                for i in range(self.k):
                    reader_terms = <size_t>(<Reader>self.views[i]).terms
                    while self.heads[i] < reader_terms and self.new_term[i][self.heads[i]] == NONE:
                        self.heads[i] += 1
                    if self.heads[i] < reader_terms and self.new_term[i][self.heads[i]] == self.term:
                        self.at[i] = (<Reader>self.views[i]).posting_offsets[self.heads[i]]
                        self.stops[i] = (<Reader>self.views[i]).posting_offsets[self.heads[i] + 1]
                        if (
                            (<Reader>self.views[i]).touch(
                                &(<Reader>self.views[i]).docs[self.at[i]], 4 * (self.stops[i] - self.at[i])
                            ) < 0
                            or (<Reader>self.views[i]).touch(
                                &(<Reader>self.views[i]).counts[self.at[i]], self.stops[i] - self.at[i]
                            ) < 0
                        ):
                            state = BAD
                        for p in range(self.at[i], self.stops[i]):
                            if (<Reader>self.views[i]).docs[p] >= <size_t>(<Reader>self.views[i]).documents:
                                state = BAD
                        self.heads[i] += 1
                    else:
                        self.at[i] = self.stops[i] = 0
                while df > 0 and state == 0:
                    best = -1
                    least = NONE
                    for i in range(self.k):
                        while self.at[i] < self.stops[i]:
                            d = self.new_doc[i][(<Reader>self.views[i]).docs[self.at[i]]]
                            if d != NONE:
                                if d < least:
                                    least = d
                                    best = i
                                break
                            self.at[i] += 1
                    if best < 0:
                        state = BAD
                        break
                    p = self.at[best]
                    self.at[best] += 1
                    c = (<Reader>self.views[best]).counts[p]
                    docs[n] = least
                    counts[n] = c
                    if c == 255:
                        with gil:
                            reader = <Reader>self.views[best]
                            self.big.append(self.done)
                            self.big.append(reader.large_number(p))
                    n += 1
                    self.done += 1
                    df -= 1
                self.term += 1
        if state < 0:
            raise IndexCorruptError("postings of a segment are damaged")
        return n

    @property
    def large(self):
        """Pairs (posting, count) in a row, for counts of 255 and more; whole once `fill` has returned 0."""
        return self.big

    def sizes(self, list blobs):
        """Return where each item of the joined blobs will begin, and where the last ends: an array of uint64.

        `blobs` gives for each reader (offsets, data, bytes of data), or None where its documents have no such item.
        """
        cdef array.array out = array.clone(PLACES, self.documents + 1, True)
        cdef uint64_t* out_p = <uint64_t*>out.data.as_ulonglongs
        cdef Blob* found = self.find_blobs(blobs)
        cdef Py_ssize_t n
        cdef Blob* blob
        for n in range(self.documents):
            blob = &found[self.segments.data.as_uints[n]]
            out_p[n + 1] = out_p[n]
            if blob.offsets != NULL:
                out_p[n + 1] += (
                    blob.offsets[self.docs.data.as_uints[n] + 1] - blob.offsets[self.docs.data.as_uints[n]]
                )
        free(found)
        return out

    def items(self, list blobs, Py_ssize_t first, Py_ssize_t last):
        """Return the items of new documents `first` to `last` (exclusive), end to end."""
        cdef Blob* found
        cdef Py_ssize_t n
        cdef uint64_t a, b, total = 0
        cdef Blob* blob
        cdef array.array out
        cdef Reader reader
        if not 0 <= first <= last <= self.documents:
            raise ValueError(f"there are {self.documents} documents, got {first} to {last}")
        found = self.find_blobs(blobs)
        try:
            for n in range(first, last):
                blob = &found[self.segments.data.as_uints[n]]
                if blob.offsets != NULL:
                    a = blob.offsets[self.docs.data.as_uints[n]]
                    b = blob.offsets[self.docs.data.as_uints[n] + 1]
                    reader = <Reader>self.views[self.segments.data.as_uints[n]]
                    if reader.touch(blob.data + a, b - a) < 0:
                        raise reader.damaged("documents")
                    total += b - a
            out = array.clone(BYTES, total, False)
            total = 0
            for n in range(first, last):
                blob = &found[self.segments.data.as_uints[n]]
                if blob.offsets != NULL:
                    a = blob.offsets[self.docs.data.as_uints[n]]
                    b = blob.offsets[self.docs.data.as_uints[n] + 1]
                    memcpy(out.data.as_uchars + total, blob.data + a, b - a)
                    total += b - a
        finally:
            free(found)
        return out

    def column(self, list places, Py_ssize_t width, bytes default):
        """Return an array's items by new number, `width` bytes each; `places` gives its offset, −1: `default` instead."""
        cdef array.array out = array.clone(BYTES, width * self.documents, False)
        cdef Py_ssize_t n, place
        cdef Reader reader
        cdef const uint8_t* item
        if len(default) != width or len(places) != self.k:
            raise ValueError("the arrays' sizes do not fit each other")
        for i, reader in enumerate(self.readers):
            place = places[i]
            if place >= 0 and <size_t>(place + width * reader.documents) > reader.size:
                raise reader.damaged("documents")
            if place >= 0 and reader.touch(reader.base + place, width * reader.documents) < 0:
                raise reader.damaged("documents")
        for n in range(self.documents):
            place = places[self.segments.data.as_uints[n]]
            item = <const uint8_t*>default
            if place >= 0:
                reader = <Reader>self.views[self.segments.data.as_uints[n]]
                item = reader.base + place + width * <Py_ssize_t>self.docs.data.as_uints[n]
            memcpy(out.data.as_uchars + width * n, item, width)
        return out

    cdef Blob* find_blobs(self, list blobs) except NULL:
        cdef Py_ssize_t i
        cdef Blob* out
        if len(blobs) != self.k:
            raise ValueError("the arrays' sizes do not fit each other")
        out = <Blob*>calloc(self.k + 1, sizeof(Blob))
        if out == NULL:
            raise MemoryError("no memory to merge segments")
        try:
            for i in range(self.k):
                if blobs[i] is not None:
                    find_offsets(<Reader>self.views[i], blobs[i], &out[i])
        except BaseException:
            free(out)
            raise
        return out


cdef int find_offsets(Reader reader, tuple place, Blob* out) except -1:
    """Look up a blob of a segment and check its offsets."""
    cdef Py_ssize_t offsets, data, size, n
    offsets, data, size = place
    if (
        min(offsets, data, size) < 0
        or offsets % 8
        or <size_t>(offsets + 8 * (reader.documents + 1)) > reader.size
        or <size_t>(data + size) > reader.size
        or reader.touch(reader.base + offsets, 8 * (reader.documents + 1)) < 0
    ):
        raise reader.damaged("documents")
    out.offsets = <const uint64_t*>(reader.base + offsets)
    out.data = reader.base + data
    out.size = size
    for n in range(reader.documents):
        if out.offsets[n] > out.offsets[n + 1] or out.offsets[n + 1] > out.size:
            raise reader.damaged("documents")
    return 0


cdef int find_blob(Reader reader, tuple place, Blob* out) except -1:
    """Look up a blob of a segment and check all of it."""
    find_offsets(reader, place, out)
    if reader.touch(out.data, out.size) < 0:
        raise reader.damaged("ids")
    return 0
