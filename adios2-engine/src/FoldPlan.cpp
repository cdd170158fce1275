#include "FoldPlan.h"

#include "ValueAs.h"

#include "Fold.h"

extern "C" const char *bbflow_missing_cpu(); // Cpu.cpp

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** Each accumulator begins at a multiple of this, as the block does. */
constexpr size_t StateAlignment = 64;

constexpr const char *TypeNames[] = {"int8_t",   "int16_t",  "int32_t",  "int64_t", "uint8_t",
                                     "uint16_t", "uint32_t", "uint64_t", "float",   "double"};
constexpr size_t TypeBytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
constexpr int Types = 10;

template <class T>
std::vector<T> ReadTable(const std::string &bytes)
{
    std::vector<T> numbers(bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
    return numbers;
}

/** @return null if there is none, or it can't be used */
std::shared_ptr<const HistogramBins> ReadBins(const Value::Array &row)
{
    if (row.size() < 5 || row[4].IsNil())
    {
        return nullptr;
    }
    const Value::Array &items = row[4].Items();
    const auto bins = std::make_shared<HistogramBins>();
    bins->Breaks = ReadTable<double>(std::get<Value::Binary>(items.at(0).Get()).Bytes);
    bins->Cells = ReadTable<int32_t>(std::get<Value::Binary>(items.at(1).Get()).Bytes);
    bins->Table = {bins->Breaks.data(),          bins->Cells.data(), ValueAs<double>(items.at(2)),
                   ValueAs<double>(items.at(3)), bins->Cells.size(), bins->Breaks.size(),
                   items.at(4).IsTrue()};
    const auto isRow = [&](const int32_t cell)
    { return cell >= 0 && static_cast<size_t>(cell) < bins->Breaks.size(); };
    const bool isWhole = !bins->Cells.empty() && bins->Breaks.size() > 1 &&
                         std::isnan(bins->Breaks.back()) &&
                         std::all_of(bins->Cells.begin(), bins->Cells.end(), isRow);
    return isWhole ? bins : nullptr;
}

FoldedVariable ReadVariable(const Value &row)
{
    const Value::Array &items = row.Items();
    FoldedVariable variable;
    variable.Name = items.at(0).Text();
    variable.Type = items.at(1).Text();
    variable.Fields = items.at(2).AsUnsigned();
    const std::string plain = variable.Type == "char" ? "int8_t" : variable.Type;
    const auto known = std::find(TypeNames, TypeNames + Types, plain);
    if (known != TypeNames + Types)
    {
        variable.Code = static_cast<int>(known - TypeNames);
        variable.ItemBytes = TypeBytes[variable.Code];
    }
    if (const auto *fill = std::get_if<Value::Binary>(&items.at(3).Get()))
    {
        variable.Fill = fill->Bytes;
    }
    variable.Histogram = ReadBins(items);
    return variable;
}

bool CanFold(const FoldedVariable &variable)
{
    const size_t rows = variable.Histogram ? variable.Histogram->Breaks.size() : 0;
    return variable.Code >= 0 && (variable.Fields & 1) != 0 &&
           (variable.Fields & 0xffffffff) >> BbflowAccumulators == rows << 2 &&
           (variable.Fill.empty() || variable.Fill.size() == variable.ItemBytes);
}

double NumberAt(const Value &plan, const char *key)
{
    const Value *const number = plan.Find(key);
    if (number == nullptr)
    {
        throw std::runtime_error(std::string("bbflow: a plan without ") + key);
    }
    return ValueAs<double>(*number);
}

} // end empty namespace

StatePlaces PlacesOf(const FoldedVariable &variable, const size_t points)
{
    const size_t own = variable.ItemBytes;
    const size_t item[BbflowAccumulators] = {sizeof(int32_t), own, sizeof(double),
                                             sizeof(double),  own, own};
    StatePlaces places;
    for (size_t field = 0; field < BbflowAccumulators; ++field)
    {
        const bool isKept = (variable.Fields >> field & 1) != 0;
        places.Begins.push_back(isKept ? std::optional<size_t>(places.Bytes) : std::nullopt);
        const size_t bytes = isKept ? points * item[field] : 0;
        places.Bytes += (bytes + StateAlignment - 1) / StateAlignment * StateAlignment;
    }
    if (variable.Histogram)
    {
        const size_t bytes = points * variable.Histogram->Breaks.size() * sizeof(int32_t);
        places.Counts = places.Bytes;
        places.Bytes += (bytes + StateAlignment - 1) / StateAlignment * StateAlignment;
    }
    return places;
}

std::optional<FoldPlan> FoldPlan::Read(const Value &plan)
{
    if (plan.IsNil() || *bbflow_missing_cpu() != '\0')
    {
        return std::nullopt;
    }
    FoldPlan read;
    read.m_TimeName = plan.StringAt("time");
    read.m_First = plan.UnsignedAt("first");
    read.m_Begins = NumberAt(plan, "begins");
    read.m_Interval = NumberAt(plan, "interval");
    read.m_Tolerance = NumberAt(plan, "tolerance");
    read.m_DeviceBytes = plan.UnsignedAt("device_bytes");
    read.m_Ends = ReadTable<uint64_t>(plan.BytesAt("ends"));
    for (const Value &name : plan.ArrayAt("wanted"))
    {
        read.m_Wanted.push_back(name.Text());
    }
    if (const Value *const steady = plan.Find("steady"))
    {
        for (const Value &name : steady->Items())
        {
            read.m_Steady.push_back(name.Text());
        }
    }
    for (const Value &row : plan.ArrayAt("variables"))
    {
        read.m_Variables.push_back(ReadVariable(row));
        if (!CanFold(read.m_Variables.back()))
        {
            return std::nullopt;
        }
    }
    return read;
}

bool FoldPlan::Covers(const size_t step) const
{
    return step >= m_First && !m_Ends.empty() && step <= m_Ends.back();
}

bool FoldPlan::EndsAt(const size_t step) const
{
    return std::binary_search(m_Ends.begin(), m_Ends.end(), step);
}

size_t FoldPlan::EndOf(const size_t step) const
{
    return *std::lower_bound(m_Ends.begin(), m_Ends.end(), step);
}

bool FoldPlan::IsDue(const size_t step, const double time) const
{
    const double due = m_Begins + static_cast<double>(step - m_First) * m_Interval;
    return std::abs(time - due) <= m_Tolerance;
}

bool FoldPlan::Leaves(const std::string &name) const
{
    const auto is = [&](const FoldedVariable &own) { return own.Name == name; };
    return std::find(m_Wanted.begin(), m_Wanted.end(), name) == m_Wanted.end() &&
           std::none_of(m_Variables.begin(), m_Variables.end(), is);
}

bool FoldPlan::IsSteady(const std::string &name) const
{
    return std::find(m_Steady.begin(), m_Steady.end(), name) != m_Steady.end();
}

const FoldedVariable *FoldPlan::Find(const BlockForm &form) const
{
    const auto is = [&](const FoldedVariable &own)
    { return own.Name == form.Name && own.Type == form.Type; };
    const auto known = std::find_if(m_Variables.begin(), m_Variables.end(), is);
    const bool isArray = std::strcmp(form.Kind, "GlobalArray") == 0;
    return known == m_Variables.end() || !isArray ? nullptr : &*known;
}

} // end namespace bbflow
