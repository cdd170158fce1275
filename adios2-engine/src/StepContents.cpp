#include "StepContents.h"

#include <adios2.h>

#include <algorithm>
#include <stdexcept>

namespace bbflow
{

namespace
{

std::vector<size_t> Dims(const Value &block, const char *key)
{
    std::vector<size_t> dims;
    for (const Value &length : block.ArrayAt(key))
    {
        dims.push_back(length.AsUnsigned());
    }
    return dims;
}

Value Optional(const Value &block, const char *key)
{
    const Value *value = block.Find(key);
    return value ? *value : Value{};
}

StoredBlock ReadBlock(const size_t node, const Value &record)
{
    StoredBlock block{
        node, record.UnsignedAt("rank"), {Dims(record, "start"), Dims(record, "count")}};
    block.Single = Optional(record, "value");
    block.Min = Optional(record, "min");
    block.Max = Optional(record, "max");
    if (block.Single.IsNil())
    {
        block.Offset = record.UnsignedAt("offset");
        block.Bytes = record.UnsignedAt("bytes");
        const Value *file = record.Find("file");
        block.File = file ? file->Text() : "";
    }
    return block;
}

/** Gives the blocks their places one behind the other along the joined dimension. */
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

std::map<std::string, StoredVariable> ReadStep(const std::vector<const Value *> &parts,
                                               const size_t writers)
{
    std::map<std::string, StoredVariable> variables;
    for (size_t node = 0; node < parts.size(); ++node)
    {
        if (parts[node] == nullptr)
        {
            continue;
        }
        for (const Value &record : parts[node]->ArrayAt("blocks"))
        {
            StoredVariable &variable = variables[record.StringAt("name")];
            variable.Type = record.StringAt("type");
            variable.Kind = record.StringAt("kind");
            variable.Shape = Dims(record, "shape"); // the last one counts, as with BP5
            variable.Blocks.push_back(ReadBlock(node, record));
        }
    }
    for (auto &[name, variable] : variables)
    {
        Finish(name, variable, writers);
    }
    return variables;
}

} // end namespace bbflow
