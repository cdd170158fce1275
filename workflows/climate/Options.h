#pragma once

#include "Calendar.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace climate
{

/** A flag that is unknown, or whose value can't be used. */
class BadOption : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

/** What the command line asks for. */
struct Options
{
    static constexpr size_t Never = std::numeric_limits<size_t>::max();

    size_t Latitudes = 96;
    size_t Longitudes = 192;
    size_t Levels = 4;
    size_t Steps = 120;
    size_t StepsPerDay = 4;
    CalendarKind Calendar = CalendarKind::Standard;
    uint64_t Seed = 1;
    std::string Config = "climate.xml";
    std::string Output = "climate.bp";
    size_t DieAtStep = Never;
    bool Physics = true;
    bool Help = false;

    /** @throws BadOption that says which flag, which value and what is allowed. */
    static Options Parse(int argc, char **argv);

    static std::string Usage();
};

} // end namespace climate
