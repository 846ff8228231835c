# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled look-up of an identifier dictionary: from words to the terms that are made of them, heaviest first.

Everything is read straight from the map. A page is checked against its checksum when it is first touched, and every
number before it is used. The formula stands in `related`; what the arrays hold, in `qidf.expansion.dictionary`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from qidf.kernels.scorer cimport by_bytes, touch_pages

from qidf.errors import DictionaryCorruptError

cdef enum:
    PART_ENDS = 0x1F
    PARTS_FOLLOW = 0x1E
    SHORT = 512          # bytes of a term that need no memory of their own
    MASKED = 64          # parts whose terms are marked; of more, the lists are looked through

cdef struct Sum:
    double total             # of the weights, at last the term's own
    uint64_t which           # of the first parts
    uint32_t number
    uint16_t held            # how many parts; 0 where the slot is free
    uint16_t group


cdef inline Sum* slot(Sum* sums, size_t mask, uint32_t number) noexcept nogil:
    """The slot of a term in a table that is a quarter empty, taken for it if it has none."""
    cdef size_t at = (number * <uint64_t>0x9E3779B97F4A7C15 >> 32) & mask
    while sums[at].held and sums[at].number != number:
        at = (at + 1) & mask
    sums[at].number = number
    return sums + at


cdef inline bint lower(const Sum* a, const Sum* b) noexcept nogil:
    """Whether term a ranks behind term b."""
    return a.total < b.total or (a.total == b.total and a.number > b.number)


cdef inline bint holds(const uint32_t* numbers, Py_ssize_t count, uint32_t number) noexcept nogil:
    """Whether an ascending list holds a number."""
    cdef Py_ssize_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low < count and numbers[low] == number


@cython.final
cdef class Lookup:
    """The terms of a dictionary in a buffer (a map of its file).

    `arrays` gives (offset in bytes, number of items) of each array by name; terms of `sizes[i]` different parts begin at
    number `starts[i]`. The caller has checked the footer that they come from. DictionaryCorruptError where a page is not what
    was written.
    """

    cdef Py_buffer view
    cdef bint viewed
    cdef str name
    cdef const uint8_t* base
    cdef size_t size, pages, terms, parts, term_bytes, part_bytes, list_bytes, groups
    cdef const uint64_t* sums
    cdef uint8_t* seen
    cdef const uint8_t* term_data
    cdef const uint32_t* term_offsets
    cdef const uint8_t* part_data
    cdef const uint64_t* part_offsets
    cdef const uint32_t* part_docs
    cdef const uint8_t* list_data
    cdef const uint64_t* list_offsets
    cdef uint64_t* starts
    cdef uint64_t* sizes
    cdef Sum* table
    cdef size_t room

    def __cinit__(self, buffer, str name, dict arrays, list starts, list sizes):
        cdef size_t i
        self.viewed = False
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.viewed = True
        self.base = <const uint8_t*>self.view.buf
        self.size = self.view.len
        self.name = name
        self.pages = arrays["pages"][1]
        self.sums = <const uint64_t*>self.place(arrays, "pages", 8)
        self.seen = <uint8_t*>calloc(self.pages + 1, 1)
        self.groups = len(starts)
        self.starts = <uint64_t*>malloc((self.groups + 1) * sizeof(uint64_t))
        self.sizes = <uint64_t*>malloc((self.groups + 1) * sizeof(uint64_t))
        if self.seen == NULL or self.starts == NULL or self.sizes == NULL:
            raise MemoryError("no memory for the state of the pages")
        for i in range(self.groups):
            self.starts[i] = starts[i]
            self.sizes[i] = sizes[i]
        self.terms = arrays["terms.slots"][1] - 1
        self.parts = arrays["parts.offsets"][1] - 1
        if arrays["lists.offsets"][1] != self.parts + 1 or arrays["parts.docs"][1] != self.parts:
            raise self.damaged("its arrays do not fit each other")
        self.term_bytes = arrays["terms.data"][1]
        self.term_data = self.place(arrays, "terms.data", 1)
        self.term_offsets = <const uint32_t*>self.place(arrays, "terms.slots", 4)
        self.part_bytes = arrays["parts.data"][1]
        self.part_data = self.place(arrays, "parts.data", 1)
        self.part_offsets = <const uint64_t*>self.place(arrays, "parts.offsets", 8)
        self.part_docs = <const uint32_t*>self.place(arrays, "parts.docs", 4)
        self.list_bytes = arrays["lists.data"][1]
        self.list_data = self.place(arrays, "lists.data", 1)
        self.list_offsets = <const uint64_t*>self.place(arrays, "lists.offsets", 8)

    def __dealloc__(self):
        free(self.seen)
        free(self.starts)
        free(self.sizes)
        free(self.table)
        if self.viewed:
            PyBuffer_Release(&self.view)

    cdef const uint8_t* place(self, dict arrays, str name, size_t width) except NULL:
        offset, items = arrays[name]
        if items < 0 or offset < 0 or offset % width or offset + items * width > self.size:
            raise self.damaged(f"array {name} does not fit")
        return self.base + <size_t>offset

    cdef object damaged(self, str why):
        return DictionaryCorruptError(f"{self.name} is damaged: {why}")

    cdef int touch(self, const void* start, size_t length) noexcept nogil:
        return touch_pages(self.base, self.pages, self.sums, self.seen, start, length)

    cdef const uint8_t* span(
        self, const uint64_t* offsets, const uint8_t* data, size_t size, size_t n, size_t* length
    ) noexcept nogil:
        """Item n of a blob of `size` bytes; its bytes are not checked yet. NULL where it is not what was written."""
        if self.touch(offsets + n, 16) < 0 or offsets[n] > offsets[n + 1] or offsets[n + 1] > size:
            return NULL
        length[0] = offsets[n + 1] - offsets[n]
        return data + offsets[n]

    cdef int64_t find(self, const uint8_t* word, size_t length) noexcept nogil:
        cdef size_t low = 0, high = self.parts, middle, n = 0
        cdef const uint8_t* found
        cdef int c
        while low < high:
            middle = (low + high) // 2
            found = self.span(self.part_offsets, self.part_data, self.part_bytes, middle, &n)
            if found == NULL or self.touch(found, n) < 0:
                return -2
            c = by_bytes(found, n, word, length)
            if c == 0:
                return middle
            if c < 0:
                low = middle + 1
            else:
                high = middle
        return -1

    cdef Py_ssize_t read_list(self, int64_t part, uint32_t* out, Py_ssize_t most) noexcept nogil:
        """The first `most` numbers of a part's list, how many there are of them; -1 where it is not what was written."""
        cdef size_t n = 0, at = 0
        cdef uint64_t number = 0, gap
        cdef int shift
        cdef Py_ssize_t count = 0
        cdef const uint8_t* data
        cdef uint8_t byte
        if part < 0 or part >= <int64_t>self.parts:
            return -1
        data = self.span(self.list_offsets, self.list_data, self.list_bytes, part, &n)
        if data == NULL or self.touch(data, n if n < <size_t>(5 * most) else <size_t>(5 * most)) < 0:
            return -1
        while at < n and count < most:
            gap = 0
            shift = 0
            while True:
                if at >= n or shift > 28:
                    return -1
                byte = data[at]
                at += 1
                gap |= <uint64_t>(byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            number += gap
            if number >= self.terms:
                return -1
            out[count] = number
            count += 1
            number += 1
        return count

    def ordinals(self, list words):
        """Return the number of each word among the parts, -1 for one that is none."""
        cdef bytes word
        cdef int64_t found
        out = []
        for word in words:
            found = self.find(<const uint8_t*><const char*>word, len(word))
            if found < -1:
                raise self.damaged("its parts are not what was written")
            out.append(found)
        return out

    def df(self, int64_t ordinal):
        """Return how many documents hold a part."""
        if ordinal < 0 or ordinal >= <int64_t>self.parts or self.touch(self.part_docs + ordinal, 4) < 0:
            raise self.damaged("its parts are not what was written")
        return self.part_docs[ordinal]

    def terms_of(self, int64_t ordinal, Py_ssize_t most):
        """Return the numbers of the first terms that hold a part."""
        cdef Py_ssize_t count, i
        cdef uint32_t* out = <uint32_t*>malloc((most + 1) * sizeof(uint32_t))
        if out == NULL:
            raise MemoryError("no memory for a list")
        try:
            count = self.read_list(ordinal, out, most)
            if count < 0:
                raise self.damaged("a list is not what was written")
            return [out[i] for i in range(count)]
        finally:
            free(out)

    cdef const uint8_t* term(self, size_t number, size_t* length) except NULL:
        cdef const uint32_t* at = self.term_offsets + number
        if number >= self.terms or self.touch(at, 8) < 0 or at[0] > at[1] or at[1] > self.term_bytes:
            raise self.damaged("its terms are not what was written")
        if self.touch(self.term_data + at[0], at[1] - at[0]) < 0:
            raise self.damaged("its terms are not what was written")
        length[0] = at[1] - at[0]
        return self.term_data + at[0]

    def packed(self, size_t number):
        """Return a term with its marks, as it stands in the file."""
        cdef size_t n = 0
        cdef const uint8_t* data = self.term(number, &n)
        return (<const char*>data)[:n]

    cdef str text(self, size_t number):
        """A term without its marks."""
        cdef size_t n = 0, i, used = 0
        cdef const uint8_t* data = self.term(number, &n)
        cdef char[SHORT] small
        cdef char* out = &small[0]
        if n > SHORT:
            out = <char*>malloc(n)
            if out == NULL:
                raise MemoryError("no memory for a term")
        try:
            for i in range(n):
                if data[i] == PARTS_FOLLOW:
                    break
                if data[i] != PART_ENDS:
                    out[used] = data[i]
                    used += 1
            return PyUnicode_DecodeUTF8(out, used, "surrogatepass")
        except UnicodeDecodeError:
            raise self.damaged("a term is no text") from None
        finally:
            if n > SHORT:
                free(out)

    def related(self, list words, list ordinals, list weights, Py_ssize_t read, Py_ssize_t most):
        """Return the `most` terms with the highest k/n · Σ weight, best first, ties in the order of their numbers.

        Σ is over those k of the given parts that a term holds, n are its different parts. Of each part's list the first
        `read` terms are looked at. Each comes as (term, those of `words` that it holds, n, number), the number -1 where no
        list that was read in part could have named it.
        """
        cdef Py_ssize_t given = len(ordinals), i, j, at, group, found = 0, entries = 0, room = read + 1
        cdef size_t mask = 0
        cdef uint32_t* numbers = NULL               # room for each part: one more tells whether its list goes on
        cdef Py_ssize_t* counts = NULL
        cdef Sum* sums = NULL
        cdef Sum* best = NULL
        cdef Sum* one
        cdef uint32_t number
        cdef uint64_t known = <uint64_t>-1          # beyond it a list that was read in part may say more
        cdef double weight
        if not given or most < 1 or read < 1:
            return []
        numbers = <uint32_t*>malloc(given * room * sizeof(uint32_t))
        counts = <Py_ssize_t*>calloc(given, sizeof(Py_ssize_t))
        best = <Sum*>malloc(most * sizeof(Sum))
        try:
            if numbers == NULL or counts == NULL or best == NULL:
                raise MemoryError("no memory for a look-up")
            for i in range(given):
                counts[i] = self.read_list(ordinals[i], numbers + i * room, room)
                if counts[i] < 0:
                    raise self.damaged("a list is not what was written")
                if counts[i] == room:
                    counts[i] = read
                    if numbers[i * room + read - 1] < known:
                        known = numbers[i * room + read - 1]
                entries += counts[i]
            while mask < <size_t>(entries + entries // 3):
                mask = 2 * mask + 1
            if mask >= self.room:           # kept; nothing is made in Python while it is read, so one thread has it
                free(self.table)
                self.room = 0
                self.table = <Sum*>malloc((mask + 1) * sizeof(Sum))
                if self.table == NULL:
                    raise MemoryError("no memory for a look-up")
                self.room = mask + 1
            sums = self.table
            memset(sums, 0, (mask + 1) * sizeof(Sum))
            for i in range(given):
                weight = weights[i]
                group = 0
                for j in range(counts[i]):
                    number = numbers[i * room + j]
                    while group + 1 < <Py_ssize_t>self.groups and self.starts[group + 1] <= number:
                        group += 1
                    one = slot(sums, mask, number)
                    one.total += weight
                    one.held += 1
                    one.group = group
                    if i < MASKED:
                        one.which |= <uint64_t>1 << i
            for at in range(<Py_ssize_t>mask + 1):
                one = sums + at
                if one.held:
                    one.total = one.held * one.total / <double>self.sizes[one.group]
                    if found < most or lower(&best[found - 1], one):
                        j = found if found < most else most - 1
                        while j > 0 and lower(&best[j - 1], one):
                            best[j] = best[j - 1]
                            j -= 1
                        best[j] = one[0]
                        found += found < most
            out = []
            for j in range(found):
                one = &best[j]
                held = []
                for i in range(given):
                    if one.which >> i & 1 if i < MASKED else holds(numbers + i * room, counts[i], one.number):
                        held.append(words[i])
                out.append(
                    (
                        self.text(one.number),
                        tuple(held),
                        self.sizes[one.group],
                        -1 if one.number <= known else <int64_t>one.number,
                    )
                )
            return out
        finally:
            free(numbers)
            free(counts)
            free(best)
