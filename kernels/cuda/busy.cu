// Keep the GPU busy for so many ticks of its clock, so that what is launched meanwhile stands ready behind.
extern "C" __global__ void keep_busy(long long ticks)
{
    long long start = clock64();
    while (clock64() - start < ticks)
        ;
}
