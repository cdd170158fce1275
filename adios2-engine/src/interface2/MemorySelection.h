#pragma once

#include <adios2.h>

namespace bbflow
{

/** Forgets a memory selection: memory is as large as what is selected. */
template <class T>
void ForgetMemorySelection(adios2::Variable<T> variable)
{
    variable.SetMemorySelection();
}

} // end namespace bbflow
