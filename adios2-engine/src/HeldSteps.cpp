#include "HeldSteps.h"

#include "Fold.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>

namespace bbflow
{

namespace
{

/** So many steps are folded at once: a state has several times a block's bytes, and all of them
 * pass through the caches each time. */
constexpr size_t FoldedSteps = 8;

constexpr size_t Alignment = 64;
constexpr size_t Page = 4096; // extents are whole pages

size_t Pages(const size_t bytes) { return (bytes + Page - 1) / Page; }

bool IsSame(const Block &a, const Block &b)
{
    return (a.Bytes == 0) == (b.Bytes == 0) && a.Form == b.Form;
}

/** Whether a GPU's kernel has room for what a variable's fold is told. */
bool FitsDevice(const FoldedVariable &variable)
{
    return !variable.Histogram || variable.Histogram->Breaks.size() <= FoldTask::MostRows;
}

} // end empty namespace

void HeldSteps::Keep(Block &block)
{
    if (block.Bytes > 0 && !block.Own && block.OnDevice.empty())
    {
        block.Own = Memory(block.Bytes);
        std::memcpy(block.Own.get(), block.Source, block.Bytes);
        block.Source = block.Own.get();
    }
}

void HeldSteps::KeepFromDevice(const FoldPlan &plan, Block &block)
{
    const FoldedVariable *const variable = plan.Find(block.Form);
    if (plan.DeviceBytes() > 0 && variable != nullptr && FitsDevice(*variable))
    {
        block.OwnOnDevice = m_Device.Keep(block.OnDevice, plan.DeviceBytes());
    }
    if (!block.OwnOnDevice)
    {
        ReadFromDevice(block);
        return;
    }
    block.Source = block.OwnOnDevice.get();
    block.OnDevice = {{block.Source, block.Bytes, 1, block.Bytes}};
}

/** From here on a block is one of the host's. */
void HeldSteps::ReadFromDevice(Block &block)
{
    block.Source = m_Device.Read(block.OnDevice);
    block.OnDevice.clear();
    block.OwnOnDevice.reset();
    Keep(block); // the next one is read into the same memory
}

bool HeldSteps::AreKnown(const FoldPlan &plan, const std::vector<Block> &blocks) const
{
    const auto isSeen = [&](const Block &block)
    {
        return !plan.IsSteady(block.Form.Name) ||
               std::any_of(m_Steady.begin(), m_Steady.end(),
                           [&](const Steady &known)
                           {
                               return known.Form == block.Form &&
                                      known.Bytes == std::string_view(block.Source, block.Bytes);
                           });
    };
    return std::all_of(blocks.begin(), blocks.end(),
                       [&](const Block &block)
                       {
                           return block.Bytes == 0 || plan.Find(block.Form) != nullptr ||
                                  (plan.Leaves(block.Form.Name) && isSeen(block));
                       });
}

void HeldSteps::KeepSteady(const FoldPlan &plan, const std::vector<Block> &blocks)
{
    std::vector<Steady> landed;
    for (const Block &block : blocks)
    {
        if (block.Bytes > 0 && plan.IsSteady(block.Form.Name) && plan.Leaves(block.Form.Name))
        {
            const auto is = [&](const Steady &own) { return own.Form == block.Form; };
            landed.erase(std::remove_if(landed.begin(), landed.end(), is), landed.end());
            landed.push_back({block.Form, std::string(block.Source, block.Bytes)});
        }
    }
    // Of an array whose blocks are others in each step the earlier ones would only become more.
    for (Steady &known : m_Steady)
    {
        const auto is = [&](const Steady &own) { return own.Form.Name == known.Form.Name; };
        if (std::none_of(landed.begin(), landed.end(), is))
        {
            landed.push_back(std::move(known));
        }
    }
    m_Steady = std::move(landed);
}

void HeldSteps::LeaveOut(const FoldPlan &plan, std::vector<Block> &blocks)
{
    std::vector<Block> kept;
    for (size_t i = 0; i < blocks.size(); ++i)
    {
        const auto next = blocks.begin() + static_cast<std::ptrdiff_t>(i) + 1;
        const bool isRepeated = std::any_of(next, blocks.end(), [&](const Block &later)
                                            { return IsSame(blocks[i], later); });
        if (blocks[i].Bytes == 0 || !(isRepeated || plan.Leaves(blocks[i].Form.Name)))
        {
            kept.push_back(std::move(blocks[i]));
        }
    }
    blocks = std::move(kept);
}

bool HeldSteps::IsAlike(const std::vector<Block> &blocks) const
{
    return m_Like.size() == blocks.size() &&
           std::equal(m_Like.begin(), m_Like.end(), blocks.begin(),
                      [](const Block &like, const Block &block)
                      {
                          return (like.Folded != 0) == (block.Bytes > 0) &&
                                 like.OnDevice.empty() == block.OnDevice.empty() &&
                                 like.Form == block.Form;
                      });
}

void HeldSteps::Add(const FoldPlan &plan, const size_t step, std::vector<Block> blocks,
                    Value::Array attributes)
{
    if (IsEmpty())
    {
        Begin(plan, blocks);
        m_First = step;
        m_Began = std::chrono::steady_clock::now();
    }
    m_Steps.push_back({{}, std::move(attributes)});
    size_t array = 0;
    for (Block &block : blocks)
    {
        if (block.Bytes == 0)
        {
            m_Steps.back().Values.push_back(std::move(block.Single));
            continue;
        }
        State &state = m_States[array++];
        const bool isFolded = state.Blocks.size() + 1 >= (state.IsBegun ? FoldedSteps : m_Most);
        if (!isFolded)
        {
            Keep(block);
        }
        state.Blocks.push_back(std::move(block));
        if (isFolded)
        {
            Fold(state);
        }
    }
}

/** Makes room for the states of a step's blocks, unless it is there. */
void HeldSteps::Begin(const FoldPlan &plan, std::vector<Block> &blocks)
{
    std::vector<State> states;
    m_Like.clear();
    size_t known = 0;
    for (Block &block : blocks)
    {
        m_Like.emplace_back();
        m_Like.back().Form = block.Form;
        if (block.Bytes == 0)
        {
            continue;
        }
        m_Like.back().Folded = -1;
        State state;
        state.Variable = *plan.Find(block.Form);
        state.Points = block.Bytes / state.Variable.ItemBytes;
        state.Places = PlacesOf(state.Variable, state.Points);
        if (!block.OnDevice.empty())
        {
            state.OnDevice = m_Device.Room(block.Source, state.Places.Bytes, plan.DeviceBytes());
            if (!state.OnDevice)
            {
                ReadFromDevice(block);
            }
            m_Like.back().OnDevice = block.OnDevice;
        }
        if (state.OnDevice)
        {
            states.push_back(std::move(state));
            continue;
        }
        if (known < m_States.size() && m_States[known].Memory &&
            m_States[known].Places.Bytes == state.Places.Bytes)
        {
            state.Memory = std::move(m_States[known].Memory);
        }
        else
        {
            state.Memory.reset(
                static_cast<char *>(std::aligned_alloc(Alignment, state.Places.Bytes)));
        }
        if (!state.Memory)
        {
            throw std::bad_alloc();
        }
        ++known;
        states.push_back(std::move(state));
    }
    m_States = std::move(states);
    m_Most = std::max(FoldedSteps, MostAsTheyAre() + 1);
    // Blocks whose sizes change with each step would leave memory of every size behind.
    for (auto spare = m_Spare.begin(); spare != m_Spare.end();)
    {
        const bool isUsed = std::any_of(m_States.begin(), m_States.end(), [&](const State &state)
                                        { return state.BlockBytes() == spare->first; });
        spare = isUsed ? std::next(spare) : m_Spare.erase(spare);
    }
}

std::unique_ptr<char[]> HeldSteps::Memory(const size_t bytes)
{
    const auto spare = m_Spare.find(bytes);
    if (spare == m_Spare.end())
    {
        return std::unique_ptr<char[]>(new char[bytes]);
    }
    std::unique_ptr<char[]> memory = std::move(spare->second);
    m_Spare.erase(spare);
    return memory;
}

/** So many steps take less room as they are than as states. */
size_t HeldSteps::MostAsTheyAre() const
{
    size_t blocks = 0, states = 0;
    for (const State &state : m_States)
    {
        if (state.OnDevice) // there is little memory there
        {
            return 0;
        }
        blocks += Arena::Padded(state.BlockBytes());
        states += state.Places.Bytes;
    }
    return Pages(states) / Pages(blocks);
}

bool HeldSteps::AreSmaller() const
{
    size_t blocks = 0, states = 0;
    for (const State &state : m_States)
    {
        blocks += Arena::Padded(state.BlockBytes());
        states += state.Places.Bytes;
        if (state.IsBegun)
        {
            return false;
        }
    }
    return m_Steps.size() * Pages(blocks) <= Pages(states);
}

std::vector<Block> HeldSteps::TakeFirst()
{
    std::vector<Block> blocks;
    size_t array = 0, single = 0;
    for (const Block &like : m_Like)
    {
        if (like.Folded == 0)
        {
            blocks.emplace_back();
            blocks.back().Form = like.Form;
            blocks.back().Single = m_Steps.front().Values.at(single++);
            continue;
        }
        State &state = m_States[array++];
        blocks.push_back(std::move(state.Blocks.front()));
        state.Blocks.pop_front();
    }
    m_Steps.pop_front();
    ++m_First;
    return blocks;
}

/** Takes what waits into a state. */
void HeldSteps::Fold(State &state)
{
    if (state.Blocks.empty())
    {
        return;
    }
    state.OnDevice ? FoldOnDevice(state) : FoldOnHost(state);
    state.IsBegun = true;
    for (Block &block : state.Blocks)
    {
        if (block.Own)
        {
            m_Spare.emplace(state.BlockBytes(), std::move(block.Own));
        }
    }
    state.Blocks.clear(); // what uses those of a GPU next comes after that on the same stream
}

void HeldSteps::FoldOnHost(State &state)
{
    std::vector<const void *> blocks;
    for (const Block &block : state.Blocks)
    {
        blocks.push_back(block.Source);
    }
    BbflowTask task{};
    for (size_t field = 0; field < state.Places.Begins.size(); ++field)
    {
        if (const std::optional<size_t> begin = state.Places.Begins[field])
        {
            task.Target[field] = state.Memory.get() + *begin;
            task.Source[field] = state.IsBegun ? task.Target[field] : nullptr;
        }
    }
    task.Blocks = blocks.data();
    task.Steps = blocks.size();
    task.Points = state.Points;
    task.Fill = state.Variable.Fill.empty() ? nullptr : state.Variable.Fill.data();
    bbflow::Fold(state.Variable.Code, task);
    if (state.Variable.Histogram)
    {
        const auto counts = reinterpret_cast<int32_t *>(state.Memory.get() + state.Places.Counts);
        bbflow::FoldBins(state.Variable.Code, state.Variable.Histogram->Table,
                         {state.IsBegun ? counts : nullptr, state.Points}, {counts, state.Points},
                         blocks.data(), blocks.size(), state.Points, task.Fill);
    }
}

/** Has a GPU fold into a state what waits there. */
void HeldSteps::FoldOnDevice(State &state)
{
    FoldTask task{};
    const auto place = [&](const BbflowAccumulator field) -> void *
    {
        const std::optional<size_t> begin = state.Places.Begins[field];
        return begin ? state.OnDevice.get() + *begin : nullptr;
    };
    task.Count = static_cast<int *>(place(BbflowCount));
    task.Shift = place(BbflowShift);
    task.First = static_cast<double *>(place(BbflowFirst));
    task.Second = static_cast<double *>(place(BbflowSecond));
    task.Min = place(BbflowMin);
    task.Max = place(BbflowMax);
    if (state.Variable.Histogram)
    {
        const std::vector<double> &breaks = state.Variable.Histogram->Breaks;
        task.Bins = reinterpret_cast<int *>(state.OnDevice.get() + state.Places.Counts);
        task.Rows = static_cast<unsigned>(breaks.size());
        std::copy(breaks.begin(), breaks.end(), task.Breaks);
    }
    task.Points = state.Points;
    task.HasFill = state.Variable.Fill.empty() ? 0 : 1;
    std::copy(state.Variable.Fill.begin(), state.Variable.Fill.end(), task.Fill);
    task.Begins = state.IsBegun ? 0 : 1;
    for (const Block &block : state.Blocks)
    {
        task.Which[task.Steps++] = block.OwnOnDevice.get();
    }
    m_Device.Fold(static_cast<size_t>(state.Variable.Code), task);
}

std::vector<Block> HeldSteps::Land()
{
    std::vector<Block> blocks;
    size_t array = 0, single = 0;
    for (const Block &like : m_Like)
    {
        blocks.emplace_back();
        Block &block = blocks.back();
        block.Form = like.Form;
        if (like.Folded == 0)
        {
            block.Single = m_Steps.back().Values.at(single++);
            continue;
        }
        State &state = m_States[array++];
        Fold(state);
        if (state.OnDevice)
        {
            block.OwnOnDevice = state.OnDevice;
            block.OnDevice = {{state.OnDevice.get(), state.Places.Bytes, 1, state.Places.Bytes}};
        }
        block.Folded = static_cast<int64_t>(state.Variable.Fields);
        block.Bytes = state.Places.Bytes;
        block.Source = state.OnDevice ? state.OnDevice.get() : state.Memory.get();
        block.Look = std::make_unique<NoScan>();
    }
    return blocks;
}

Value::Map HeldSteps::Describe(ToldLayouts &layouts, const Value::Array *first) const
{
    Value::Array steps;
    for (size_t i = 0; i + 1 < m_Steps.size(); ++i)
    {
        const Value::Array &attributes =
            i == 0 && first != nullptr ? *first : m_Steps[i].Attributes;
        steps.emplace_back(Value::Array{m_Steps[i].Values, attributes});
    }
    const size_t layout = layouts.NumberOf(m_Like, std::vector<Spot>(m_Like.size()));
    return {{"layout", uint64_t{layout}}, {"steps", std::move(steps)}};
}

void HeldSteps::Clear()
{
    m_Steps.clear();
    for (State &state : m_States)
    {
        state.IsBegun = false;
        state.OnDevice.reset(); // the next ones have it, or other blocks
    }
}

} // end namespace bbflow
