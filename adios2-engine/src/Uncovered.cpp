#include "Uncovered.h"

namespace bbflow
{

namespace
{

/** Appends what of a box lies outside of a part of it: at most two slabs for each dimension. */
void CutOut(Box box, const Box &part, std::vector<Box> &rest)
{
    for (size_t d = 0; d < box.Count.size(); ++d)
    {
        const size_t boxEnd = box.Start[d] + box.Count[d];
        const size_t partEnd = part.Start[d] + part.Count[d];
        if (part.Start[d] > box.Start[d])
        {
            rest.push_back(box);
            rest.back().Count[d] = part.Start[d] - box.Start[d];
        }
        if (partEnd < boxEnd)
        {
            rest.push_back(box);
            rest.back().Start[d] = partEnd;
            rest.back().Count[d] = boxEnd - partEnd;
        }
        box.Start[d] = part.Start[d];
        box.Count[d] = part.Count[d];
    }
}

} // end empty namespace

Uncovered::Uncovered(Box selection)
{
    if (selection.Elements() > 0)
    {
        m_Rest.push_back(std::move(selection));
    }
}

void Uncovered::Cover(const Box &block)
{
    std::vector<Box> rest;
    for (Box &box : m_Rest)
    {
        if (const std::optional<Box> common = Overlap(box, block))
        {
            CutOut(std::move(box), *common, rest);
        }
        else
        {
            rest.push_back(std::move(box));
        }
    }
    m_Rest = std::move(rest);
}

size_t Uncovered::Elements() const
{
    size_t elements = 0;
    for (const Box &box : m_Rest)
    {
        elements += box.Elements();
    }
    return elements;
}

} // end namespace bbflow
