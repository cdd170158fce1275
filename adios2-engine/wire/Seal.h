#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bbflow
{

/** Of the format (FORMAT.md): contact files have it, and peers tell each other theirs. */
constexpr uint64_t FormatVersion = 5;

/** What one direction of a connection is checked by (FORMAT.md, "Seal"); both sides have one each,
 *  which count alike. */
class Seal
{
public:
    virtual ~Seal() = default;

    /** Bytes of what stands in a frame's header. */
    virtual size_t Size() const = 0;

    /** What belongs to the next frame. */
    virtual std::string OfFrame(std::string_view payload) = 0;

    /** What belongs to the next raw bytes. */
    virtual std::string OfRaw(std::string_view raw) = 0;
};

/** Compares in a time that doesn't tell where the difference is. */
bool AreEqual(std::string_view a, std::string_view b);

} // end namespace bbflow
