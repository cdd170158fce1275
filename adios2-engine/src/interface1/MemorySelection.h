#pragma once

#include <adios2.h>
#include <adios2/core/Variable.h>

#include <cstring>

namespace bbflow
{

/** Forgets a memory selection: memory is as large as what is selected. ADIOS2 2.9's public class
 * can't. */
template <class T>
void ForgetMemorySelection(adios2::Variable<T> variable)
{
    adios2::core::Variable<T> *core;
    static_assert(sizeof variable == sizeof core);
    std::memcpy(&core, &variable, sizeof core);
    core->m_MemoryStart.clear();
    core->m_MemoryCount.clear();
}

} // end namespace bbflow
