#pragma once

/** Loops are compiled for each instruction set, and the CPU's best one is chosen at load time;
 * where BBFLOW_ANY_CPU or BBFLOW_CPU is set, for what every CPU has, or that instruction set,
 * alone. */
#if defined(BBFLOW_ANY_CPU) || !defined(__x86_64__) || !defined(__GLIBC__) || !defined(__GNUC__)
#define BBFLOW_CLONES
#elif defined(BBFLOW_CPU)
#define BBFLOW_CLONES __attribute__((target(BBFLOW_CPU)))
#else
#define BBFLOW_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
