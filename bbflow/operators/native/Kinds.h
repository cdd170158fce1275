#pragma once

#include "Cpu.h"
#include "FoldTemplate.h"

/**
 * Defines the fold of one kind, with a clone for each instruction set; the CPU's best one is chosen
 * at load time. Each is a function of its own, because GCC vectorises only some of the loops of a
 * very large one.
 */
#define BBFLOW_DEFINE_KIND(T, M, LO, HI)                                                           \
    BBFLOW_CLONES void FoldKind(const BbflowTask &task, Kind<T, M, LO, HI, false>)                 \
    {                                                                                              \
        FoldAll<Kind<T, M, LO, HI, false>>(task);                                                  \
    }                                                                                              \
    BBFLOW_CLONES void FoldKind(const BbflowTask &task, Kind<T, M, LO, HI, true>)                  \
    {                                                                                              \
        FoldAll<Kind<T, M, LO, HI, true>>(task);                                                   \
    }

#define BBFLOW_CHOOSE_FILL(T, M, LO, HI)                                                           \
    task.Fill ? FoldKind(task, Kind<T, M, LO, HI, true>())                                         \
              : FoldKind(task, Kind<T, M, LO, HI, false>())

/** Integers have two kinds: what isn't wanted is computed all the same. */
#define BBFLOW_DEFINE_INTEGER_FOLD(T)                                                              \
    BBFLOW_DEFINE_KIND(T, 0, true, true)                                                           \
    BBFLOW_DEFINE_KIND(T, 2, true, true)                                                           \
    void Fold(const BbflowTask &task, T)                                                           \
    {                                                                                              \
        task.Target[BbflowFirst] ? BBFLOW_CHOOSE_FILL(T, 2, true, true)                            \
                                 : BBFLOW_CHOOSE_FILL(T, 0, true, true);                           \
    }

/** Floats are what models write: they have a kind for each set of accumulators worth it. */
#define BBFLOW_DEFINE_FLOAT_FOLD(T)                                                                \
    BBFLOW_DEFINE_KIND(T, 0, false, true)                                                          \
    BBFLOW_DEFINE_KIND(T, 0, true, false)                                                          \
    BBFLOW_DEFINE_KIND(T, 0, true, true)                                                           \
    BBFLOW_DEFINE_KIND(T, 1, false, false)                                                         \
    BBFLOW_DEFINE_KIND(T, 1, true, true)                                                           \
    BBFLOW_DEFINE_KIND(T, 2, false, false)                                                         \
    BBFLOW_DEFINE_KIND(T, 2, true, true)                                                           \
    void Fold(const BbflowTask &task, T)                                                           \
    {                                                                                              \
        const bool extremes = task.Target[BbflowMin] || task.Target[BbflowMax];                    \
        if (task.Target[BbflowSecond])                                                             \
        {                                                                                          \
            extremes ? BBFLOW_CHOOSE_FILL(T, 2, true, true)                                        \
                     : BBFLOW_CHOOSE_FILL(T, 2, false, false);                                     \
        }                                                                                          \
        else if (task.Target[BbflowFirst])                                                         \
        {                                                                                          \
            extremes ? BBFLOW_CHOOSE_FILL(T, 1, true, true)                                        \
                     : BBFLOW_CHOOSE_FILL(T, 1, false, false);                                     \
        }                                                                                          \
        else if (!task.Target[BbflowMax])                                                          \
        {                                                                                          \
            BBFLOW_CHOOSE_FILL(T, 0, true, false);                                                 \
        }                                                                                          \
        else                                                                                       \
        {                                                                                          \
            task.Target[BbflowMin] ? BBFLOW_CHOOSE_FILL(T, 0, true, true)                          \
                                   : BBFLOW_CHOOSE_FILL(T, 0, false, true);                        \
        }                                                                                          \
    }
