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

/** A family of states that lie alike. */
struct BbflowFamily
{
    uint64_t Kind;
    uint64_t Offsets[BbflowFamilyFields]; ///< of its fields, in their order in Python, from a
                                          ///< state's first byte on
    uint64_t Size;                        ///< of a sketch's runs; bins of a grid
    uint64_t Top;                         ///< of a sketch
    const BbflowBins *Bins;               ///< between given edges
};

/** A family of one state: Target = Left (+) what is folded or merged. Its mirror is in library.py.
 */
struct BbflowFamilyTask
{
    uint64_t Task; ///< whose values, and points: position in the table beside it
    const BbflowFamily *Family;
    const void *Left;  ///< a state's first byte; null: begin with the identity
    const void *Right; ///< of the state that is merged; where steps are folded it isn't looked at
    void *Target;      ///< apart from what is merged, but may be Left where steps are folded
};

/**
 * Folds many blocks, large ones in pieces, side by side on some threads.
 * @param types of each task
 * @param tasks none writes where another reads or writes; those with filters aren't cut
 * @param families what states have besides, in the order of their tasks
 * @return as bbflow_fold; then some tasks may be done, and others not
 */
BBFLOW_EXPORT int bbflow_fold_many(const int32_t *types, const BbflowTask *tasks, uint64_t count,
                                   const BbflowFamilyTask *families, uint64_t familyCount,
                                   uint32_t threads);

/**
 * Merges many states, large ones in pieces, side by side on some threads.
 * @param types of the values of each task
 * @param tasks none writes where another reads or writes
 * @param families what states have besides, in the order of their tasks
 * @return 0; 1 if there is no memory for it; 2 if a type is unknown. Then some may be done, and
 * others not
 */
BBFLOW_EXPORT int bbflow_merge_many(const int32_t *types, const BbflowMergeTask *tasks,
                                    uint64_t count, const BbflowFamilyTask *families,
                                    uint64_t familyCount, uint32_t threads);

namespace bbflow
{

/** Bytes of a value of each type, as bbflow_fold numbers them. */
constexpr uint64_t TypeBytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};

/** Some points of a family's state, of how many. */
struct FamilyPart
{
    int Type;
    const BbflowFamily &Family;
    uint64_t First;
    uint64_t Points;
    uint64_t Of;
};

/** Sets target = left (+) steps for some points, whose values in each step begin the blocks;
 * returns as bbflow_fold. */
int FoldFamily(const FamilyPart &part, const BbflowFamilyTask &state, const void *const *blocks,
               uint64_t steps, const void *fill);

/** Sets target = left (+) right for some points; returns as bbflow_fold. */
int MergeFamily(const FamilyPart &part, const BbflowFamilyTask &state);

} // end namespace bbflow
