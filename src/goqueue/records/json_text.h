/* Bytes as JSON text: strings with their escapes, base64, digits. Callers have checked the bounds of
 * what is read, and that there is room for what is written. */
#ifndef GOQUEUE_JSON_TEXT_H
#define GOQUEUE_JSON_TEXT_H

#include "octets.h"

/* The largest escape of one byte. */
#define GQ_ESCAPE_BYTES 6
#define GQ_EACH(byte) (0x0101010101010101u * (byte))
#define GQ_HEXADECIMAL "0123456789abcdef"

/* Bit 7 of each byte that is 0; of bytes above a 0 it may be wrong, never of the lowest one. */
static inline uint64_t gq_zeros(uint64_t word) {
    return (word - GQ_EACH(1)) & ~word & GQ_EACH(0x80);
}

/* Where the bytes end that a JSON string takes as they are and that are ASCII: 8 at a time. */
static inline ptrdiff_t gq_plain_end(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    for (; end - start >= 8; start += 8) {
        uint64_t word;
        memcpy(&word, bytes + start, sizeof word);
        uint64_t control = (word - GQ_EACH(0x20)) & ~word;
        uint64_t quote = gq_zeros(word ^ GQ_EACH('"'));
        uint64_t backslash = gq_zeros(word ^ GQ_EACH('\\'));
        if ((word | control | quote | backslash) & GQ_EACH(0x80))
            break;
    }
    for (; start < end; start++) {
        uint8_t byte = bytes[start];
        if (byte < 0x20 || byte >= 0x80 || byte == '"' || byte == '\\')
            break;
    }
    return start;
}

/* What follows the backslash of a short escape; 0 if the byte has none. */
static inline uint8_t gq_escape(uint8_t byte) {
    switch (byte) {
    case '"':
    case '\\':
        return byte;
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    default:
        return 0;
    }
}

/* How long bytes[start:end] is in a JSON string, without the quotes; -1 if it is not UTF-8. */
static inline ptrdiff_t gq_json_size(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    ptrdiff_t size = end - start;
    while ((start = gq_plain_end(bytes, start, end)) < end) {
        uint8_t byte = bytes[start];
        if (byte >= 0x80) {
            ptrdiff_t length = gq_utf8_length(bytes, start, end);
            if (length == 0)
                return -1;
            start += length;
        } else {
            size += gq_escape(byte) ? 1 : GQ_ESCAPE_BYTES - 1;
            start++;
        }
    }
    return size;
}

/* Write bytes[start:end] as a JSON string of so many bytes and two quotes; where it ends. Takes as much
 * and an escape more at the most, even if somebody changed the bytes since they were measured. */
static inline ptrdiff_t gq_put_string(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end,
                                      ptrdiff_t size, uint8_t *into, ptrdiff_t position) {
    into[position++] = '"';
    ptrdiff_t limit = position + size + GQ_ESCAPE_BYTES;
    if (size == end - start) {
        memcpy(into + position, bytes + start, (size_t)size);
        position += size;
        start = end;
    }
    while (start < end) {
        ptrdiff_t plain = gq_plain_end(bytes, start, end);
        while (plain < end && bytes[plain] >= 0x80)
            plain++;
        if (limit - position < plain - start || limit - position < GQ_ESCAPE_BYTES)
            break;
        if (plain > start) {
            memcpy(into + position, bytes + start, (size_t)(plain - start));
            position += plain - start;
            start = plain;
            continue;
        }
        uint8_t byte = bytes[start++];
        uint8_t escape = gq_escape(byte);
        into[position] = '\\';
        into[position + 1] = escape ? escape : 'u';
        if (escape == 0) {
            memcpy(into + position + 2, "00", 2);
            into[position + 4] = (uint8_t)GQ_HEXADECIMAL[byte >> 4];
            into[position + 5] = (uint8_t)GQ_HEXADECIMAL[byte & 15];
        }
        position += escape ? 2 : GQ_ESCAPE_BYTES;
    }
    into[position++] = '"';
    return position;
}

static inline ptrdiff_t gq_base64_size(ptrdiff_t size) {
    return (size + 2) / 3 * 4;
}

/* Write bytes[start:end] in base64 with padding and quotes; where it ends. */
static inline ptrdiff_t gq_put_base64(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end,
                                      uint8_t *into, ptrdiff_t position) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    into[position++] = '"';
    for (; start < end; start += 3, position += 4) {
        ptrdiff_t left = end - start;
        uint32_t word = (uint32_t)bytes[start] << 16;
        if (left > 1)
            word |= (uint32_t)bytes[start + 1] << 8;
        if (left > 2)
            word |= bytes[start + 2];
        into[position] = (uint8_t)digits[word >> 18];
        into[position + 1] = (uint8_t)digits[word >> 12 & 63];
        into[position + 2] = left > 1 ? (uint8_t)digits[word >> 6 & 63] : '=';
        into[position + 3] = left > 2 ? (uint8_t)digits[word & 63] : '=';
    }
    into[position++] = '"';
    return position;
}

/* Write a number that is not negative in decimal digits; where they end. */
static inline ptrdiff_t gq_put_digits(uint8_t *into, ptrdiff_t position, int64_t number) {
    uint8_t digits[19];
    ptrdiff_t start = gq_digits(digits, number);
    memcpy(into + position, digits + start, (size_t)(19 - start));
    return position + 19 - start;
}

/* Write 16 hexadecimal digits; where they end. */
static inline ptrdiff_t gq_put_hex(uint8_t *into, ptrdiff_t position, uint64_t number) {
    for (int shift = 60; shift >= 0; shift -= 4)
        into[position++] = (uint8_t)GQ_HEXADECIMAL[number >> shift & 15];
    return position;
}

/* Write a part of a second in nanoseconds as decimals, point and all, without zeros at the end; where
 * they end. Nothing is written for 0. */
static inline ptrdiff_t gq_put_decimals(uint8_t *into, ptrdiff_t position, int64_t fraction) {
    if (fraction <= 0)
        return position;
    int digits = 9;
    for (; fraction % 10 == 0; digits--)
        fraction /= 10;
    into[position] = '.';
    for (int place = digits; place > 0; place--, fraction /= 10)
        into[position + place] = (uint8_t)('0' + fraction % 10);
    return position + 1 + digits;
}

#endif
