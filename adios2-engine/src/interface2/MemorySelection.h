#pragma once

#include <adios2.h>

namespace bbflow
{

/** Resets a memory selection to what is selected. */
template <class T>
void ForgetMemorySelection(adios2::Variable<T> variable)
{
    variable.SetMemorySelection();
}

} // end namespace bbflow
