#pragma once

#include <cstdint>

enum BbflowLevelsMake
{
    BBFLOW_LEVELS_TO = 0,
    BBFLOW_LEVELS_MEAN = 1,
    BBFLOW_LEVELS_INTEGRAL = 2,
    BBFLOW_LEVELS_DERIVATIVE = 3,
};

/** What is made of the columns of a block of shape (Before, Levels, After). */
struct BbflowColumns
{
    uint64_t Before;
    uint64_t Levels;
    uint64_t After;
    uint64_t Interfaces; ///< coordinates of a column: as many as levels, or one more for layers
    uint64_t Targets;    ///< values of a column in the result
    const void *Values;  ///< float or double
    const void *Fill; ///< what stands for 'missing' besides NaN, of the values' type; may be null
    const double *A;  ///< a coordinate is A + B * Surface; null where Points has them
    const double *B;  ///< null for 0
    const double *Surface; ///< of shape (Before, After), where the ground is; may be null
    const void
        *Points; ///< coordinates of shape (Before, Interfaces, After), float or double; may be null
    const double *To; ///< coordinates of the targets
    void *Result;     ///< of shape (Before, Targets, After), of the values' type
    double Sign;      ///< 1 if coordinates grow towards the ground, else -1
    int32_t Double;   ///< whether values are double
    int32_t Wide;     ///< whether Points are double
    int32_t Make;     ///< BbflowLevelsMake
    int32_t Log;      ///< whether interpolation is linear in the logarithm
    int32_t Linear;   ///< whether values above the top are extrapolated; else they are missing
    int32_t
        Lowest; ///< whether values below the ground are the lowest level's; else they are missing
};

extern "C"
{
    /** @return 1 if there is no memory, else 0 */
    __attribute__((visibility("default"))) int bbflow_levels(const BbflowColumns *task);
}
