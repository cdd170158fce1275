#include "Attributes.h"

#include "BlockRecord.h"

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

} // end empty namespace

Value::Array Attributes::TakeChanged(adios2::IO &io)
{
    Value::Array changed;
    for (const auto &[name, description] : io.AvailableAttributes())
    {
        const auto sent = m_Sent.find(name);
        if (sent != m_Sent.end() && sent->second == description)
        {
            continue;
        }
        m_Sent[name] = description;
        const std::string type = io.AttributeType(name);
        changed.push_back(
            Value::Map{{"name", name}, {"type", type}, {"value", DataOf(io, name, type)}});
    }
    return changed;
}

} // end namespace bbflow
