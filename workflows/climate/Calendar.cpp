#include "Calendar.h"

#include <cmath>

namespace climate
{

namespace
{

constexpr double DaysPer400Years = 146097;

int DaysIn(const int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365;
}

double StandardYearFraction(const double days)
{
    // The calendar repeats after 400 years, and 2000 begins such a cycle.
    double left = days - DaysPer400Years * std::floor(days / DaysPer400Years);
    int year = 2000;
    while (left >= DaysIn(year))
    {
        left -= DaysIn(year++);
    }
    return left / DaysIn(year);
}

} // namespace

std::string NameOf(const CalendarKind kind)
{
    switch (kind)
    {
    case CalendarKind::NoLeap:
        return "noleap";
    case CalendarKind::Days360:
        return "360_day";
    default:
        return "standard";
    }
}

double YearFraction(const CalendarKind kind, const double days)
{
    if (kind == CalendarKind::Standard)
    {
        return StandardYearFraction(days);
    }
    const double years = days / (kind == CalendarKind::NoLeap ? 365 : 360);
    return years - std::floor(years);
}

} // end namespace climate
