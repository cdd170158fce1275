#include "StepContents.h"

#include <adios2.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** Takes one node's part in.
 *  @param add takes a form and its block */
template <class Add>
void ReadPart(const size_t node, const StepPart &part, Add add)
{
    size_t singles = 0;
    for (size_t i = 0; i < part.Layout->size(); ++i)
    {
        const StoredForm &form = (*part.Layout)[i];
        if (form.IsFolded)
        {
            continue; // its values are nowhere any more
        }
        StoredBlock block{node, form.Rank, {form.Start, form.Count}};
        if (form.Bytes == 0)
        {
            block.Single = part.Values.at(singles++);
        }
        else
        {
            block.Offset = form.Place + (form.IsSpilled ? 0 : part.Source(form.Source));
            block.Bytes = form.Bytes;
            block.File = form.IsSpilled ? part.Files.at(form.Source).Text() : "";
            block.Min = part.Extreme(i, false);
            block.Max = part.Extreme(i, true);
        }
        add(form, std::move(block));
    }
}

/** Gives the blocks their places one after another along the joined dimension. */
void Join(StoredVariable &variable)
{
    const auto joined = std::find(variable.Shape.begin(), variable.Shape.end(), adios2::JoinedDim);
    const size_t d = static_cast<size_t>(joined - variable.Shape.begin());
    size_t length = 0;
    for (StoredBlock &block : variable.Blocks)
    {
        block.Place.Start.assign(variable.Shape.size(), 0);
        block.Place.Start.at(d) = length;
        length += block.Place.Count.at(d);
    }
    variable.Shape.at(d) = length;
}

void Check(const std::string &name, const StoredVariable &variable)
{
    const size_t rank =
        variable.IsLocalArray() ? variable.Blocks[0].Place.Count.size() : variable.Shape.size();
    for (const StoredBlock &block : variable.Blocks)
    {
        const bool isWhole = block.Single.IsNil() == !variable.IsSingle() &&
                             block.Place.Start.size() == rank && block.Place.Count.size() == rank;
        if (!isWhole)
        {
            throw std::runtime_error("bbflow: a block of " + name +
                                     " has other dimensions than the rest of its step");
        }
    }
}

void Finish(const std::string &name, StoredVariable &variable, const size_t writers)
{
    std::stable_sort(variable.Blocks.begin(), variable.Blocks.end(),
                     [](const StoredBlock &a, const StoredBlock &b) { return a.Rank < b.Rank; });
    if (variable.Kind == "JoinedArray")
    {
        Join(variable);
    }
    else if (variable.Kind == "GlobalValue") // as BP5: the first rank's, as it was Put last
    {
        const auto isOther = [&](const StoredBlock &block)
        { return block.Rank != variable.Blocks[0].Rank; };
        const auto end = std::find_if(variable.Blocks.begin(), variable.Blocks.end(), isOther);
        variable.Blocks = {*std::prev(end)};
    }
    else if (variable.Kind == "LocalValue")
    {
        variable.Shape = {writers};
    }
    for (StoredBlock &block : variable.Blocks)
    {
        if (variable.Kind == "LocalValue")
        {
            block.Place = {{block.Rank}, {1}};
        }
        else if (variable.Kind == "GlobalValue")
        {
            block.Place = {};
        }
        else if (variable.IsLocalArray())
        {
            block.Place.Start.assign(block.Place.Count.size(), 0);
        }
    }
    Check(name, variable);
}

} // end empty namespace

bool StoredVariable::IsSingle() const { return Kind == "GlobalValue" || Kind == "LocalValue"; }

bool StoredVariable::IsGlobalArray() const
{
    return Kind == "GlobalArray" || Kind == "JoinedArray" ||
           (Kind == "LocalValue" && Type != "string");
}

std::map<std::string, StoredVariable> ReadStep(const std::vector<const StepPart *> &parts,
                                               const size_t writers)
{
    std::map<std::string, StoredVariable> variables;
    const auto add = [&](const StoredForm &form, StoredBlock block)
    {
        StoredVariable &variable = variables[form.Name];
        variable.Type = form.Type;
        variable.Kind = form.Kind;
        variable.Shape = form.Shape; // the last one counts, as with BP5
        variable.Blocks.push_back(std::move(block));
    };
    for (size_t node = 0; node < parts.size(); ++node)
    {
        if (parts[node] != nullptr)
        {
            ReadPart(node, *parts[node], add);
        }
    }
    for (auto &[name, variable] : variables)
    {
        Finish(name, variable, writers);
    }
    return variables;
}

} // end namespace bbflow
