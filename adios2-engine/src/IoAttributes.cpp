#include "IoAttributes.h"

#include "ValueAs.h"

#include <algorithm>
#include <variant>
#include <vector>

namespace bbflow
{

namespace
{

constexpr bool MayChange = true;

bool IsList(const Value &value) { return std::holds_alternative<Value::Array>(value.Get()); }

/** Whether it is an array attribute; a single complex number is a list too, of two numbers. */
template <class T>
bool IsArray(const Value &value)
{
    constexpr bool isComplex = !std::is_arithmetic_v<T> && !std::is_same_v<T, std::string>;
    return IsList(value) &&
           (!isComplex || (!value.Items().empty() && IsList(value.Items().front())));
}

template <class T>
void Define(adios2::IO &io, const std::string &name, const Value &value)
{
    if (!IsArray<T>(value))
    {
        io.DefineAttribute<T>(name, ValueAs<T>(value), "", "/", MayChange);
        return;
    }
    std::vector<T> items;
    for (const Value &item : value.Items())
    {
        items.push_back(ValueAs<T>(item));
    }
    io.DefineAttribute<T>(name, items.data(), items.size(), "", "/", MayChange);
}

} // end empty namespace

void ShowAttribute(adios2::IO &io, const Value &attribute)
{
    const std::string &name = attribute.StringAt("name");
    const std::string &type = attribute.StringAt("type");
    const Value *value = attribute.Find("value");
    if (const std::string shown = io.AttributeType(name); !shown.empty() && shown != type)
    {
        io.RemoveAttribute(name); // ADIOS2 can't change a type
    }
#define define(T)                                                                                  \
    if (type == adios2::GetType<T>() && value != nullptr)                                          \
    {                                                                                              \
        Define<T>(io, name, *value);                                                               \
    }
    ADIOS2_FOREACH_ATTRIBUTE_STDTYPE_1ARG(define)
#undef define
}

} // end namespace bbflow
