#pragma once

#include <string>

namespace bbflow
{

/** Counts how often this process has opened streams of one name, for `{open}` in the name. A name
 * is counted apart for writing and for reading. */
class OpenNumber
{
public:
    OpenNumber(std::string name, bool reads);

    /** The name with `{open}` replaced by the number of this open, from 1. */
    std::string Fill() const;

    /** This open has succeeded: the next one gets the next number. */
    void Count();

private:
    std::string m_Name;
    bool m_Reads;
};

} // end namespace bbflow
