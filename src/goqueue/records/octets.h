/* Big-endian numbers, text and hashes at a position of a buffer. Callers have checked the bounds. */
#ifndef GOQUEUE_OCTETS_H
#define GOQUEUE_OCTETS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define GQ_BIG(bits, value) __builtin_bswap##bits(value)
#else
#define GQ_BIG(bits, value) (value)
#endif

#define GQ_AHEAD 8      /* Records. */
#define GQ_FORESEEN 256 /* Bytes from header to header that the processor foresees by itself. */

#define GQ_OCTETS(bits)                                                                      \
    static inline uint##bits##_t gq_load_##bits(const uint8_t *bytes, ptrdiff_t position) {  \
        uint##bits##_t value;                                                                \
        memcpy(&value, bytes + position, sizeof value);                                      \
        return GQ_BIG(bits, value);                                                          \
    }                                                                                        \
    static inline void gq_store_##bits(uint8_t *bytes, ptrdiff_t position,                   \
                                       uint##bits##_t value) {                               \
        value = GQ_BIG(bits, value);                                                         \
        memcpy(bytes + position, &value, sizeof value);                                      \
    }

GQ_OCTETS(16)
GQ_OCTETS(32)
GQ_OCTETS(64)

/* Ask for a header some records on, so that a pass over headers does not wait for memory at
 * every hop. The next records are taken to be as long as this one: a wrong guess only fetches
 * in vain, and one past the end is not made. */
static inline void gq_fetch_ahead(const uint8_t *bytes, ptrdiff_t position, ptrdiff_t end,
                                  ptrdiff_t size) {
    ptrdiff_t length = end - position;
    ptrdiff_t guess = position + GQ_AHEAD * length;
    if (length > GQ_FORESEEN && guess < size)
        __builtin_prefetch(bytes + guess);
}

/* Whether bytes[start:end] begins with `text`. For a literal the compiler makes its length and
 * the comparison constant. */
static inline int gq_begins(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end,
                            const char *text) {
    ptrdiff_t size = (ptrdiff_t)strlen(text);
    return end - start >= size && memcmp(bytes + start, text, (size_t)size) == 0;
}

static inline int gq_is_text(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end,
                             const char *text) {
    return end - start == (ptrdiff_t)strlen(text) && gq_begins(bytes, start, end, text);
}

/* The length of the UTF-8 sequence that begins at `start`, as Python's strict decoder sees it:
 * shortest forms only, no surrogates, nothing past U+10FFFF; 0 if there is none. */
static inline ptrdiff_t gq_utf8_length(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    uint8_t lead = bytes[start];
    if (lead < 0x80)
        return 1;
    ptrdiff_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || end - start < length)
        return 0;
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (bytes[start + 1] < low || bytes[start + 1] > high)
        return 0;
    for (ptrdiff_t index = 2; index < length; index++)
        if (bytes[start + index] < 0x80 || bytes[start + index] > 0xbf)
            return 0;
    return length;
}

static inline int gq_is_utf8(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    while (start < end) {
        /* Most text is ASCII: eight bytes at once have no high bit. */
        while (end - start >= 8 && !(gq_load_64(bytes, start) & 0x8080808080808080u))
            start += 8;
        if (start == end)
            break;
        ptrdiff_t length = gq_utf8_length(bytes, start, end);
        if (length == 0)
            return 0;
        start += length;
    }
    return 1;
}

/* The number that bytes[start:end] writes in decimal digits; -1 if it is not that, or too large. */
static inline int64_t gq_number(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    uint64_t number = 0;
    if (end - start < 1 || end - start > 19)
        return -1;
    for (; start < end; start++) {
        uint8_t digit = (uint8_t)(bytes[start] - '0');
        if (digit > 9)
            return -1;
        number = number * 10 + digit;
    }
    return number > INT64_MAX ? -1 : (int64_t)number;
}

/* The decimal digits of a number that is not negative, at the end of 19 bytes; where they begin. */
static inline ptrdiff_t gq_digits(uint8_t *bytes, int64_t number) {
    ptrdiff_t start = 19;
    do {
        bytes[--start] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return start;
}

/* The value of a hexadecimal digit; over 15 if it is none, and capitals are none. */
static inline uint8_t gq_nibble(uint8_t digit) {
    uint8_t number = (uint8_t)(digit - '0');
    uint8_t letter = (uint8_t)(digit - 'a');
    return number < 10 ? number : letter < 6 ? (uint8_t)(letter + 10) : 16;
}

#define GQ_CONTEXT_BYTES 25

/* Trace id, span id and flags of the `traceparent` in bytes[start:end] by the rules of the W3C; whether
 * it is one. A later version may be longer. */
static inline int gq_traceparent(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end,
                                 uint8_t context[GQ_CONTEXT_BYTES]) {
    const uint8_t *text = bytes + start;
    ptrdiff_t size = end - start;
    if (size < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return 0;
    uint8_t high = gq_nibble(text[0]), low = gq_nibble(text[1]);
    if (high > 15 || low > 15 || (high == 15 && low == 15))
        return 0;
    if (size > 55 && ((high == 0 && low == 0) || text[55] != '-'))
        return 0;
    uint8_t trace = 0, span = 0;
    for (ptrdiff_t index = 0; index < GQ_CONTEXT_BYTES; index++) {
        ptrdiff_t place = (index < 16 ? 3 : index < 24 ? 4 : 5) + 2 * index;
        high = gq_nibble(text[place]);
        low = gq_nibble(text[place + 1]);
        if (high > 15 || low > 15)
            return 0;
        context[index] = (uint8_t)(high << 4 | low);
        trace |= index < 16 ? context[index] : 0;
        span |= index >= 16 && index < 24 ? context[index] : 0;
    }
    return trace != 0 && span != 0;
}

static inline uint32_t gq_turn(uint32_t word, int bits) {
    return word << bits | word >> (32 - bits);
}

static inline uint32_t gq_mix(uint32_t word) {
    return gq_turn(word * 0xcc9e2d51u, 15) * 0x1b873593u;
}

/* MurmurHash3 x86 32-bit with seed 0 of bytes[start:end]. Its words are little-endian. */
static inline uint32_t gq_murmur3(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    uint32_t hash = 0;
    uint32_t size = (uint32_t)(end - start);
    for (; end - start >= 4; start += 4) {
        hash ^= gq_mix(__builtin_bswap32(gq_load_32(bytes, start)));
        hash = gq_turn(hash, 13) * 5 + 0xe6546b64u;
    }
    uint32_t tail = 0;
    for (int shift = 0; start < end; start++, shift += 8)
        tail |= (uint32_t)bytes[start] << shift;
    hash ^= gq_mix(tail);
    hash ^= size;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

#endif
