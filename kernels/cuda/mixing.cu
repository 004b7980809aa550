// Mixing of 32-bit words: the same bits as NumpyMixer in remat_algos/executor/mixing.py, which documents the scheme.
//
// Arrays are bytes; their addresses are multiples of 4. An incomplete last word is padded with zeros.
// A result may overwrite an input of the same length, since each thread reads its word before it writes it.

typedef unsigned char byte;
typedef unsigned int word;
typedef long long int64;

#define PLACE 0x9E3779B1u
#define WEIGHT 0x85EBCA77u
#define MULTIPLIER 0x2C1B3C6Du
#define ADDEND 0x297A2D39u
#define SHIFT 15
#define POINTERS 8

__device__ word load(const byte* array, int64 n_bytes, int64 i)
{
    if (4 * i + 4 <= n_bytes)
        return ((const word*)array)[i];
    word found = 0;
    for (int k = 0; 4 * i + k < n_bytes; k++)
        found |= (word)array[4 * i + k] << 8 * k;
    return found;
}

__device__ void store(byte* array, int64 n_bytes, int64 i, word found)
{
    if (4 * i + 4 <= n_bytes)
        ((word*)array)[i] = found;
    else
        for (int k = 0; 4 * i + k < n_bytes; k++)
            array[4 * i + k] = (byte)(found >> 8 * k);
}

// The contribution of input k to word i of a result of n words.
__device__ word term(const byte* array, int64 n_bytes, const word* sums, int k, int64 i, int64 n)
{
    int64 length = (n_bytes + 3) / 4;
    if (length == 0)
        return 0;
    int64 place = i < length ? i : length <= 0xFFFFFFFF && i <= 0xFFFFFFFF ? (word)i % (word)length : i % length;
    return (load(array, n_bytes, place) + (length > n ? sums[k] : 0)) * (2 * k + 3);
}

// Mix the inputs into `out`, or add the mix to it.
//
// out : byte[n_bytes], number : of the result, iters : rounds, burn : float multiply-adds per word,
// add : whether to add to the contents of out, n_inputs : number of inputs, p0 .. p7 : the first inputs, b0 .. b7 :
// their sizes, table : the addresses of all inputs followed by their sizes, used if there are more than 8,
// sums : word[n_inputs] checksums of the inputs that are longer than the result
extern "C" __global__ void mix(
    byte* out, int64 n_bytes, word number, int iters, int burn, int add, int n_inputs,
    const byte* p0, const byte* p1, const byte* p2, const byte* p3,
    const byte* p4, const byte* p5, const byte* p6, const byte* p7,
    int64 b0, int64 b1, int64 b2, int64 b3, int64 b4, int64 b5, int64 b6, int64 b7,
    const unsigned long long* table, const word* sums)
{
    int64 n = (n_bytes + 3) / 4, step = (int64)gridDim.x * blockDim.x;
    for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        word mixed = (word)i * PLACE ^ number;
        if (n_inputs > POINTERS) {
            for (int k = 0; k < n_inputs; k++)
                mixed += term((const byte*)table[k], (int64)table[n_inputs + k], sums, k, i, n);
        } else {
            if (n_inputs > 0) mixed += term(p0, b0, sums, 0, i, n);
            if (n_inputs > 1) mixed += term(p1, b1, sums, 1, i, n);
            if (n_inputs > 2) mixed += term(p2, b2, sums, 2, i, n);
            if (n_inputs > 3) mixed += term(p3, b3, sums, 3, i, n);
            if (n_inputs > 4) mixed += term(p4, b4, sums, 4, i, n);
            if (n_inputs > 5) mixed += term(p5, b5, sums, 5, i, n);
            if (n_inputs > 6) mixed += term(p6, b6, sums, 6, i, n);
            if (n_inputs > 7) mixed += term(p7, b7, sums, 7, i, n);
        }
        for (int round = 0; round < iters; round++) {
            mixed = mixed * MULTIPLIER + ADDEND;
            mixed ^= mixed >> SHIFT;
        }
        float x = 1.0f + (word)i % 8;
        for (int round = 0; round < burn; round++)
            x = x * 0.999f + 0.001f;
        if (x < 0.0f) // never, but the compiler cannot know
            mixed++;
        if (add)
            mixed += load(out, n_bytes, i);
        store(out, n_bytes, i, mixed);
    }
}

// Add to `sum` every word of an array times (2 * its position + 1) * WEIGHT.
extern "C" __global__ void checksum(const byte* array, int64 n_bytes, word* sum)
{
    int64 n = (n_bytes + 3) / 4, step = (int64)gridDim.x * blockDim.x;
    word found = 0;
    for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        found += load(array, n_bytes, i) * ((2 * (word)i + 1) * WEIGHT);
    for (int other = 16; other > 0; other /= 2)
        found += __shfl_down_sync(0xFFFFFFFF, found, other);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, found);
}
