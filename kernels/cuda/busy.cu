// Keep the GPU busy for a number of clock ticks, so that kernels launched meanwhile queue up behind this one.
extern "C" __global__ void keep_busy(long long ticks)
{
    long long start = clock64();
    while (clock64() - start < ticks)
        ;
}
