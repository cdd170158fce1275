#pragma once

#include "Histogram.h"
#include "Merge.h"
#include "Sketch.h"

#include <cstdint>

/** What states have besides moments and extremes, in the order of the names in Names.cpp. */
enum BbflowFamilyKind
{
    BbflowSketches,
    BbflowEdges,
    BbflowGrids,
    BbflowFamilyKinds
};

/** Most fields of a family. */
constexpr int BbflowFamilyFields = 6;

/** Where a family's fields are in a state, in their order in Python. */
struct BbflowPlaces
{
    void *Fields[BbflowFamilyFields]; ///< the first one is null: there is no such state
    uint64_t Stride;                  ///< values from one row of a field to the next
};

/** A family of one state: Target = Left (+) what is folded or merged. Its mirror is in library.py.
 */
struct BbflowFamilyTask
{
    uint64_t Task; ///< whose values, and points: position in the table beside it
    uint64_t Kind;
    uint64_t Size;          ///< of a sketch's runs; bins of a grid
    uint64_t Top;           ///< of a sketch
    const BbflowBins *Bins; ///< between given edges
    BbflowPlaces Left;      ///< if there is none, begin with the identity
    BbflowPlaces Right;     ///< what is merged; where steps are folded it isn't looked at
    BbflowPlaces Target;    ///< may be Left, and for counts either side; merged sketches are apart
};

/**
 * Folds blocks into states, large ones in pieces, side by side on some threads.
 * @param types of each task: i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 are 0 to 9
 * @param tasks none writes where another reads or writes; those with filters aren't cut
 * @param families what states have besides, in the order of their tasks
 * @return 0; 1 if there is no memory for it: then some tasks may be done, and others not; 2 if a
 * type or a family is unknown
 */
BBFLOW_EXPORT int bbflow_fold(const int32_t *types, const BbflowTask *tasks, uint64_t count,
                              const BbflowFamilyTask *families, uint64_t familyCount,
                              uint32_t threads);

/** Merges states; all as for bbflow_fold. */
BBFLOW_EXPORT int bbflow_merge(const int32_t *types, const BbflowMergeTask *tasks, uint64_t count,
                               const BbflowFamilyTask *families, uint64_t familyCount,
                               uint32_t threads);

/**
 * Finds in sketches for each point the smallest value up to which the kept ones weigh at least so
 * much.
 * @param type as in bbflow_fold
 * @param sketches their target
 * @param weights what they must weigh, at least 1
 * @param result gets the values; the largest valid one where all together weigh less
 * @return as bbflow_fold
 */
BBFLOW_EXPORT int bbflow_find(int type, const BbflowFamilyTask *sketches, uint64_t points,
                              const int64_t *weights, void *result);

namespace bbflow
{

/** Bytes of a value of each type. */
constexpr uint64_t TypeBytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};

/** Some points of a state. */
struct Part
{
    int Type;
    uint64_t First;
    uint64_t Points;
};

/** Sets target = left (+) steps for some points, whose values in each step begin the blocks. */
void FoldFamily(const Part &part, const BbflowFamilyTask &state, const void *const *blocks,
                uint64_t steps, const void *fill);

/** Sets target = left (+) right for some points. */
void MergeFamily(const Part &part, const BbflowFamilyTask &state);

} // end namespace bbflow
