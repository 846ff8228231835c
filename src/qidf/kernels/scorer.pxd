# cython: language_level=3
"""What the compiled reader offers to the other kernels."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from libc.string cimport memcmp

cdef enum:
    BAD = -1

cdef inline int by_bytes(const uint8_t* a, size_t n, const uint8_t* b, size_t m) noexcept nogil:
    """How two byte strings compare: below, at or above 0."""
    cdef int c = memcmp(a, b, n if n < m else m)
    if c != 0:
        return c
    return (n > m) - (n < m)

cdef int touch_pages(
    const uint8_t* base, size_t pages, const uint64_t* sums, uint8_t* seen, const void* start, size_t length
) noexcept nogil

@cython.final
cdef class Reader:
    cdef readonly Py_ssize_t documents
    cdef readonly Py_ssize_t terms
    cdef readonly Py_ssize_t postings
    cdef readonly str name
    cdef readonly Py_ssize_t deleted
    cdef Py_buffer view
    cdef bint viewed
    cdef const uint8_t* base
    cdef size_t size
    cdef uint64_t seed
    cdef const uint64_t* sums
    cdef size_t pages
    cdef uint8_t* seen
    cdef const uint8_t* term_data
    cdef size_t term_bytes
    cdef const uint64_t* term_offsets
    cdef const uint32_t* slots
    cdef size_t slot_mask
    cdef const uint64_t* posting_offsets
    cdef const uint32_t* docs
    cdef const uint8_t* counts
    cdef const uint64_t* large
    cdef size_t large_count
    cdef const uint32_t* lengths
    cdef double* scratch         # scores by document, all zero while nobody holds them
    cdef uint8_t* dead           # 1 for each document that was deleted; NULL if none was
    cdef uint32_t* lost_terms    # the terms that stood in them, ascending
    cdef uint32_t* lost          # and in how many of them
    cdef size_t lost_count

    cdef int touch(self, const void* start, size_t length) noexcept nogil
    cdef object damaged(self, str what)
    cdef const uint8_t* item(
        self, const uint64_t* places, const uint8_t* data, size_t size, size_t n, size_t* length
    ) noexcept nogil
    cdef int64_t find(self, const uint8_t* term, size_t length) noexcept nogil
    cdef int span(self, int64_t ordinal, size_t* start, size_t* stop) noexcept nogil
    cdef int64_t live(self, int64_t ordinal) noexcept nogil
    cdef uint64_t large_number(self, size_t posting) noexcept nogil
    cdef const uint8_t* place(self, dict arrays, str name, size_t width, Py_ssize_t count) except NULL
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
    ) noexcept nogil
