#include "Attributes.h"

#include "MessagePack.h"
#include "Number.h"

#include <algorithm>

namespace bbflow
{

namespace
{

template <class T>
Value DataOf(adios2::IO &io, const std::string &name)
{
    const adios2::Attribute<T> attribute = io.InquireAttribute<T>(name);
    const std::vector<T> data = attribute.Data();
    if (attribute.IsValue())
    {
        return NumberOf(data.at(0));
    }
    Value::Array values;
    for (const T &item : data)
    {
        values.push_back(NumberOf(item));
    }
    return values;
}

Value DataOf(adios2::IO &io, const std::string &name, const std::string &type)
{
#define read(T)                                                                                    \
    if (type == adios2::GetType<T>())                                                              \
    {                                                                                              \
        return DataOf<T>(io, name);                                                                \
    }
    ADIOS2_FOREACH_ATTRIBUTE_STDTYPE_1ARG(read)
#undef read
    return {};
}

/** Whether another value would look different: ADIOS2 shows a number with six digits, but texts as
 * they are, between quotation marks of which they may have some. */
bool IsExact(const adios2::Params &description)
{
    const std::string &shown = description.at("Value");
    const auto marks = static_cast<size_t>(std::count(shown.begin(), shown.end(), '"'));
    return description.at("Type") == "string" &&
           marks == 2 * std::stoull(description.at("Elements"));
}

} // namespace

Value::Array Attributes::TakeChanged(adios2::IO &io, const size_t step)
{
    Value::Array changed;
    for (const auto &[name, description] : io.AvailableAttributes())
    {
        Sent &sent = m_Sent[name];
        const bool looksAsBefore = sent.Description == description;
        if (looksAsBefore && IsExact(description))
        {
            continue;
        }
        const std::string &type = description.at("Type");
        Value value = DataOf(io, name, type);
        std::string encoded = EncodeMessagePack(value);
        if (!looksAsBefore || sent.Encoded != encoded)
        {
            sent.Description = description;
            sent.Encoded = std::move(encoded);
            Value::Map told = {{"name", name}, {"type", type}, {"value", std::move(value)}};
            changed.push_back(told);
            told.emplace_back("since", uint64_t{step});
            sent.Told.resize(std::min<size_t>(sent.Told.size(), 2));
            sent.Told.push_back(std::move(told));
        }
    }
    return changed;
}

Value::Array Attributes::Told() const
{
    Value::Array all;
    for (const auto &[name, sent] : m_Sent)
    {
        all.insert(all.end(), sent.Told.begin(), sent.Told.end());
    }
    return all;
}

} // end namespace bbflow
