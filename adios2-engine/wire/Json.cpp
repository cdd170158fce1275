#include "Json.h"

#include "Decimal.h"
#include "Utf8.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>

namespace bbflow
{

namespace
{

class Parser
{
public:
    explicit Parser(std::string_view text) : m_Text(text) {}

    Value Document()
    {
        Value value = Next(0);
        SkipSpace();
        if (m_At != m_Text.size())
        {
            Fail();
        }
        return value;
    }

private:
    static constexpr int MaxDepth = 64;

    std::string_view m_Text;
    size_t m_At = 0;

    [[noreturn]] void Fail() const
    {
        throw std::runtime_error("no JSON at byte " + std::to_string(m_At));
    }

    void SkipSpace() { m_At = std::min(m_Text.find_first_not_of(" \t\r\n", m_At), m_Text.size()); }

    bool TakeIf(std::string_view word)
    {
        if (m_Text.substr(m_At, word.size()) != word)
        {
            return false;
        }
        m_At += word.size();
        return true;
    }

    void Expect(std::string_view word)
    {
        SkipSpace();
        if (!TakeIf(word))
        {
            Fail();
        }
    }

    Value Next(int depth)
    {
        SkipSpace();
        if (depth > MaxDepth || m_At == m_Text.size())
        {
            Fail();
        }
        switch (m_Text[m_At])
        {
        case '{':
            return Object(depth);
        case '[':
            return List(depth);
        case '"':
            return Text();
        default:
            return Scalar();
        }
    }

    Value Object(int depth)
    {
        Value::Map map;
        Expect("{");
        SkipSpace();
        if (TakeIf("}"))
        {
            return map;
        }
        do
        {
            SkipSpace();
            std::string key = Text();
            Expect(":");
            map.emplace_back(std::move(key), Next(depth + 1));
            SkipSpace();
        } while (TakeIf(","));
        Expect("}");
        return map;
    }

    Value List(int depth)
    {
        Value::Array array;
        Expect("[");
        SkipSpace();
        if (TakeIf("]"))
        {
            return array;
        }
        do
        {
            array.push_back(Next(depth + 1));
            SkipSpace();
        } while (TakeIf(","));
        Expect("]");
        return array;
    }

    Value Scalar()
    {
        if (TakeIf("true"))
        {
            return true;
        }
        if (TakeIf("false"))
        {
            return false;
        }
        if (TakeIf("null"))
        {
            return {};
        }
        const size_t end =
            std::min(m_Text.find_first_not_of("+-.0123456789eE", m_At), m_Text.size());
        const std::string number(m_Text.substr(m_At, end - m_At));
        const bool whole = number.find_first_of(".eE") == std::string::npos;
        const Value value = whole ? Whole(number) : Fraction(number);
        m_At = end;
        return value;
    }

    /** An integer of at most 64 bits; a larger one would not be the number that was written. */
    Value Whole(const std::string_view number) const
    {
        int64_t with_sign = 0;
        if (Takes(number, with_sign))
        {
            return with_sign;
        }
        uint64_t without = 0;
        if (!Takes(number, without))
        {
            Fail();
        }
        return without;
    }

    template <class T>
    static bool Takes(const std::string_view text, T &number, const int base = 10)
    {
        const char *const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, number, base);
        return error == std::errc() && stop == end;
    }

    Value Fraction(const std::string &number) const
    {
        const std::optional<double> value = ReadDecimal(number);
        if (number[0] == '+' || !value)
        {
            Fail();
        }
        return *value;
    }

    std::string Text()
    {
        std::string text;
        if (!TakeIf("\""))
        {
            Fail();
        }
        while (!TakeIf("\""))
        {
            if (m_At == m_Text.size())
            {
                Fail();
            }
            const char character = m_Text[m_At++];
            if (character == '\\')
            {
                Escape(text);
            }
            else
            {
                text.push_back(character);
            }
        }
        return text;
    }

    void Escape(std::string &text)
    {
        static constexpr std::string_view letters = "\"\\/bfnrt";
        static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
        if (TakeIf("u"))
        {
            AppendUtf8(text, CodePoint());
            return;
        }
        const size_t letter =
            m_At < m_Text.size() ? letters.find(m_Text[m_At]) : std::string_view::npos;
        if (letter == std::string_view::npos)
        {
            Fail();
        }
        text.push_back(meanings[letter]);
        ++m_At;
    }

    /** One character, of which two surrogates make one; one of them alone is none. */
    unsigned CodePoint()
    {
        const unsigned code = Hex();
        if (code < 0xd800 || code > 0xdfff)
        {
            return code;
        }
        const unsigned low = code < 0xdc00 && TakeIf("\\u") ? Hex() : 0;
        if (low < 0xdc00 || low > 0xdfff)
        {
            Fail();
        }
        return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }

    unsigned Hex()
    {
        const std::string_view digits = m_Text.substr(m_At, 4);
        unsigned code = 0;
        if (digits.size() != 4 || !Takes(digits, code, 16))
        {
            Fail();
        }
        m_At += 4;
        return code;
    }
};

} // end empty namespace

Value ParseJson(const std::string_view text) { return Parser(text).Document(); }

} // end namespace bbflow
