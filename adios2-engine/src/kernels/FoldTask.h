#pragma once

namespace bbflow
{

/** What the folding kernel gets as its one argument: a field's next steps, and its state, whose
 * arrays are those of a BbflowTask, in its order. Compilers that have no headers read this, too. */
struct FoldTask
{
    static constexpr unsigned Most = 32; ///< steps at a time
    static constexpr unsigned BlockThreads = 128;
    static constexpr unsigned MostRows = 64; ///< of a histogram

    int *Count;
    void *Shift;
    double *First, *Second; ///< null: not accumulated; Second needs First, which needs Shift
    void *Min, *Max;        ///< null: not accumulated
    unsigned long long Points;
    unsigned Blocks; ///< of threads
    unsigned Steps;
    unsigned HasFill;
    unsigned
        Begins; ///< whether nothing is in the state yet: what the arrays have counts for nothing
    alignas(8) char Fill[8]; ///< a value that stands for 'missing'
    const void *Which[Most];
    int *Bins;               ///< counts of a histogram, row after row; null: not counted
    unsigned Rows;           ///< of it
    double Breaks[MostRows]; ///< where each row ends, ascending; the last one is NaN
};

} // end namespace bbflow
