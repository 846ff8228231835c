# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled inverter: texts to postings. Tokenizing, hashing and counting are one pass without Python objects.

An `Inverter` holds what one thread has read: a vocabulary and, per document, its terms with their counts. `invert`
joins several into the arrays of a segment. It knows nothing of files or scores.
"""

cimport cython
from cpython cimport array
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

from qidf.kernels.scan cimport Batch, Scanner, Tok, batch_free, batch_init, padded_equal, padded_hash, term_hash, utf8

import array

cdef array.array BYTES = array.array("B")
cdef array.array NUMBERS = array.array("I")
cdef array.array PLACES = array.array("Q")

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define QIDF_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define QIDF_PREFETCH(address) ((void)0)
    #endif
    """
    void prefetch "QIDF_PREFETCH" (const void* address) noexcept nogil

cdef enum:
    AHEAD = 8            # tokens: their slots are fetched so far ahead, their terms half as far

cdef struct Term:
    uint64_t first       # its first 8 bytes: most terms are told apart without the arena
    uint64_t at          # bytes into the arena
    uint64_t last        # where the current document's posting stands
    uint32_t length
    uint32_t document    # the last document that holds it, from 1

cdef struct Slot:
    uint32_t tag
    uint32_t term        # from 1; 0 is empty

cdef struct Pair:
    uint32_t term
    uint32_t count

cdef struct Entry:
    uint64_t prefix      # the term's first 8 bytes, big-endian, so that numbers compare as bytes do
    const uint8_t* bytes
    uint32_t length
    uint32_t term


cdef int by_bytes(const void* a, const void* b) noexcept nogil:
    cdef const Entry* x = <const Entry*>a
    cdef const Entry* y = <const Entry*>b
    cdef uint32_t shared
    cdef int c
    if x.prefix != y.prefix:
        return -1 if x.prefix < y.prefix else 1
    shared = x.length if x.length < y.length else y.length
    c = memcmp(x.bytes, y.bytes, shared)
    if c != 0:
        return c
    return (x.length > y.length) - (x.length < y.length)


cdef inline uint64_t big_endian(uint64_t word) noexcept nogil:
    """The eight bytes of `word` in the other order (compilers know this as one instruction)."""
    word = (word & <uint64_t>0x00FF00FF00FF00FF) << 8 | (word >> 8 & <uint64_t>0x00FF00FF00FF00FF)
    word = (word & <uint64_t>0x0000FFFF0000FFFF) << 16 | (word >> 16 & <uint64_t>0x0000FFFF0000FFFF)
    return word << 32 | word >> 32


cdef void sort_entries(Entry* entries, Entry* spare, size_t n) noexcept nogil:
    """Sort by bytes: a radix sort of the prefixes, then whatever shares one."""
    cdef size_t counts[256]
    cdef size_t i, j, total, count
    cdef int shift, digit
    cdef Entry* source = entries
    cdef Entry* target = spare
    cdef Entry* swap
    for shift in range(0, 64, 8):
        memset(counts, 0, sizeof(counts))
        for i in range(n):
            counts[source[i].prefix >> shift & 255] += 1
        total = 0
        for digit in range(256):
            count = counts[digit]
            counts[digit] = total
            total += count
        for i in range(n):
            digit = source[i].prefix >> shift & 255
            target[counts[digit]] = source[i]
            counts[digit] += 1
        swap = source
        source = target
        target = swap
    i = 0            # eight passes: the result is back in `entries`
    while i < n:
        j = i + 1
        while j < n and entries[j].prefix == entries[i].prefix:
            j += 1
        if j - i > 1:
            qsort(&entries[i], j - i, sizeof(Entry), by_bytes)
        i = j


cdef int grow(void** array, size_t* capacity, size_t need, size_t width) noexcept nogil:
    cdef size_t larger
    cdef void* moved
    if need <= capacity[0]:
        return 0
    larger = capacity[0] + capacity[0] // 2
    if larger < need:
        larger = need
    moved = realloc(array[0], larger * width)
    if moved == NULL:
        return -1
    array[0] = moved
    capacity[0] = larger
    return 0


@cython.final
cdef class Inverter:
    """Terms and counts of the documents added so far. One thread at a time; many inverters in parallel."""

    cdef readonly Scanner scanner
    cdef readonly uint64_t seed
    cdef uint8_t* arena
    cdef size_t arena_used, arena_capacity
    cdef Term* terms
    cdef size_t term_count, term_capacity
    cdef Slot* slots
    cdef size_t slot_mask
    cdef Pair* pairs
    cdef size_t pair_count, pair_capacity
    cdef uint64_t* starts        # per document: its first pair
    cdef size_t start_capacity
    cdef uint32_t* lengths       # per document: its tokens
    cdef size_t length_capacity
    cdef size_t document_count
    cdef Entry* entries          # the vocabulary in order, once sorted

    def __cinit__(self, Scanner scanner, seed):
        self.scanner = scanner
        self.seed = seed
        self.arena_capacity = 1 << 16
        self.term_capacity = 1 << 12
        self.pair_capacity = 1 << 14
        self.start_capacity = 1 << 8
        self.length_capacity = 1 << 8
        self.slot_mask = (1 << 13) - 1
        self.arena = <uint8_t*>malloc(self.arena_capacity)
        self.terms = <Term*>malloc(self.term_capacity * sizeof(Term))
        self.slots = <Slot*>calloc(self.slot_mask + 1, sizeof(Slot))
        self.pairs = <Pair*>malloc(self.pair_capacity * sizeof(Pair))
        self.starts = <uint64_t*>malloc(self.start_capacity * sizeof(uint64_t))
        self.lengths = <uint32_t*>malloc(self.length_capacity * sizeof(uint32_t))
        if (
            self.arena == NULL or self.terms == NULL or self.slots == NULL
            or self.pairs == NULL or self.starts == NULL or self.lengths == NULL
        ):
            raise MemoryError("no memory for an inverter")

    def __dealloc__(self):
        free(self.arena)
        free(self.terms)
        free(self.slots)
        free(self.pairs)
        free(self.starts)
        free(self.lengths)
        free(self.entries)

    @property
    def documents(self):
        """Documents added so far."""
        return self.document_count

    @property
    def nbytes(self):
        """Bytes of memory held, and about what `invert` will need on top."""
        return (
            self.arena_used + self.term_count * (sizeof(Term) + 2 * sizeof(Slot) + sizeof(Entry) + 32)
            + self.pair_count * (sizeof(Pair) + 5) + self.document_count * 16
        )

    def add(self, list texts):
        """Add one document for each of `texts` (str), in this order. The GIL is released for the whole batch."""
        cdef Py_ssize_t count = len(texts), i
        cdef list prepared = [self.scanner.prepare(text) for text in texts]
        cdef const uint8_t** data = <const uint8_t**>malloc((count + 1) * sizeof(uint8_t*))
        cdef Py_ssize_t* sizes = <Py_ssize_t*>malloc((count + 1) * sizeof(Py_ssize_t))
        cdef int failed = 0
        cdef Batch batch
        try:
            if data == NULL or sizes == NULL:
                raise MemoryError("no memory for a batch of texts")
            for i in range(count):
                data[i] = utf8(prepared[i], &sizes[i])
            with nogil:
                failed = batch_init(&batch, self.seed)
                i = 0
                while i < count and failed == 0:
                    failed = self.add_one(data[i], sizes[i], &batch)
                    i += 1
                batch_free(&batch)
            if failed:
                raise MemoryError("no memory for the index being built")
        finally:
            free(data)
            free(sizes)

    cdef int add_one(self, const uint8_t* text, Py_ssize_t n, Batch* batch) noexcept nogil:
        cdef Py_ssize_t at = 0
        cdef uint64_t length = 0
        cdef uint32_t serial = <uint32_t>self.document_count + 1
        cdef int i
        cdef uint32_t t
        cdef Tok* tok
        if (
            grow(<void**>&self.starts, &self.start_capacity, self.document_count + 1, sizeof(uint64_t)) < 0
            or grow(<void**>&self.lengths, &self.length_capacity, self.document_count + 1, sizeof(uint32_t)) < 0
        ):
            return -1
        self.starts[self.document_count] = self.pair_count
        while at < n:
            at = self.scanner.scan(text, n, at, batch)
            if at < 0:
                return -1
            for i in range(batch.count):
                tok = &batch.toks[i]
                if i + AHEAD < batch.count:
                    prefetch(&self.slots[tok[AHEAD].hash & self.slot_mask])
                    t = self.slots[tok[AHEAD // 2].hash & self.slot_mask].term
                    if t:
                        prefetch(&self.terms[t - 1])
                if self.count(batch.buffer + tok.at, tok, serial) < 0:
                    return -1
            length += batch.count
        self.lengths[self.document_count] = <uint32_t>length
        self.document_count += 1
        return 0

    cdef inline int count(self, const uint8_t* bytes, const Tok* tok, uint32_t serial) noexcept nogil:
        cdef uint32_t tag = <uint32_t>(tok.hash >> 32)
        cdef size_t slot = tok.hash & self.slot_mask
        cdef uint32_t length = tok.length
        cdef size_t room = (length + 7) & ~<size_t>7
        cdef uint64_t first = (<const uint64_t*>bytes)[0]
        cdef Term* term
        cdef uint32_t t
        while True:
            t = self.slots[slot].term
            if t == 0:
                break
            if self.slots[slot].tag == tag:
                term = &self.terms[t - 1]
                if term.length == length and term.first == first and (
                    length <= 8 or padded_equal(self.arena + term.at + 8, bytes + 8, length - 8)
                ):
                    if term.document == serial:
                        self.pairs[term.last].count += 1
                        return 0
                    return self.post(term, t - 1, serial)
            slot = (slot + 1) & self.slot_mask
        if (
            self.term_count >= <size_t>0xFFFFFFF0
            or grow(<void**>&self.terms, &self.term_capacity, self.term_count + 1, sizeof(Term)) < 0
            or grow(<void**>&self.arena, &self.arena_capacity, self.arena_used + room, 1) < 0
        ):
            return -1
        term = &self.terms[self.term_count]
        term.at = self.arena_used
        term.first = first
        term.length = length
        memcpy(self.arena + self.arena_used, bytes, room)
        self.arena_used += room
        self.term_count += 1
        self.slots[slot].tag = tag
        self.slots[slot].term = <uint32_t>self.term_count
        if self.post(term, <uint32_t>self.term_count - 1, serial) < 0:
            return -1
        if 2 * self.term_count > self.slot_mask:
            return self.rehash()
        return 0

    cdef inline int post(self, Term* term, uint32_t t, uint32_t serial) noexcept nogil:
        if grow(<void**>&self.pairs, &self.pair_capacity, self.pair_count + 1, sizeof(Pair)) < 0:
            return -1
        term.document = serial
        term.last = self.pair_count
        self.pairs[self.pair_count].term = t
        self.pairs[self.pair_count].count = 1
        self.pair_count += 1
        return 0

    cdef int rehash(self) noexcept nogil:
        cdef size_t mask = 4 * (self.slot_mask + 1) - 1
        cdef Slot* larger = <Slot*>calloc(mask + 1, sizeof(Slot))
        cdef size_t i, slot
        cdef uint64_t h
        if larger == NULL:
            return -1
        for i in range(self.term_count):
            h = padded_hash(self.arena + self.terms[i].at, self.terms[i].length, self.seed)
            slot = h & mask
            while larger[slot].term != 0:
                slot = (slot + 1) & mask
            larger[slot].tag = <uint32_t>(h >> 32)
            larger[slot].term = <uint32_t>i + 1
        free(self.slots)
        self.slots = larger
        self.slot_mask = mask
        return 0

    def sort(self):
        """Put the vocabulary in order; nothing may be added afterwards. The GIL is released."""
        cdef size_t i
        cdef Entry* entry
        cdef Entry* spare
        if self.entries != NULL:
            return
        self.entries = <Entry*>malloc((self.term_count + 1) * sizeof(Entry))
        spare = <Entry*>malloc((self.term_count + 1) * sizeof(Entry))
        if self.entries == NULL or spare == NULL:
            free(spare)
            raise MemoryError("no memory to sort the vocabulary")
        with nogil:
            for i in range(self.term_count):
                entry = &self.entries[i]
                entry.bytes = self.arena + self.terms[i].at
                entry.length = self.terms[i].length
                entry.term = <uint32_t>i
                entry.prefix = big_endian((<const uint64_t*>entry.bytes)[0]) if entry.length else 0
            sort_entries(self.entries, spare, self.term_count)
            free(spare)


def invert(list inverters, const uint32_t[::1] order):
    """Join `inverters` into the arrays of a segment.

    `order[d]` is the serial number of the document that becomes number d: documents are counted through the inverters
    in turn. Returns a dict of buffers by the names of `qidf.index.segment` (without the field), with `tokens`
    and `hapax` (terms with df = 1) as ints.
    """
    cdef Py_ssize_t k = len(inverters), i
    cdef size_t documents = 0, pairs = 0, bytes = 0, most = 0, t
    cdef Inverter inv
    for inv in inverters:
        inv.sort()
        documents += inv.document_count
        pairs += inv.pair_count
        bytes += inv.arena_used
        most += inv.term_count
    if <size_t>order.shape[0] != documents:
        raise ValueError(f"order must name {documents} documents, got {order.shape[0]}")

    # 1. one vocabulary out of k sorted ones
    data_array = array.clone(BYTES, bytes, False)
    offsets_array = array.clone(PLACES, most + 1, False)
    cdef uint8_t[::1] data = data_array
    cdef uint64_t[::1] offsets = offsets_array
    cdef uint32_t** maps = <uint32_t**>calloc(k + 1, sizeof(uint32_t*))
    cdef size_t* heads = <size_t*>calloc(k + 1, sizeof(size_t))
    cdef uint32_t* first = <uint32_t*>calloc(k + 1, sizeof(uint32_t))
    cdef void** views = <void**>calloc(k + 1, sizeof(void*))
    cdef Entry* best
    cdef Entry* head
    cdef size_t terms = 0, used = 0, mask, slot, p, q, large = 0, tokens = 0, hapax = 0, df
    cdef int c
    cdef uint64_t h
    cdef uint32_t count, serial, d
    cdef bint memory = maps != NULL and heads != NULL and first != NULL and views != NULL
    try:
        for i in range(k):
            inv = inverters[i]
            views[i] = <void*>inv
            maps[i] = <uint32_t*>malloc((inv.term_count + 1) * sizeof(uint32_t))
            memory = memory and maps[i] != NULL
            first[i + 1] = first[i] + <uint32_t>inv.document_count
        if not memory:
            raise MemoryError("no memory to join the vocabularies")
        with nogil:
            while True:
                best = NULL
                for i in range(k):
                    if heads[i] < (<Inverter>views[i]).term_count:
                        head = &(<Inverter>views[i]).entries[heads[i]]
                        if best == NULL or by_bytes(head, best) < 0:
                            best = head
                if best == NULL:
                    break
                if best.length:
                    memcpy(&data[used], best.bytes, best.length)
                offsets[terms] = used
                used += best.length
                for i in range(k - 1, -1, -1):
                    if heads[i] < (<Inverter>views[i]).term_count:
                        head = &(<Inverter>views[i]).entries[heads[i]]
                        if head == best or by_bytes(head, best) == 0:
                            maps[i][head.term] = <uint32_t>terms
                            heads[i] += 1
                terms += 1
            offsets[terms] = used

        # 2. document frequencies, then every posting in its place
        starts_array = array.clone(PLACES, terms + 1, True)
        cursor_array = array.clone(PLACES, terms + 1, False)
        docs_array = array.clone(NUMBERS, pairs, False)
        counts_array = array.clone(BYTES, pairs, False)
        lengths_array = array.clone(NUMBERS, documents, False)
        mask = 1
        while mask < terms + terms // 2 + 1:
            mask *= 2
        slots_array = array.clone(NUMBERS, 2 * mask, True)
        large_pairs = []
    except BaseException:
        for i in range(k):
            free(maps[i])
        free(maps)
        free(heads)
        free(first)
        free(views)
        raise
    mask -= 1
    cdef uint64_t[::1] starts = starts_array
    cdef uint64_t[::1] cursor = cursor_array
    cdef uint32_t[::1] docs = docs_array
    cdef uint8_t[::1] counts = counts_array
    cdef uint32_t[::1] lengths = lengths_array
    cdef uint32_t[::1] slots = slots_array
    cdef Pair* pair
    cdef Pair* stop
    try:
        with nogil:
            for i in range(k):
                pair = (<Inverter>views[i]).pairs
                stop = pair + (<Inverter>views[i]).pair_count
                while pair < stop:
                    starts[maps[i][pair.term] + 1] += 1
                    pair += 1
            for t in range(terms):
                hapax += starts[t + 1] == 1
                cursor[t] = starts[t]
                starts[t + 1] += starts[t]
            for d in range(<uint32_t>documents):
                serial = order[d]
                i = 0
                while i + 1 < k and serial >= first[i + 1]:
                    i += 1
                if serial >= first[k]:
                    continue
                serial -= first[i]
                lengths[d] = (<Inverter>views[i]).lengths[serial]
                tokens += lengths[d]
                pair = (<Inverter>views[i]).pairs + (<Inverter>views[i]).starts[serial]
                if serial + 1 < (<Inverter>views[i]).document_count:
                    stop = (<Inverter>views[i]).pairs + (<Inverter>views[i]).starts[serial + 1]
                else:
                    stop = (<Inverter>views[i]).pairs + (<Inverter>views[i]).pair_count
                while pair < stop:
                    t = maps[i][pair.term]
                    p = cursor[t]
                    if p >= starts[t + 1]:       # only if a document is named twice
                        break
                    cursor[t] = p + 1
                    docs[p] = d
                    if pair.count < 255:
                        counts[p] = <uint8_t>pair.count
                    else:
                        counts[p] = 255
                        with gil:
                            large_pairs.append((p, pair.count))
                    pair += 1
            # 3. the hash table of terms: pairs of (tag, term + 1)
            for t in range(terms):
                h = term_hash(&data[offsets[t]] if used else NULL, offsets[t + 1] - offsets[t], (<Inverter>views[0]).seed)
                slot = h & mask
                while slots[2 * slot + 1] != 0:
                    slot = (slot + 1) & mask
                slots[2 * slot] = <uint32_t>(h >> 32)
                slots[2 * slot + 1] = <uint32_t>t + 1
    finally:
        for i in range(k):
            free(maps[i])
        free(maps)
        free(heads)
        free(first)
        free(views)
    large_pairs.sort()
    return {
        "lengths": lengths_array,
        "terms.data": memoryview(data_array)[:used],
        "terms.offsets": memoryview(offsets_array)[: terms + 1],
        "terms.slots": slots_array,
        "postings.offsets": starts_array,
        "postings.docs": docs_array,
        "postings.counts": counts_array,
        "postings.large": in_a_row(large_pairs),
        "tokens": tokens,
        "hapax": hapax,
    }


cdef object in_a_row(list pairs):
    return array.array("Q", [number for pair in pairs for number in pair])
