#include "Attributes.h"

#include "MessagePack.h"
#include "Number.h"

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

/** ADIOS2 shows a number with six digits, but the one text of an attribute as it is. */
bool IsExact(const adios2::Params &description)
{
    return description.at("Type") == "string" && description.at("Value").front() == '"';
}

} // namespace

Value::Array Attributes::TakeChanged(adios2::IO &io)
{
    Value::Array changed;
    for (const auto &[name, description] : io.AvailableAttributes())
    {
        Sent &sent = m_Sent[name];
        if (sent.Description == description && IsExact(description))
        {
            continue;
        }
        const std::string type = io.AttributeType(name);
        Value attribute =
            Value::Map{{"name", name}, {"type", type}, {"value", DataOf(io, name, type)}};
        std::string encoded = EncodeMessagePack(attribute);
        sent.Description = description;
        if (sent.Encoded != encoded)
        {
            sent.Encoded = std::move(encoded);
            changed.push_back(std::move(attribute));
        }
    }
    return changed;
}

} // end namespace bbflow
