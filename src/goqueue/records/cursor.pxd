# C types of cursor.py. Everything that runs once per record is noexcept and needs no GIL.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from goqueue.records.layout cimport (
    BAD_CRC, BAD_FLAGS, BAD_HEADER_COUNT, BAD_HEADER_NAME, BAD_LENGTH, BAD_MAGIC, BAD_OFFSET,
    BAD_PRIORITY, BAD_RESERVED, BAD_TIMESTAMP, BAD_VERSION, CODEC_HEADER, CONTROL_PREFIX,
    DELIVER_HEADER, HAS_HEADERS, HEADER_SIZE, IS_COMMIT, IS_COMPRESSED, IS_CONTROL, IS_DELAYED,
    IS_TOMBSTONE, MAGIC, OFFSET_MAX, OK, PRIORITY_MAX, PROVEN_BITS, RESERVED_BITS,
    SCHEMA_FRAME_BYTES, TRUNCATED, VALUE_MAX, VERSION,
)
from goqueue.records.octets cimport (
    address, begins, carry, context_of, fetch_ahead, hash_of, is_text, is_utf8, load_i64, load_u16, load_u32,
    number_of, put, store_i64, store_u16, store_u32, sum_of, take,
)

cdef Py_ssize_t _GIL_BYTES

@cython.final
cdef class Cursor:
    cdef object _view
    cdef uint8_t *_base
    cdef bint _readonly
    cdef Py_ssize_t size, position, end, count
    cdef int64_t offset, timestamp, due
    cdef uint32_t crc, value_length
    cdef uint16_t key_length, headers_length
    cdef uint8_t flags, priority, proven

    @cython.locals(base="const uint8_t *", magic=uint16_t, version=uint8_t, reserved=uint8_t)
    cdef int hop(self, Py_ssize_t position) noexcept nogil

    @cython.locals(reason=int)
    cdef int skim(self, Py_ssize_t position) noexcept nogil

    @cython.locals(reason=int)
    cdef int rise(self, Py_ssize_t position, int64_t previous) noexcept nogil

    @cython.locals(base="const uint8_t *", rest=Py_ssize_t)
    cdef int _begin(self, Py_ssize_t position) noexcept nogil

    @cython.locals(flags=uint8_t, has_headers=bint, body=Py_ssize_t)
    cdef int _judge(self) noexcept nogil

    @cython.locals(start=Py_ssize_t, proven=uint8_t, reason=int)
    cdef int check(self) noexcept nogil

    @cython.locals(
        base="const uint8_t *", position=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, left=int, length=int, found=int64_t,
    )
    cdef int check_headers(self) noexcept nogil

    @cython.locals(position=Py_ssize_t, reason=int)
    cdef int hop_all(self) noexcept nogil

    cdef int check_all(self, Py_ssize_t start, bint is_stored) noexcept

    @cython.locals(position=Py_ssize_t, previous=int64_t, reason=int)
    cdef int _check_all(self, Py_ssize_t start, bint is_stored) noexcept nogil

    @cython.locals(base="uint8_t *", position=Py_ssize_t)
    cdef void stamp(self, int64_t offset, int64_t timestamp) noexcept nogil

    @cython.locals(base="uint8_t *", position=Py_ssize_t)
    cdef int write(self, bytes key, bytes value, bytes headers) except -1

    @cython.locals(base="uint8_t *", start=Py_ssize_t)
    cdef int open(self, Py_ssize_t key_length, Py_ssize_t value_length, Py_ssize_t headers_length) except -1

    @cython.locals(body=Py_ssize_t, start=Py_ssize_t)
    cdef int seal(self) except -1

    @cython.locals(base="uint8_t *", position=Py_ssize_t, piece=bytes)
    cdef int write_headers(self, list pieces) except -1

    cdef int copy(self, Cursor into) except -1

    @cython.locals(base="uint8_t *", after=Py_ssize_t)
    cdef int lend(self, Py_ssize_t start, Py_ssize_t end, Cursor into) except -1
    cdef int append(self, bytes piece) except -1
    cdef int append_length(self, int length) except -1
    cdef int length_at(self, Py_ssize_t position) except -1
    cdef int64_t hash_between(self, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(number=uint64_t)
    cdef uint64_t fingerprint(self, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    cdef bytes between(self, Py_ssize_t start, Py_ssize_t end)
    cdef bytes context_between(self, Py_ssize_t start, Py_ssize_t end)
    cdef bint has_prefix(self, Py_ssize_t start, Py_ssize_t end, const char *prefix) noexcept

    @cython.locals(start=Py_ssize_t)
    cdef bytes key(self)

    @cython.locals(end=Py_ssize_t)
    cdef bytes value(self)
    cdef bytes headers(self)

    @cython.locals(start=Py_ssize_t)
    cdef int64_t schema_id(self) noexcept nogil

    @cython.locals(size=Py_ssize_t, rest=Py_ssize_t)
    cdef Py_ssize_t given_bytes(self) noexcept nogil

    @cython.locals(start=Py_ssize_t)
    cdef uint32_t hash_key(self) noexcept nogil
    cdef uint32_t hash_all(self) noexcept nogil
    cdef uint32_t sum_all(self) noexcept nogil
    cdef bint is_readonly(self) noexcept nogil
    cdef void release(self)
    cdef object corrupt(self, int reason)
