#include "IoVariables.h"

#include "MemorySelection.h"

#include <algorithm>
#include <complex>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** The largest count along each dimension: memory of this size holds any of the blocks. */
adios2::Dims LargestCount(const StoredVariable &variable)
{
    adios2::Dims largest = variable.Blocks.at(0).Place.Count;
    for (const StoredBlock &block : variable.Blocks)
    {
        for (size_t d = 0; d < largest.size(); ++d)
        {
            largest[d] = std::max(largest[d], block.Place.Count[d]);
        }
    }
    return largest;
}

size_t RankOf(const StoredVariable &variable)
{
    return variable.IsLocalArray() ? variable.Blocks.at(0).Place.Count.size()
                                   : variable.Shape.size();
}

std::string FormOf(const StoredVariable &variable)
{
    return variable.Type + (variable.IsGlobalArray() ? " global " : variable.Kind) +
           std::to_string(RankOf(variable));
}

template <class T>
void Define(adios2::IO &io, const std::string &name, const StoredVariable &variable)
{
    if (variable.IsGlobalArray())
    {
        io.DefineVariable<T>(name, variable.Shape, adios2::Dims(variable.Shape.size(), 0),
                             variable.Shape);
    }
    else if (variable.IsLocalArray())
    {
        io.DefineVariable<T>(name, {}, {}, LargestCount(variable));
    }
    else if (variable.Kind == "LocalValue") // text: ADIOS2 has no arrays of it
    {
        io.DefineVariable<T>(name, {adios2::LocalValueDim});
    }
    else
    {
        io.DefineVariable<T>(name);
    }
}

template <class T>
void Select(adios2::IO &io, const std::string &name, const StoredVariable &variable)
{
    adios2::Variable<T> shown = io.InquireVariable<T>(name);
    shown.SetBlockSelection(0);
    if (variable.IsGlobalArray())
    {
        shown.SetShape(variable.Shape);
        shown.SetSelection({adios2::Dims(variable.Shape.size(), 0), variable.Shape});
        ForgetMemorySelection(shown);
    }
    else if (variable.IsLocalArray())
    {
        shown.SetSelection({{}, LargestCount(variable)});
        ForgetMemorySelection(shown);
    }
}

} // end empty namespace

void IoVariables::Show(const std::map<std::string, StoredVariable> &variables)
{
    for (auto shown = m_Forms.begin(); shown != m_Forms.end();)
    {
        const auto variable = variables.find(shown->first);
        if (variable == variables.end() || FormOf(variable->second) != shown->second)
        {
            m_IO.RemoveVariable(shown->first);
            shown = m_Forms.erase(shown);
        }
        else
        {
            ++shown;
        }
    }
    for (const auto &[name, variable] : variables)
    {
        Show(name, variable);
    }
}

void IoVariables::Show(const std::string &name, const StoredVariable &variable)
{
    const bool isNew = m_Forms.count(name) == 0;
    if (isNew && !m_IO.VariableType(name).empty())
    {
        throw std::invalid_argument("bbflow: the stream has a variable " + name + ", which IO " +
                                    m_IO.Name() + " defines itself: read with an IO of its own");
    }
#define show(T)                                                                                    \
    if (variable.Type == adios2::GetType<T>())                                                     \
    {                                                                                              \
        isNew ? Define<T>(m_IO, name, variable) : void();                                          \
        Select<T>(m_IO, name, variable);                                                           \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(show)
#undef show
    m_Forms[name] = FormOf(variable);
}

void IoVariables::Clear() { Show({}); }

} // end namespace bbflow
