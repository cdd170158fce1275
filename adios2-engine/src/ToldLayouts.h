#pragma once

#include "OpenStep.h"

#include <vector>

namespace bbflow
{

/** The layouts that a rank has used, by the numbers under which it tells its node of them
 * (FORMAT.md, "Layout"). */
class ToldLayouts
{
public:
    /** Returns the number of a step's layout; the layout that was used longest ago makes place for
     * a new one.
     *  @param spots where each of the blocks lies */
    size_t NumberOf(const std::vector<Block> &blocks, const std::vector<Spot> &spots);

    /** Whether the node knows what a number means. */
    bool IsTold(const size_t number) const { return m_Layouts.at(number).IsTold; }
    void SetTold(const size_t number) { m_Layouts.at(number).IsTold = true; }

    /** Takes in that the node may know none of them. */
    void ForgetTold();

    /** The `forms` of a layout. @param rank of the writer */
    Value::Array Forms(size_t number, size_t rank) const;

private:
    struct Placed
    {
        BlockForm Form;
        Spot At;
        size_t Bytes;
        bool InFile;
        int64_t Folded;

        bool Is(const Block &block, const Spot &spot) const;
    };
    struct Layout
    {
        std::vector<Placed> Blocks;
        size_t LastUse = 0;
        bool IsTold = false;
    };
    std::vector<Layout> m_Layouts;
    size_t m_Uses = 0;

    size_t Add(const std::vector<Block> &blocks, const std::vector<Spot> &spots);
};

} // end namespace bbflow
