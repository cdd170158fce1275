#pragma once

#include <cstddef>
#include <cstring>

namespace bbflow
{

/** A std::string as libstdc++ lays it out since GCC 5, to read ADIOS2's and to hand it ours. The
 * class itself would bring a libstdc++ into every program that is started, and one that has a newer
 * one beside it (as conda's Python has) would end up with the older. */
struct Text
{
    static constexpr size_t Inside = 16;

    const char *Data;
    size_t Size;
    union
    {
        char Local[Inside];
        size_t Capacity;
    };
};

static_assert(sizeof(Text) == 32);

/** For a function that takes a std::string by value and doesn't change it. */
inline Text TextOf(const char *data)
{
    Text text{};
    text.Data = data;
    text.Size = text.Capacity = std::strlen(data);
    return text;
}

/** Whether there is a short std::string at an address: it points to its own inside, so that hardly
 * anything else looks like it. */
inline bool IsShortText(const char *at)
{
    Text text;
    std::memcpy(&text, at, sizeof text);
    return text.Data == at + offsetof(Text, Local) && text.Size < Text::Inside &&
           text.Local[text.Size] == '\0';
}

} // end namespace bbflow
