#pragma once

#include <adios2.h>
#include <adios2/common/Selection.h>

#include <cstring>
#include <type_traits>

// What follows knows how ADIOS2 2.12 is made. Before a new version is let in here, see that the
// tests of selections pass with it.
#if ADIOS2_VERSION_MAJOR != 2 || ADIOS2_VERSION_MINOR != 12
#error "bbflow's engine was written for ADIOS2 2.12: use that, or see SelectionOf.h"
#endif

namespace bbflow
{

/** What a program has selected of a variable: box, block, steps and memory. ADIOS2's public class
 * gives start and count only, so that a block selection and a memory selection would go unseen.
 * Its core answers (`InferSelection` is declared in an installed header), and the public class is
 * nothing but a pointer to the core's variable. */
template <class T>
adios2::core::Selection SelectionOf(const adios2::Variable<T> &variable)
{
    static_assert(sizeof(adios2::Variable<T>) == sizeof(void *) &&
                  std::is_standard_layout_v<adios2::Variable<T>> &&
                  std::is_trivially_copyable_v<adios2::Variable<T>>);
    static_assert(std::is_same_v<decltype(&adios2::core::InferSelection),
                                 adios2::core::Selection (*)(const adios2::core::VariableBase &)>);
    const adios2::core::VariableBase *core = nullptr;
    std::memcpy(&core, &variable, sizeof(core));
    return adios2::core::InferSelection(*core);
}

} // end namespace bbflow
