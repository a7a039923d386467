/* Bytes as JSON text: strings with their escapes, base64, digits. Callers have checked the bounds of
 * what is read, and that there is room for what is written. */
#ifndef GOQUEUE_JSON_TEXT_H
#define GOQUEUE_JSON_TEXT_H

#include "octets.h"

/* What the pass that writes a string may use beyond the string: it copies 8 bytes at a time. */
#define GQ_SLACK_BYTES 8
#define GQ_ESCAPE_BYTES 6
#define GQ_EACH(byte) (0x0101010101010101u * (byte))
#define GQ_HEXADECIMAL "0123456789abcdef"

/* What follows the backslash where a byte needs one; `u` if four digits follow as well. */
static const uint8_t gq_escapes[256] = {
    [0 ... 7] = 'u', ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n',       [11] = 'u',   ['\f'] = 'f',
    ['\r'] = 'r',    ['"'] = '"',   ['\\'] = '\\', [14 ... 31] = 'u',
};

/* 8 bytes as a number whose lowest byte is the first. */
static inline uint64_t gq_eight(const uint8_t *bytes, ptrdiff_t position) {
    return __builtin_bswap64(gq_load_64(bytes, position));
}

/* Bit 7 of every byte that equals `byte`, and of no other. */
static inline uint64_t gq_equal(uint64_t word, uint8_t byte) {
    uint64_t other = word ^ GQ_EACH(byte);
    return ~(((other & GQ_EACH(0x7f)) + GQ_EACH(0x7f)) | other) & GQ_EACH(0x80);
}

/* Bit 7 of every byte that is a quote or a backslash. */
static inline uint64_t gq_quotes(uint64_t word) {
    return gq_equal(word, '"') | gq_equal(word, '\\');
}

/* Bit 7 of every byte that is a control character. */
static inline uint64_t gq_controls(uint64_t word) {
    return ~(((word & GQ_EACH(0x7f)) + GQ_EACH(0x60)) | word) & GQ_EACH(0x80);
}

/* Which of the 8 bytes is the first with its bit 7 set; one is. */
static inline ptrdiff_t gq_first(uint64_t marked) {
    return __builtin_ctzll(marked) >> 3;
}

/* How many bytes a byte of ASCII is longer in a JSON string. */
static inline ptrdiff_t gq_escape_size(uint8_t byte) {
    uint8_t escape = gq_escapes[byte];
    return escape == 0 ? 0 : escape == 'u' ? GQ_ESCAPE_BYTES - 1 : 1;
}

/* How long bytes[start:end] is in a JSON string, without the quotes; -1 if it is not UTF-8. */
static inline ptrdiff_t gq_json_size(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    ptrdiff_t size = end - start;
    while (start < end) {
        ptrdiff_t ascii = end;
        if (end - start >= 8) {
            uint64_t word = gq_eight(bytes, start);
            uint64_t high = word & GQ_EACH(0x80);
            if ((high | gq_controls(word)) == 0) {
                /* Each marked byte adds 1; the product has their sum on top. */
                size += (ptrdiff_t)((gq_quotes(word) >> 7) * GQ_EACH(1) >> 56);
                start += 8;
                continue;
            }
            ascii = start + (high ? gq_first(high) : 8);
        }
        for (; start < ascii && bytes[start] < 0x80; start++)
            size += gq_escape_size(bytes[start]);
        if (start < end && bytes[start] >= 0x80) {
            ptrdiff_t length = gq_utf8_length(bytes, start, end);
            if (length == 0)
                return -1;
            start += length;
        }
    }
    return size;
}

/* Write bytes[start:end] as a JSON string of so many bytes and two quotes; where it ends. Takes as much
 * and the slack at the most, even if somebody changed the bytes since they were measured. */
static inline ptrdiff_t gq_put_string(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end,
                                      ptrdiff_t size, uint8_t *into, ptrdiff_t position) {
    into[position++] = '"';
    ptrdiff_t limit = position + size + GQ_SLACK_BYTES;
    if (size == end - start) {
        memcpy(into + position, bytes + start, (size_t)size);
        position += size;
        start = end;
    }
    while (start < end && limit - position >= GQ_SLACK_BYTES) {
        if (end - start >= 8) {
            uint64_t word = gq_eight(bytes, start);
            uint64_t special = gq_quotes(word) | gq_controls(word);
            ptrdiff_t plain = special ? gq_first(special) : 8;
            memcpy(into + position, bytes + start, 8);
            start += plain;
            position += plain;
            if (special == 0 || limit - position < GQ_SLACK_BYTES)
                continue;
        }
        uint8_t byte = bytes[start++];
        uint8_t escape = gq_escapes[byte];
        if (escape == 0) {
            into[position++] = byte;
            continue;
        }
        into[position++] = '\\';
        into[position++] = escape;
        if (escape == 'u') {
            memcpy(into + position, "00", 2);
            into[position + 2] = (uint8_t)GQ_HEXADECIMAL[byte >> 4];
            into[position + 3] = (uint8_t)GQ_HEXADECIMAL[byte & 15];
            position += 4;
        }
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
