# cython: language_level=3
"""What the other kernels share: tokens in a batch, the term hash, the scanner."""

cimport cython
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef struct Tok:
    Py_ssize_t start     # bytes into the text
    Py_ssize_t end
    size_t at            # bytes into Batch.buffer: the term, lowercased, zeros up to a multiple of 8
    uint64_t hash        # of the term, with Batch.seed
    uint32_t length      # bytes of the term
    uint32_t part        # 1 for a part that `code` adds

cdef struct Batch:
    Tok* toks
    int count
    uint8_t* buffer
    size_t used
    size_t capacity
    uint64_t seed

cdef int batch_init(Batch* batch, uint64_t seed) noexcept nogil
cdef void batch_free(Batch* batch) noexcept nogil

cdef enum:
    BATCH_STOP = 512     # a scan returns once it holds so many tokens
    BATCH_SIZE = 1024    # room for the parts of one more identifier

cdef inline uint64_t term_hash(const uint8_t* term, size_t length, uint64_t seed) noexcept nogil:
    """The hash of a term's UTF-8 bytes; `twin.term_hash` says the same in Python."""
    cdef uint64_t h = seed ^ (length * <uint64_t>0x9E3779B97F4A7C15)
    cdef uint64_t word
    while length >= 8:
        memcpy(&word, term, 8)
        h = (h ^ word) * <uint64_t>0xBF58476D1CE4E5B9
        h ^= h >> 32
        term += 8
        length -= 8
    if length:
        word = 0
        memcpy(&word, term, length)
        h = (h ^ word) * <uint64_t>0xBF58476D1CE4E5B9
        h ^= h >> 32
    h *= <uint64_t>0x94D049BB133111EB
    return h ^ (h >> 29)

cdef inline uint64_t padded_hash(const uint8_t* term, size_t length, uint64_t seed) noexcept nogil:
    """`term_hash` of a term that zeros follow up to a multiple of 8 bytes, at such an address."""
    cdef uint64_t h = seed ^ (length * <uint64_t>0x9E3779B97F4A7C15)
    cdef size_t i
    for i in range((length + 7) // 8):
        h = (h ^ (<const uint64_t*>term)[i]) * <uint64_t>0xBF58476D1CE4E5B9
        h ^= h >> 32
    h *= <uint64_t>0x94D049BB133111EB
    return h ^ (h >> 29)

cdef inline bint padded_equal(const uint8_t* a, const uint8_t* b, size_t length) noexcept nogil:
    """Whether two such terms of the same length are the same."""
    cdef size_t i
    for i in range((length + 7) // 8):
        if (<const uint64_t*>a)[i] != (<const uint64_t*>b)[i]:
            return False
    return True

cdef inline Py_ssize_t code_points(const uint8_t* text, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    """Count the code points of `text[start:end]`."""
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t i
    for i in range(start, end):
        count += (text[i] & 0xC0) != 0x80
    return count

@cython.final
cdef class Scanner:
    cdef readonly str name
    cdef int kind
    cdef uint8_t* classes
    cdef int32_t* lower
    cdef uint8_t ascii_class[128]
    cdef bint direct                 # whether `after` holds
    cdef uint8_t after[256]          # the state after a run of plain bytes that ends in this one
    cdef uint8_t transitions[128 * 64]
    cdef uint8_t accept[128]
    cdef tuple stop_words
    cdef const uint8_t* stop[64]
    cdef uint8_t stop_length[64]
    cdef uint64_t stops_by_byte[256]      # by first byte: a bit for each stop word

    cdef Py_ssize_t scan(self, const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Batch* out) noexcept nogil
    cdef void plain_runs(self)
    cdef uint8_t kind_at(self, const uint8_t* p, int* width) noexcept nogil
    cdef int emit(self, const uint8_t* text, Py_ssize_t start, Py_ssize_t end, uint32_t part, Batch* out) noexcept nogil
    cdef int emit_plain(
        self, const uint8_t* text, Py_ssize_t n, Py_ssize_t start, Py_ssize_t end, uint32_t part, Batch* out
    ) noexcept nogil
    cdef void stop_last(self, Batch* out) noexcept nogil
    cdef Py_ssize_t scan_standard(self, const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Batch* out) noexcept nogil
    cdef Py_ssize_t scan_runs(self, const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Batch* out) noexcept nogil
    cdef Py_ssize_t scan_code(self, const uint8_t* text, Py_ssize_t n, Py_ssize_t at, Batch* out) noexcept nogil
    cdef object prepare(self, str text)

cdef const uint8_t* utf8(object text, Py_ssize_t* n) except NULL
