# Bit sets as arrays of uint64 words, and hash functions for such words.
# Bit i of a set is in word i >> 6 at position i & 63; unused high bits are 0.

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    static inline int remat_popcount(unsigned long long word) { return (int)__popcnt64(word); }
    static inline int remat_lowest(unsigned long long word) { unsigned long at; _BitScanForward64(&at, word); return (int)at; }
    #else
    #if defined(__x86_64__) && !defined(__POPCNT__)  /* the builtin would call a function that reads a table */
    static inline int remat_popcount(unsigned long long word) {
        word -= word >> 1 & 0x5555555555555555u;
        word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
        return (int)(((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
    }
    #else
    static inline int remat_popcount(unsigned long long word) { return __builtin_popcountll(word); }
    #endif
    static inline int remat_lowest(unsigned long long word) { return __builtin_ctzll(word); }
    #endif
    """
    int remat_popcount(uint64_t word) nogil
    # Position of the lowest set bit; the word must not be 0.
    int remat_lowest(uint64_t word) nogil


cdef inline Py_ssize_t bit_words(Py_ssize_t n_bits) noexcept nogil:
    return (n_bits + 63) >> 6


cdef inline bint has_bit(const uint64_t* words, Py_ssize_t bit) noexcept nogil:
    return (words[bit >> 6] >> (bit & 63)) & 1


cdef inline void set_bit(uint64_t* words, Py_ssize_t bit) noexcept nogil:
    words[bit >> 6] |= (<uint64_t>1) << (bit & 63)


cdef inline void clear_bit(uint64_t* words, Py_ssize_t bit) noexcept nogil:
    words[bit >> 6] &= ~((<uint64_t>1) << (bit & 63))


cdef inline Py_ssize_t count_bits(const uint64_t* words, Py_ssize_t n_words) noexcept nogil:
    cdef Py_ssize_t i, total = 0
    for i in range(n_words):
        total += remat_popcount(words[i])
    return total


cdef inline bint is_subset(const uint64_t* inner, const uint64_t* outer, Py_ssize_t n_words) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n_words):
        if inner[i] & ~outer[i]:
            return False
    return True


cdef inline Py_ssize_t next_bit(const uint64_t* words, Py_ssize_t n_words, Py_ssize_t start) noexcept nogil:
    """Return the position of the first set bit at or after `start`, or -1."""
    cdef Py_ssize_t i = start >> 6
    cdef uint64_t word
    if i >= n_words:
        return -1
    word = words[i] & (~(<uint64_t>0) << (start & 63))
    while word == 0:
        i += 1
        if i >= n_words:
            return -1
        word = words[i]
    return (i << 6) + remat_lowest(word)


cdef inline uint64_t mix_word(uint64_t word) noexcept nogil:
    """Hash a word with one step of SplitMix64."""
    word += <uint64_t>0x9E3779B97F4A7C15
    word = (word ^ (word >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * <uint64_t>0x94D049BB133111EB
    return word ^ (word >> 31)


cdef inline uint64_t random_word(uint64_t bit) noexcept nogil:
    """Return a fixed pseudorandom word for a bit. XOR of these words hashes a set (Zobrist hashing)."""
    return mix_word(bit * <uint64_t>0x9E3779B97F4A7C15)
