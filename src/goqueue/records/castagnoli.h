/* CRC-32C (Castagnoli), the check sum of every record.
 *
 * The best of three ways is chosen once, when the extension is loaded: the crc32 instruction
 * of x86-64 (asked of the processor, so one build runs everywhere), that of ARMv8 (when
 * compiled for it), or tables. One crc32 instruction waits three cycles for the one before
 * it, so long inputs are summed as three independent lanes that are joined afterwards.
 */
#ifndef GOQUEUE_CASTAGNOLI_H
#define GOQUEUE_CASTAGNOLI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GQ_LANE 256 /* Bytes of one lane; three lanes are summed at a time. */
#define GQ_POLYNOMIAL 0x82f63b78u

static uint32_t gq_table[8][256]; /* gq_table[k][n]: the byte n followed by k zero bytes. */
static uint32_t gq_lane[4][256];  /* The same for GQ_LANE zero bytes, by byte of the sum. */

static uint32_t gq_sum_tables(uint32_t sum, const uint8_t *at, size_t size) {
    while (size >= 8) {
        uint32_t low = sum ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                              (uint32_t)at[3] << 24);
        sum = gq_table[7][low & 255] ^ gq_table[6][low >> 8 & 255] ^
              gq_table[5][low >> 16 & 255] ^ gq_table[4][low >> 24] ^ gq_table[3][at[4]] ^
              gq_table[2][at[5]] ^ gq_table[1][at[6]] ^ gq_table[0][at[7]];
        at += 8;
        size -= 8;
    }
    while (size--)
        sum = sum >> 8 ^ gq_table[0][(sum ^ *at++) & 255];
    return sum;
}

static inline uint32_t gq_skip_lane(uint32_t sum) {
    return gq_lane[0][sum & 255] ^ gq_lane[1][sum >> 8 & 255] ^ gq_lane[2][sum >> 16 & 255] ^
           gq_lane[3][sum >> 24];
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define GQ_HARDWARE __attribute__((target("sse4.2")))
#define GQ_HAS_HARDWARE __builtin_cpu_supports("sse4.2")
#define GQ_STEP8(sum, word) ((uint32_t)_mm_crc32_u64(sum, word))
#define GQ_STEP1(sum, byte) _mm_crc32_u8(sum, byte)
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define GQ_HARDWARE
#define GQ_HAS_HARDWARE 1
#define GQ_STEP8(sum, word) __crc32cd(sum, word)
#define GQ_STEP1(sum, byte) __crc32cb(sum, byte)
#endif

#ifdef GQ_HARDWARE
static inline uint64_t gq_word(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

GQ_HARDWARE static uint32_t gq_sum_hardware(uint32_t sum, const uint8_t *at, size_t size) {
    while (size >= 3 * GQ_LANE) {
        uint32_t second = 0, third = 0;
        const uint8_t *end = at + GQ_LANE;
        for (; at < end; at += 8) {
            sum = GQ_STEP8(sum, gq_word(at));
            second = GQ_STEP8(second, gq_word(at + GQ_LANE));
            third = GQ_STEP8(third, gq_word(at + 2 * GQ_LANE));
        }
        sum = gq_skip_lane(gq_skip_lane(sum) ^ second) ^ third;
        at += 2 * GQ_LANE;
        size -= 3 * GQ_LANE;
    }
    for (; size >= 8; at += 8, size -= 8)
        sum = GQ_STEP8(sum, gq_word(at));
    while (size--)
        sum = GQ_STEP1(sum, *at++);
    return sum;
}
#endif

static uint32_t (*gq_sum)(uint32_t, const uint8_t *, size_t) = gq_sum_tables;

__attribute__((constructor)) static void gq_castagnoli_prepare(void) {
    static const uint8_t zeros[GQ_LANE];
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? GQ_POLYNOMIAL : 0);
        gq_table[0][byte] = sum;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            gq_table[k][byte] =
                gq_table[k - 1][byte] >> 8 ^ gq_table[0][gq_table[k - 1][byte] & 255];
    for (int k = 0; k < 4; k++)
        for (uint32_t byte = 0; byte < 256; byte++)
            gq_lane[k][byte] = gq_sum_tables(byte << 8 * k, zeros, GQ_LANE);
#ifdef GQ_HARDWARE
    if (GQ_HAS_HARDWARE)
        gq_sum = gq_sum_hardware;
#endif
}

/* The sum of bytes[start:end]; the caller has checked the bounds. */
static inline uint32_t gq_crc32c(const uint8_t *bytes, ptrdiff_t start, ptrdiff_t end) {
    return ~gq_sum(~0u, bytes + start, (size_t)(end - start));
}

#endif
