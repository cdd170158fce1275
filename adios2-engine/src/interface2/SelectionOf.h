#pragma once

#include "Selection.h"

#include <adios2.h>
#include <adios2/common/Selection.h>

#include <cstring>
#include <type_traits>

namespace bbflow
{

/** The same in our words. */
inline Selection SelectionOf(const adios2::core::Selection &given)
{
    Selection selection;
    selection.IsBox = given.GetSelectionType() == adios2::SelectionType::BoundingBox;
    selection.Start = given.GetStart();
    selection.Count = given.GetCount();
    if (given.HasBlockSelection())
    {
        selection.Block = given.GetBlockID();
    }
    selection.HasMemory = given.HasMemorySelection();
    selection.MemoryStart = given.GetMemoryStart();
    selection.MemoryCount = given.GetMemoryCount();
    selection.StepStart = given.GetStepStart();
    selection.StepCount = given.GetStepCount();
    return selection;
}

/** What a program has selected of a variable. ADIOS2's public class gives start and count only, so
 * that a block selection and a memory selection would go unseen. Its core answers
 * (`InferSelection` is declared in an installed header), and the public class is nothing but a
 * pointer to the core's variable. */
template <class T>
Selection SelectionOf(const adios2::Variable<T> &variable)
{
    static_assert(sizeof(adios2::Variable<T>) == sizeof(void *) &&
                  std::is_standard_layout_v<adios2::Variable<T>> &&
                  std::is_trivially_copyable_v<adios2::Variable<T>>);
    static_assert(std::is_same_v<decltype(&adios2::core::InferSelection),
                                 adios2::core::Selection (*)(const adios2::core::VariableBase &)>);
    const adios2::core::VariableBase *core = nullptr;
    std::memcpy(&core, &variable, sizeof(core));
    return SelectionOf(adios2::core::InferSelection(*core));
}

} // end namespace bbflow
