#include "ToldLayouts.h"

#include <algorithm>

namespace bbflow
{

namespace
{

/** How many numbers there are. */
constexpr size_t Most = 16;

} // end empty namespace

bool ToldLayouts::Placed::Is(const Block &block, const Spot &spot) const
{
    return Bytes == block.Bytes && InFile == block.InFile && Folded == block.Folded &&
           At.Extent == spot.Extent && At.Place == spot.Place && Form == block.Form;
}

size_t ToldLayouts::NumberOf(const std::vector<Block> &blocks, const std::vector<Spot> &spots)
{
    const auto isIt = [&](const Layout &layout)
    {
        bool isAlike = layout.Blocks.size() == blocks.size();
        for (size_t i = 0; isAlike && i < blocks.size(); ++i)
        {
            isAlike = layout.Blocks[i].Is(blocks[i], spots[i]);
        }
        return isAlike;
    };
    const auto known = std::find_if(m_Layouts.begin(), m_Layouts.end(), isIt);
    const size_t number = known == m_Layouts.end() ? Add(blocks, spots)
                                                   : static_cast<size_t>(known - m_Layouts.begin());
    m_Layouts[number].LastUse = ++m_Uses;
    return number;
}

size_t ToldLayouts::Add(const std::vector<Block> &blocks, const std::vector<Spot> &spots)
{
    size_t number = m_Layouts.size();
    if (number < Most)
    {
        m_Layouts.emplace_back();
    }
    else
    {
        const auto oldest = std::min_element(m_Layouts.begin(), m_Layouts.end(),
                                             [](const Layout &a, const Layout &b)
                                             { return a.LastUse < b.LastUse; });
        number = static_cast<size_t>(oldest - m_Layouts.begin());
        *oldest = {};
    }
    for (size_t i = 0; i < blocks.size(); ++i)
    {
        const Block &block = blocks[i];
        m_Layouts[number].Blocks.push_back(
            {block.Form, spots[i], block.Bytes, block.InFile, block.Folded});
    }
    return number;
}

void ToldLayouts::ForgetTold()
{
    for (Layout &layout : m_Layouts)
    {
        layout.IsTold = false;
    }
}

Value::Array ToldLayouts::Forms(const size_t number, const size_t rank) const
{
    Value::Array forms;
    for (const Placed &block : m_Layouts.at(number).Blocks)
    {
        Value::Array form{block.Form.Name,
                          block.Form.Type,
                          block.Form.Kind,
                          Value::FromDims(block.Form.Shape),
                          Value::FromDims(block.Form.Start),
                          Value::FromDims(block.Form.Count),
                          uint64_t{rank},
                          uint64_t{block.At.Extent},
                          uint64_t{block.At.Place},
                          uint64_t{block.Bytes},
                          block.InFile};
        if (block.Folded != 0)
        {
            form.emplace_back(block.Folded);
        }
        forms.emplace_back(std::move(form));
    }
    return forms;
}

} // end namespace bbflow
