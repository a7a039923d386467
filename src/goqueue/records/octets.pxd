from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "octets.h" nogil:
    uint16_t load_u16 "gq_load_16" (const uint8_t *base, Py_ssize_t position)
    uint32_t load_u32 "gq_load_32" (const uint8_t *base, Py_ssize_t position)
    int64_t load_i64 "gq_load_64" (const uint8_t *base, Py_ssize_t position)
    void store_u16 "gq_store_16" (uint8_t *base, Py_ssize_t position, uint16_t number)
    void store_u32 "gq_store_32" (uint8_t *base, Py_ssize_t position, uint32_t number)
    void store_i64 "gq_store_64" (uint8_t *base, Py_ssize_t position, int64_t number)
    void fetch_ahead "gq_fetch_ahead" (const uint8_t *base, Py_ssize_t position, Py_ssize_t end, Py_ssize_t size)
    bint begins "gq_begins" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end, const char *text)
    bint is_text "gq_is_text" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end, const char *text)
    bint is_utf8 "gq_is_utf8" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end)
    int64_t number_of "gq_number" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end)
    Py_ssize_t gq_digits(uint8_t *bytes, int64_t number)
    bint gq_traceparent(const uint8_t *bytes, Py_ssize_t start, Py_ssize_t end, uint8_t *context)
    uint32_t hash_of "gq_murmur3" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end)

cdef extern from "castagnoli.h" nogil:
    uint32_t sum_of "gq_crc32c" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end)

cdef extern from "json_text.h" nogil:
    const Py_ssize_t SLACK_BYTES "GQ_SLACK_BYTES"
    Py_ssize_t json_size "gq_json_size" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end)
    Py_ssize_t base64_size "gq_base64_size" (Py_ssize_t size)
    Py_ssize_t put_string "gq_put_string" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size, uint8_t *into, Py_ssize_t position)
    Py_ssize_t put_base64 "gq_put_base64" (const uint8_t *base, Py_ssize_t start, Py_ssize_t end, uint8_t *into, Py_ssize_t position)
    Py_ssize_t gq_put_digits(uint8_t *into, Py_ssize_t position, int64_t number)
    Py_ssize_t gq_put_hex(uint8_t *into, Py_ssize_t position, uint64_t number)
    Py_ssize_t gq_put_decimals(uint8_t *into, Py_ssize_t position, int64_t fraction)

cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object view)

cdef inline uint8_t *address(object view):
    return <uint8_t *> PyMemoryView_GET_BUFFER(view).buf

cdef inline uint8_t *room_of(bytearray buffer) noexcept:
    return <uint8_t *> PyByteArray_AS_STRING(buffer)

cdef inline int resize(bytearray buffer, Py_ssize_t size) except -1:
    return PyByteArray_Resize(buffer, size)

cdef inline bytes take(const uint8_t *base, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char *> base + start, end - start)

cdef inline uint32_t hash_bytes(bytes data) noexcept:
    return hash_of(<const uint8_t *> PyBytes_AS_STRING(data), 0, PyBytes_GET_SIZE(data))

cdef inline bytes digits_of(int64_t number):
    cdef uint8_t[19] digits
    return take(digits, gq_digits(digits, number), 19)

cdef inline bytes context_of(const uint8_t *base, Py_ssize_t start, Py_ssize_t end):
    cdef uint8_t[25] context
    return take(context, 0, 25 if gq_traceparent(base, start, end, context) else 0)

cdef inline Py_ssize_t put(uint8_t *base, Py_ssize_t position, bytes source) noexcept:
    memcpy(base + position, PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source))
    return position + PyBytes_GET_SIZE(source)

cdef inline void carry(const uint8_t *base, Py_ssize_t start, Py_ssize_t end, uint8_t *into, Py_ssize_t position) noexcept nogil:
    memcpy(into + position, base + start, end - start)

cdef inline Py_ssize_t put_number(uint8_t *into, Py_ssize_t position, bytes before, int64_t number, bytes after) noexcept:
    return put(into, gq_put_digits(into, put(into, position, before), number), after)

cdef inline Py_ssize_t put_trace(uint8_t *into, Py_ssize_t position, bytes before, uint64_t high, uint64_t low, bytes after) noexcept:
    return put(into, gq_put_hex(into, gq_put_hex(into, put(into, position, before), high), low), after)

cdef inline Py_ssize_t put_moment(uint8_t *into, Py_ssize_t position, bytes second, int64_t fraction, bytes after) noexcept:
    return put(into, gq_put_decimals(into, put(into, position, second), fraction), after)
