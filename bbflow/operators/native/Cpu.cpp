#include "Fold.h"

#if defined(BBFLOW_ASK)

/** Tells by its exit code which instruction set this CPU has: 2 is AVX-512, 1 AVX2, 0 neither. */
int main()
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx2") ? 1 : 0;
#else
    return 0;
#endif
}

#else

/** @return the instruction set that the loops need and this CPU doesn't have; empty if it has */
BBFLOW_EXPORT const char *bbflow_missing_cpu();

const char *bbflow_missing_cpu()
{
#if defined(__x86_64__) && defined(BBFLOW_CPU)
    return __builtin_cpu_supports(BBFLOW_CPU) ? "" : BBFLOW_CPU;
#else
    return "";
#endif
}

#endif
