#pragma once

#include <string>

namespace climate
{

/** The CF calendars that the model knows. */
enum class CalendarKind
{
    Standard,
    NoLeap,
    Days360
};

/** What CF calls a calendar. */
std::string NameOf(CalendarKind kind);

/** Fraction of its year, from 0 (start of 1 January) to 1, of a time in days since 2000-01-01. */
double YearFraction(CalendarKind kind, double days);

} // end namespace climate
