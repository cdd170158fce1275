#pragma once

#include <adios2.h>

namespace bbflow
{

/** Lets memory be as large as what is selected again. */
template <class T>
void ForgetMemorySelection(adios2::Variable<T> variable)
{
    variable.SetMemorySelection();
}

} // end namespace bbflow
