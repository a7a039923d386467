# The numbers and names of layout.py, as C constants; a test compares the two.

from libc.stdint cimport int64_t

cdef extern from "stdint.h":
    const int64_t OFFSET_MAX "INT64_MAX"

cdef extern from *:
    """
    #define GQ_CONTROL_PREFIX "gq."
    #define GQ_CODEC_HEADER "gq.codec"
    #define GQ_DELIVER_HEADER "gq.deliver-at"
    #define GQ_BATCH_HEADER "gq.batch"
    """
    const char *CONTROL_PREFIX "GQ_CONTROL_PREFIX"
    const char *CODEC_HEADER "GQ_CODEC_HEADER"
    const char *DELIVER_HEADER "GQ_DELIVER_HEADER"
    const char *BATCH_HEADER "GQ_BATCH_HEADER"

cdef enum:
    HEADER_SIZE = 34
    MAGIC = 0x4751
    VERSION = 1
    PRIORITY_MAX = 4
    VALUE_MAX = 16777216
    SCHEMA_FRAME_BYTES = 5

cdef enum:
    OK = 0
    BAD_MAGIC = 1
    BAD_VERSION = 2
    BAD_FLAGS = 3
    BAD_RESERVED = 4
    BAD_PRIORITY = 5
    BAD_LENGTH = 6
    BAD_OFFSET = 7
    BAD_TIMESTAMP = 8
    TRUNCATED = 9
    BAD_CRC = 10
    BAD_HEADER_COUNT = 11
    BAD_HEADER_NAME = 12

cdef enum:
    IS_COMPRESSED = 1
    HAS_HEADERS = 2
    IS_TOMBSTONE = 4
    IS_CONTROL = 8
    IS_COMMIT = 16
    IS_DELAYED = 32
    RESERVED_BITS = 0xC0
    PROVEN_BITS = 0x29
