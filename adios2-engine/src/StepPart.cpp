#include "StepPart.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace bbflow
{

namespace
{

std::vector<size_t> DimsOf(const Value &list)
{
    std::vector<size_t> dims;
    for (const Value &length : list.Items())
    {
        dims.push_back(length.AsUnsigned());
    }
    return dims;
}

StoredForm ReadForm(const Value &row)
{
    const Value::Array &items = row.Items();
    return {items.at(0).Text(),       items.at(1).Text(),       items.at(2).Text(),
            DimsOf(items.at(3)),      DimsOf(items.at(4)),      DimsOf(items.at(5)),
            items.at(6).AsUnsigned(), items.at(7).AsUnsigned(), items.at(8).AsUnsigned(),
            items.at(9).AsUnsigned(), items.at(10).IsTrue(),    items.size() > 11};
}

/** Reads forms, whose extents and files are counted from their rank's first. */
StoredLayout ReadLayout(const Value::Array &rows)
{
    StoredLayout layout;
    size_t sources = 0, files = 0, firstSource = 0, firstFile = 0;
    for (const Value &row : rows)
    {
        StoredForm form = ReadForm(row);
        if (!layout.empty() && layout.back().Rank != form.Rank)
        {
            firstSource = sources;
            firstFile = files;
        }
        form.Source += form.IsSpilled ? firstFile : firstSource;
        size_t &count = form.IsSpilled ? files : sources;
        count = form.Bytes > 0 ? std::max(count, form.Source + 1) : count;
        layout.push_back(std::move(form));
    }
    return layout;
}

template <class T>
Value Known(const char *bytes, const bool isLargest)
{
    T both[2];
    std::memcpy(both, bytes, sizeof(both));
    return both[0] <= both[1] ? Value(both[isLargest ? 1 : 0]) : Value();
}

} // end empty namespace

size_t StepPart::Source(const size_t number) const
{
    uint64_t first;
    if (number >= Sources.size() / sizeof(first))
    {
        throw std::out_of_range("bbflow: a block lies in an extent that its step doesn't have");
    }
    std::memcpy(&first, Sources.data() + number * sizeof(first), sizeof(first));
    return first;
}

Value StepPart::Extreme(const size_t number, const bool isLargest) const
{
    constexpr size_t bytes = 16;
    if (Extremes.size() < (number + 1) * bytes)
    {
        return {};
    }
    const char *found = Extremes.data() + number * bytes;
    const std::string &type = Layout->at(number).Type;
    if (type.rfind("uint", 0) == 0)
    {
        return Known<uint64_t>(found, isLargest);
    }
    const bool isSigned = type == "char" || type.rfind("int", 0) == 0;
    return isSigned ? Known<int64_t>(found, isLargest) : Known<double>(found, isLargest);
}

std::vector<StepPart> StepParts::Take(const Value &reply)
{
    std::vector<StepPart> parts;
    for (const Value &step : reply.ArrayAt("steps"))
    {
        const int64_t number = step.IntegerAt("layout");
        std::shared_ptr<const StoredLayout> &layout = m_Layouts[number];
        if (const Value *forms = step.Find("forms"))
        {
            layout = std::make_shared<const StoredLayout>(ReadLayout(forms->Items()));
        }
        if (!layout)
        {
            throw std::runtime_error("bbflow: a node named a layout without its forms");
        }
        parts.push_back({static_cast<int64_t>(step.UnsignedAt("step")), step.UnsignedAt("ranks"),
                         layout, step.BytesAt("sources"), step.BytesAt("extremes"),
                         step.ArrayAt("files"), step.ArrayAt("values"),
                         step.ArrayAt("attributes")});
    }
    return parts;
}

} // end namespace bbflow
