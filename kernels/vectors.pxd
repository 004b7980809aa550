# Loops over dense rows, compiled for AVX-512, AVX2 and baseline x86-64.
#
# The dynamic linker selects a version when a module is loaded. Other compilers and platforms use the plain loop. The
# row that a loop writes never overlaps a row that it only reads. `tests/benchmarks/compiled.py` compares the loops with
# Numba.

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(__clang__)
    #define REMAT_UNROLLED _Pragma("GCC unroll 4")
    #else
    #define REMAT_UNROLLED
    #endif
    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && \\
        !defined(__SANITIZE_ADDRESS__) && !defined(REMAT_NO_CLONES)
    #define REMAT_CLONES __attribute__((unused, target_clones("avx512f", "avx2", "default")))
    #elif defined(__GNUC__)
    #define REMAT_CLONES __attribute__((unused))
    #else
    #define REMAT_CLONES
    #endif

    /* row[i] = max(row[i], min(other[i] - by, most)) */
    REMAT_CLONES static void remat_raise(double* __restrict row, const double* __restrict other, long long n, double by,
                                         double most) {
        REMAT_UNROLLED for (long long i = 0; i < n; i++) {
            double x = other[i] - by;
            x = x < most ? x : most;
            row[i] = x > row[i] ? x : row[i];
        }
    }
    /* first i >= begin with row[i] < bound, or n */
    REMAT_CLONES static long long remat_first_below(const double* row, long long begin, long long n, double bound) {
        for (; begin + 32 <= n; begin += 32) {
            long long below = 0;
            for (int i = 0; i < 32; i++) below |= row[begin + i] < bound;
            if (below) break;
        }
        while (begin < n && !(row[begin] < bound)) begin++;
        return begin;
    }
    /* row[i] = min(row[i], cost + a[i] + b[i]) */
    REMAT_CLONES static void remat_lower(float* __restrict row, const float* __restrict a, const float* __restrict b,
                                         long long n, float cost) {
        REMAT_UNROLLED for (long long i = 0; i < n; i++) {
            float x = cost + a[i] + b[i];
            row[i] = x < row[i] ? x : row[i];
        }
    }
    REMAT_CLONES static void remat_add(int* row, long long n, int by) {
        REMAT_UNROLLED for (long long i = 0; i < n; i++) row[i] += by;
    }
    /* adds to a block of 128 (BLOCK_SIZE in live_profile.pxd) and returns its maximum */
    REMAT_CLONES static int remat_fold(int* block, int by) {
        int top = -2147483647;
        for (int i = 0; i < 128; i++) {
            int x = block[i] + by;
            block[i] = x;
            top = x > top ? x : top;
        }
        return top;
    }
    REMAT_CLONES static int remat_top(const int* block) {
        int top = -2147483647;
        for (int i = 0; i < 128; i++) top = block[i] > top ? block[i] : top;
        return top;
    }
    /* sum of the excesses above the limit */
    REMAT_CLONES static long long remat_excess(const int* block, int limit) {
        long long sum = 0;
        for (int i = 0; i < 128; i++) {
            int above = block[i] - limit;
            sum += above > 0 ? above : 0;
        }
        return sum;
    }
    """
    void remat_raise(double* row, const double* other, long long n, double by, double most) noexcept nogil
    long long remat_first_below(const double* row, long long begin, long long n, double bound) noexcept nogil
    void remat_lower(float* row, const float* a, const float* b, long long n, float cost) noexcept nogil
    void remat_add(int* row, long long n, int by) noexcept nogil
    int remat_fold(int* block, int by) noexcept nogil
    int remat_top(const int* block) noexcept nogil
    long long remat_excess(const int* block, int limit) noexcept nogil
