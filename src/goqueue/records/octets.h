/* Big-endian numbers and text at a position of a buffer. Callers have checked the bounds. */
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

/* Whether bytes[start:end] is UTF-8 as Python's strict decoder sees it: shortest forms only,
 * no surrogates, nothing past U+10FFFF. */
static inline int gq_is_utf8(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    while (start < end) {
        uint8_t lead = bytes[start++];
        if (lead < 0x80)
            continue;
        int following = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        if (lead < 0xc2 || lead > 0xf4 || end - start < following)
            return 0;
        uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        if (bytes[start] < low || bytes[start] > high)
            return 0;
        for (start++; --following > 0; start++)
            if (bytes[start] < 0x80 || bytes[start] > 0xbf)
                return 0;
    }
    return 1;
}

#endif
