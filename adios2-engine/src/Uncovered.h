#pragma once

#include "Box.h"

namespace bbflow
{

/** What is left of a selection as blocks cover it, each element counted once however many blocks
 * hold it. */
class Uncovered
{
public:
    explicit Uncovered(Box selection);

    void Cover(const Box &block);

    /** How many elements no block has covered. */
    size_t Elements() const;

private:
    std::vector<Box> m_Rest; // apart from each other
};

} // end namespace bbflow
