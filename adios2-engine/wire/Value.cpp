#include "Value.h"

#include <stdexcept>

namespace bbflow
{

Value Value::FromDims(const std::vector<size_t> &dims)
{
    Array array;
    array.reserve(dims.size());
    for (const size_t dim : dims)
    {
        array.emplace_back(uint64_t{dim});
    }
    return array;
}

const Value *Value::Find(const std::string_view key) const
{
    if (const Map *map = std::get_if<Map>(&m_Value))
    {
        for (const auto &entry : *map)
        {
            if (entry.first == key)
            {
                return &entry.second;
            }
        }
    }
    return nullptr;
}

template <class T>
const T &Value::At(const std::string_view key, const char *type) const
{
    const Value *value = Find(key);
    const T *held = value ? std::get_if<T>(&value->m_Value) : nullptr;
    if (!held)
    {
        throw std::runtime_error("bbflow: '" + std::string(key) + "' is missing or is not " + type);
    }
    return *held;
}

bool Value::BoolAt(const std::string_view key) const { return At<bool>(key, "true or false"); }

const std::string &Value::StringAt(const std::string_view key) const
{
    return At<std::string>(key, "a text");
}

const std::string &Value::BytesAt(const std::string_view key) const
{
    return At<Binary>(key, "bytes").Bytes;
}

const Value::Array &Value::ArrayAt(const std::string_view key) const
{
    return At<Array>(key, "a list");
}

uint64_t Value::UnsignedAt(const std::string_view key) const
{
    const Value *value = Find(key);
    if (!value)
    {
        throw std::runtime_error("bbflow: '" + std::string(key) + "' is missing");
    }
    return value->AsUnsigned();
}

int64_t Value::IntegerAt(const std::string_view key) const
{
    const Value *value = Find(key);
    return value && std::holds_alternative<int64_t>(value->m_Value) ? value->AsSigned()
                                                                    : int64_t(UnsignedAt(key));
}

uint64_t Value::AsUnsigned() const
{
    if (const uint64_t *number = std::get_if<uint64_t>(&m_Value))
    {
        return *number;
    }
    const int64_t *number = std::get_if<int64_t>(&m_Value);
    if (!number || *number < 0)
    {
        throw std::runtime_error("bbflow: a number that is not negative was expected");
    }
    return static_cast<uint64_t>(*number);
}

int64_t Value::AsSigned() const
{
    const int64_t *number = std::get_if<int64_t>(&m_Value);
    return number ? *number : static_cast<int64_t>(AsUnsigned());
}

template <class T>
const T &Value::As(const char *type) const
{
    const T *held = std::get_if<T>(&m_Value);
    if (!held)
    {
        throw std::runtime_error("bbflow: " + std::string(type) + " was expected in a message");
    }
    return *held;
}

template const bool &Value::As(const char *) const;
template const std::string &Value::As(const char *) const;
template const Value::Array &Value::As(const char *) const;

} // end namespace bbflow
