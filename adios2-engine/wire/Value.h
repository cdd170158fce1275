#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace bbflow
{

/** A value as MessagePack and JSON know it: what messages and the contact file are made of. */
class Value
{
public:
    using Array = std::vector<Value>;
    /** Keeps the order in which keys were set, so that equal messages have equal bytes. */
    using Map = std::vector<std::pair<std::string, Value>>;

    /** Bytes that are no text, such as a table of numbers. */
    struct Binary
    {
        std::string Bytes;
    };
    using Variant = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string,
                                 Binary, Array, Map>;

    Value() = default;
    Value(bool value) : m_Value(value) {}
    Value(int value) : m_Value(int64_t{value}) {}
    Value(int64_t value) : m_Value(value) {}
    Value(uint64_t value) : m_Value(value) {}
    Value(double value) : m_Value(value) {}
    // Without it a literal would become a bool.
    Value(const char *value) : m_Value(std::string(value)) {}
    Value(std::string value) : m_Value(std::move(value)) {}
    Value(Binary value) : m_Value(std::move(value)) {}
    Value(Array value) : m_Value(std::move(value)) {}
    Value(Map value) : m_Value(std::move(value)) {}

    /** A list of unsigned numbers, such as a shape. */
    static Value FromDims(const std::vector<size_t> &dims);

    const Variant &Get() const { return m_Value; }
    bool IsNil() const { return std::holds_alternative<std::monostate>(m_Value); }

    /** The value of a map's key; nullptr if this is no map or has no such key. */
    const Value *Find(std::string_view key) const;

    /** What a key of a message holds.
     *  @throws std::runtime_error if it is missing or of another type */
    bool BoolAt(std::string_view key) const;
    uint64_t UnsignedAt(std::string_view key) const;
    int64_t IntegerAt(std::string_view key) const;
    const std::string &StringAt(std::string_view key) const;
    const std::string &BytesAt(std::string_view key) const;
    const Array &ArrayAt(std::string_view key) const;

    /** This value as a number that is not negative.
     *  @throws std::runtime_error if it is anything else */
    uint64_t AsUnsigned() const;

    /** This value as what its name says.
     *  @throws std::runtime_error if it is anything else */
    int64_t AsSigned() const;
    const std::string &Text() const { return As<std::string>("a text"); }
    const Array &Items() const { return As<Array>("a list"); }
    bool IsTrue() const { return As<bool>("true or false"); }

private:
    Variant m_Value;

    template <class T>
    const T &At(std::string_view key, const char *type) const;

    template <class T>
    const T &As(const char *type) const;
};

} // end namespace bbflow
