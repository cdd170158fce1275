#include "MessagePack.h"

#include "Utf8.h"

#include <cstring>
#include <limits>
#include <stdexcept>

namespace bbflow
{

namespace
{

class Encoder
{
public:
    std::string Bytes;

    void operator()(std::monostate) { Byte(0xc0); }
    void operator()(bool value) { Byte(value ? 0xc3 : 0xc2); }

    void operator()(int64_t value)
    {
        if (value >= 0)
        {
            (*this)(static_cast<uint64_t>(value));
        }
        else if (value >= -32)
        {
            Byte(static_cast<uint8_t>(value));
        }
        else if (value >= std::numeric_limits<int8_t>::min())
        {
            Number(0xd0, static_cast<uint8_t>(value));
        }
        else if (value >= std::numeric_limits<int16_t>::min())
        {
            Number(0xd1, static_cast<uint16_t>(value));
        }
        else if (value >= std::numeric_limits<int32_t>::min())
        {
            Number(0xd2, static_cast<uint32_t>(value));
        }
        else
        {
            Number(0xd3, static_cast<uint64_t>(value));
        }
    }

    void operator()(uint64_t value)
    {
        if (value < 128)
        {
            Byte(static_cast<uint8_t>(value));
        }
        else
        {
            Sized(0xcc, 0xcd, 0xce, value);
        }
    }

    void operator()(double value)
    {
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        Number(0xcb, bits);
    }

    void operator()(const std::string &text)
    {
        const std::string valid = ToUtf8(text);
        if (valid.size() < 32)
        {
            Byte(static_cast<uint8_t>(0xa0 | valid.size()));
        }
        else
        {
            Sized(0xd9, 0xda, 0xdb, valid.size());
        }
        Bytes += valid;
    }

    void operator()(const Value::Binary &binary)
    {
        Sized(0xc4, 0xc5, 0xc6, binary.Bytes.size());
        Bytes += binary.Bytes;
    }

    void operator()(const Value::Array &array)
    {
        Collection(0x90, 0xdc, array.size());
        for (const Value &item : array)
        {
            std::visit(*this, item.Get());
        }
    }

    void operator()(const Value::Map &map)
    {
        Collection(0x80, 0xde, map.size());
        for (const auto &entry : map)
        {
            (*this)(entry.first);
            std::visit(*this, entry.second.Get());
        }
    }

private:
    void Byte(uint8_t byte) { Bytes.push_back(static_cast<char>(byte)); }

    template <class T>
    void Number(uint8_t tag, T value)
    {
        Byte(tag);
        for (size_t shift = 8 * sizeof(T); shift > 0; shift -= 8)
        {
            Byte(static_cast<uint8_t>(value >> (shift - 8)));
        }
    }

    void Sized(uint8_t tag8, uint8_t tag16, uint8_t tag32, uint64_t value)
    {
        if (value <= std::numeric_limits<uint8_t>::max())
        {
            Number(tag8, static_cast<uint8_t>(value));
        }
        else if (value <= std::numeric_limits<uint16_t>::max())
        {
            Number(tag16, static_cast<uint16_t>(value));
        }
        else if (value <= std::numeric_limits<uint32_t>::max())
        {
            Number(tag32, static_cast<uint32_t>(value));
        }
        else
        {
            Number(static_cast<uint8_t>(tag32 + 1), value);
        }
    }

    void Collection(uint8_t fixed, uint8_t tag16, size_t size)
    {
        if (size < 16)
        {
            Byte(static_cast<uint8_t>(fixed | size));
        }
        else if (size <= std::numeric_limits<uint16_t>::max())
        {
            Number(tag16, static_cast<uint16_t>(size));
        }
        else
        {
            Number(static_cast<uint8_t>(tag16 + 1), static_cast<uint32_t>(size));
        }
    }
};

class Decoder
{
public:
    explicit Decoder(std::string_view bytes) : m_Rest(bytes) {}

    bool AtEnd() const { return m_Rest.empty(); }

    Value Next(int depth = 0)
    {
        if (depth > MaxDepth)
        {
            Fail("is nested too deeply");
        }
        const uint8_t tag = static_cast<uint8_t>(Take(1)[0]);
        if (tag < 0x80)
        {
            return uint64_t{tag};
        }
        if (tag < 0x90)
        {
            return Map(tag & 0x0f, depth);
        }
        if (tag < 0xa0)
        {
            return Array(tag & 0x0f, depth);
        }
        if (tag < 0xc0)
        {
            return std::string(Take(tag & 0x1f));
        }
        if (tag >= 0xe0)
        {
            return int64_t{static_cast<int8_t>(tag)};
        }
        return Tagged(tag, depth);
    }

private:
    // Each level takes some of the stack, and what comes is the other side's choice.
    static constexpr int MaxDepth = 64;

    std::string_view m_Rest;

    [[noreturn]] static void Fail(const char *what)
    {
        throw std::runtime_error(std::string("bbflow: a message ") + what);
    }

    Value Tagged(uint8_t tag, int depth)
    {
        switch (tag)
        {
        case 0xc0:
            return {};
        case 0xc2:
            return false;
        case 0xc3:
            return true;
        case 0xca:
            return double{FromBits<float, uint32_t>()};
        case 0xcb:
            return FromBits<double, uint64_t>();
        case 0xcc:
        case 0xcd:
        case 0xce:
        case 0xcf:
            return Unsigned(1 << (tag - 0xcc));
        case 0xd0:
        case 0xd1:
        case 0xd2:
        case 0xd3:
            return Signed(1 << (tag - 0xd0));
        case 0xc4:
        case 0xc5:
        case 0xc6:
            return Value::Binary{std::string(Take(Unsigned(1 << (tag - 0xc4))))};
        case 0xd9:
        case 0xda:
        case 0xdb:
            return std::string(Take(Unsigned(1 << (tag - 0xd9))));
        case 0xdc:
        case 0xdd:
            return Array(Unsigned(2 << (tag - 0xdc)), depth);
        case 0xde:
        case 0xdf:
            return Map(Unsigned(2 << (tag - 0xde)), depth);
        default:
            Fail("holds a type that the format doesn't use");
        }
    }

    std::string_view Take(uint64_t size)
    {
        if (size > m_Rest.size())
        {
            Fail("ends too early");
        }
        const std::string_view taken = m_Rest.substr(0, size);
        m_Rest.remove_prefix(size);
        return taken;
    }

    uint64_t Unsigned(int bytes)
    {
        uint64_t value = 0;
        for (const char byte : Take(bytes))
        {
            value = value << 8 | static_cast<uint8_t>(byte);
        }
        return value;
    }

    int64_t Signed(int bytes)
    {
        const int unused = 64 - 8 * bytes;
        // Shifted back it has the sign: compilers of C++17 do so, and C++20 demands it.
        return static_cast<int64_t>(Unsigned(bytes) << unused) >> unused;
    }

    template <class T, class Bits>
    T FromBits()
    {
        const Bits bits = static_cast<Bits>(Unsigned(sizeof(Bits)));
        T value;
        std::memcpy(&value, &bits, sizeof(value));
        return value;
    }

    Value Array(uint64_t size, int depth)
    {
        Value::Array array; // grows with what is really there: the size is the peer's claim
        for (uint64_t i = 0; i < size; ++i)
        {
            array.push_back(Next(depth + 1));
        }
        return array;
    }

    Value Map(uint64_t size, int depth)
    {
        Value::Map map;
        for (uint64_t i = 0; i < size; ++i)
        {
            Value key = Next(depth + 1);
            const std::string *text = std::get_if<std::string>(&key.Get());
            if (!text)
            {
                Fail("has a key that is no text");
            }
            std::string name = *text;
            map.emplace_back(std::move(name), Next(depth + 1));
        }
        return map;
    }
};

} // end empty namespace

std::string EncodeMessagePack(const Value &value)
{
    Encoder encoder;
    std::visit(encoder, value.Get());
    return std::move(encoder.Bytes);
}

Value DecodeMessagePack(const std::string_view bytes)
{
    Decoder decoder(bytes);
    Value value = decoder.Next();
    if (!decoder.AtEnd())
    {
        throw std::runtime_error("bbflow: a message has bytes after its end");
    }
    return value;
}

} // end namespace bbflow
