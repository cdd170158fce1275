#pragma once

#include "Parameters.h"

#include <string>

namespace bbflow
{

/** Reports to the stream's BB node that the program was refused something, once in a process for
 * each stream: programs in C and Fortran often don't look, and what they wrote would seem to be
 * all. Where no node takes it, `bbflow run` is told (FORMAT.md, "Selection from outside").
 *  @param said to the program */
void TellRefusal(const Parameters &parameters, const std::string &said) noexcept;

/** The parameters of an Open that was refused: as far as they can be known if one of them is why.
 */
Parameters GuessParameters(const std::map<std::string, std::string> &given,
                           const std::string &ioName, const Opened &opened);

/** Does an Open, and tells if one to write is refused.
 *  @param io what opens: an adios2::IO
 *  @param opened what is known beside its parameters
 *  @param open does it */
template <class Io, class Open>
auto OpenOrTell(Io io, const Opened &opened, const bool writes, const Open &open)
{
    try
    {
        return open();
    }
    catch (const std::exception &error)
    {
        if (writes)
        {
            TellRefusal(GuessParameters(io.Parameters(), io.Name(), opened), error.what());
        }
        throw;
    }
}

} // end namespace bbflow
