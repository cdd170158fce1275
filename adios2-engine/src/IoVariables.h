#pragma once

#include "StepContents.h"

#include <adios2.h>

#include <map>
#include <string>

namespace bbflow
{

/** The variables that a reader shows in its IO. Handles of a program stay valid from step to step
 * as long as each step has the variable with the same type and rank. */
class IoVariables
{
public:
    explicit IoVariables(adios2::IO io) : m_IO(io) {}

    /** Shows these variables and no others; their selection is the whole array again.
     *  @throws std::invalid_argument if the program has a variable of such a name itself */
    void Show(const std::map<std::string, StoredVariable> &variables);

    /** Shows none. */
    void Clear();

private:
    adios2::IO m_IO;
    std::map<std::string, std::string> m_Forms; // of what is shown: all that SetShape can't change

    void Show(const std::string &name, const StoredVariable &variable);
};

} // end namespace bbflow
