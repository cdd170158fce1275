#include "Session.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace bbflow
{

namespace
{

double SecondsSince(const std::chrono::steady_clock::time_point start)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/** Sees that what doesn't fit can be spilled: else a program would fail when it first has to. */
const Parameters &Checked(const Parameters &parameters)
{
    const std::string &directory = parameters.SpillDirectory;
    std::error_code error;
    if (!directory.empty() && !std::filesystem::is_directory(directory, error))
    {
        throw std::invalid_argument("bbflow: there is no SpillDirectory " + directory +
                                    ": make it first");
    }
    return parameters;
}

} // end empty namespace

Session::Session(const Parameters &parameters)
: m_Parameters(Checked(parameters)), m_Link(parameters), m_Device(parameters.GpuStream),
  m_Held(m_Device)
{
}

Admission Session::Begin(const size_t step, const Deadline &deadline)
{
    if (m_Held.IsEmpty())
    {
        // Steps that are held were folded by the plan that there was.
        m_Plan = m_NextPlan;
    }
    m_Keeps = m_Plan && m_Plan->Covers(step) && !m_Course.IsAsked();
    if (m_Keeps)
    {
        m_Step.Number = step;
        return Admission::Granted;
    }
    return Admit(step, m_Course.ExpectedBytes(), deadline);
}

/** Asks the node for a step, which must be the one after the last that has landed.
 *  @param bytes what it is expected to need */
Admission Session::Admit(const size_t step, const size_t bytes, const Deadline &deadline)
{
    const std::optional<Value> reply = Persist(
        [&]
        {
            if (m_Course.IsAskedAhead())
            {
                std::optional<Value> offer = TakeOffer(deadline);
                if (offer || m_Course.IsAskedAhead())
                {
                    return offer;
                }
            }
            if (m_Course.Want())
            {
                Ask(step, bytes);
            }
            return AwaitReply(deadline);
        });
    if (!reply)
    {
        return Admission::NotReady;
    }
    m_LastCommit.reset(); // requests are answered in order: the node has it
    m_Began = std::chrono::steady_clock::now();
    m_Step.Number = step;
    m_Course.Admit(step, reply->StringAt("status"));
    AddExtents(*reply);
    m_Report.Discarded += m_Course.IsDropped() ? 1 : 0;
    return m_Course.IsDropped() ? Admission::Discarded : Admission::Granted;
}

void Session::Ask(const size_t step, const size_t bytes)
{
    m_Link.Wire().Send(
        Value::Map{{"op", "begin"}, {"step", uint64_t{step}}, {"bytes", uint64_t{bytes}}});
}

/** Returns what was offered, if it is this rank's now; nothing if it must be asked for, or the
 *  deadline has passed. */
std::optional<Value> Session::TakeOffer(const Deadline &deadline)
{
    std::optional<Value> offer = AwaitReply(deadline);
    if (offer)
    {
        m_Course.TakeInOffer();
        if (offer->StringAt("status") == "later" || !m_Link.TakeOffer())
        {
            offer.reset();
        }
    }
    return offer;
}

void Session::AddExtents(const Value &reply)
{
    for (const auto &[offset, size] : Arena::ReadExtents(reply))
    {
        // This process writes there: an agent's mistake must not become one in its memory.
        if (offset > m_Link.Capacity() || size > m_Link.Capacity() - offset)
        {
            throw std::runtime_error("bbflow: the agent gave an extent outside of its pool");
        }
        m_Arena.Add(offset, size);
    }
    m_Link.TakeKeys(reply);
}

/** Takes in what the node says of folding here. States can neither be discarded nor spilled. */
void Session::TakePlan(const Value &plan)
{
    const bool lands =
        m_Parameters.QueueFullPolicy == "Block" && m_Parameters.SpillDirectory.empty();
    m_NextPlan = lands ? FoldPlan::Read(plan) : std::nullopt;
}

std::optional<Value> Session::AwaitReply(const Deadline &deadline)
{
    const auto start = std::chrono::steady_clock::now();
    try
    {
        std::optional<Value> reply = m_Link.Wire().TryReply(deadline);
        m_WaitedSecs += SecondsSince(start);
        const Value *const plan = reply ? reply->Find("plan") : nullptr;
        if (plan != nullptr) // also beside an offer that comes to nothing: it is told once
        {
            TakePlan(*plan);
        }
        return reply;
    }
    catch (const Refused &)
    {
        m_Course.TakeInRefusal();
        throw;
    }
}

void Session::Put(Block block, const When when)
{
    if (m_Course.IsDropped())
    {
        return;
    }
    m_Step.Blocks.push_back(std::move(block));
    if (m_Keeps)
    {
        PutKept(when);
        return;
    }
    Block &added = m_Step.Blocks.back();
    if (!added.OnDevice.empty())
    {
        PutFromDevice(when);
        return;
    }
    const bool mayBeSoon = added.Bytes <= SmallBytes && when != When::Filled;
    if (added.Bytes > 0 && (when == When::AtOnce || mayBeSoon))
    {
        Persist([&] { LandNow(added); });
        m_Step.Forget([this](const char *source) { return !m_Kept.Holds(source); });
    }
}

/** Takes in what was added last, if its memory is a GPU's: the copy is under way when this returns,
 * or done. A block that can't be copied was never there. */
void Session::PutFromDevice(const When when)
{
    try
    {
        Persist([&] { LandFromDevice(m_Step.Blocks.back(), when); });
    }
    catch (const std::runtime_error &)
    {
        // The program may Put it again from other memory; a step with half a block can't land.
        m_Step.Blocks.pop_back();
        throw;
    }
    m_Step.Forget([this](const char *source) { return !m_Kept.Holds(source); });
}

void Session::LandFromDevice(Block &block, const When when)
{
    if (LandPastHost(block))
    {
        return;
    }
    if (!block.OnDevice.empty() && (WaitsForRoom(block) || !m_Link.SharedPool()))
    {
        block.Source = m_Device.Read(block.OnDevice);
        block.OnDevice.clear(); // from here on it is one of the host's
    }
    if (block.OnDevice.empty() || m_Course.IsDropped())
    {
        LandNow(block);
        return;
    }
    if (block.Is != Block::State::Landed)
    {
        Land(block, Arena::Padded(block.Bytes));
    }
    if (when == When::AtOnce)
    {
        Sync();
    }
}

/** Has the network read a large block out of the GPU's memory; false if it goes by the host. */
bool Session::LandPastHost(Block &block)
{
    Landing &way = m_Link.BlockLanding();
    const bool isOne = block.OnDevice.size() == 1 && block.OnDevice.front().Count == 1;
    const bool isNew = block.Is != Block::State::Landed && !m_Course.IsDropped();
    if (!isNew || !isOne || block.Bytes <= SmallBytes || !way.TakesGpus() ||
        !m_Device.Await(block.OnDevice, *block.Look))
    {
        return false;
    }
    Place(block, Arena::Padded(block.Bytes));
    const char *const first = block.OnDevice.front().First;
    const std::shared_ptr<const GpuRuntime> runtime = GpuRuntime::Of(first);
    if (block.InFile ||
        !way.LandFromGpu({first, block.Bytes}, block.Offset, runtime->InFabric(first)))
    {
        return false;
    }
    block.Is = Block::State::Landed;
    return true;
}

/** Whether a block's copy is kept for now: room is asked for once, for all small blocks that have
 *  none, as in the first step. */
bool Session::WaitsForRoom(const Block &block) const
{
    return block.Bytes <= SmallBytes && !m_Course.Spills() && !m_Arena.HasRoom(block.Bytes);
}

/** Returns when all that was landed is there. */
void Session::Sync()
{
    m_Device.Finish();
    m_Link.BlockLanding().Sync();
}

void Session::LandNow(Block &block)
{
    if (m_Course.IsDropped() || block.Is == Block::State::Landed)
    {
        return;
    }
    const bool isSmall = block.Bytes <= SmallBytes;
    const bool waits = WaitsForRoom(block);
    if (waits || (isSmall && m_Link.BlockLanding().NeedsMemory()))
    {
        KeepCopy(block);
    }
    if (waits)
    {
        return;
    }
    Land(block, Arena::Padded(block.Bytes));
    if (!isSmall)
    {
        Sync();
    }
}

void Session::KeepCopy(Block &block)
{
    if (m_Kept.Holds(block.Source))
    {
        return;
    }
    const char *copy = m_Kept.Keep(block.Source, block.Bytes);
    if (copy == nullptr)
    {
        LandKept();
        Sync();
        m_Step.Forget([this](const char *source) { return m_Kept.Holds(source); });
        m_Kept.Clear();
        copy = m_Kept.Keep(block.Source, block.Bytes);
    }
    block.Source = copy;
}

/** Lands the blocks of which only the copy is left. */
void Session::LandKept()
{
    for (Block &block : m_Step.Blocks)
    {
        if (block.Is != Block::State::Landed && m_Kept.Holds(block.Source))
        {
            Land(block, m_Step.BytesThatAre(Block::State::Waiting));
        }
    }
}

void Session::Land(Block &block, const size_t pending)
{
    Place(block, pending);
    Landing &way = block.InFile ? *m_File : m_Link.BlockLanding();
    const std::shared_ptr<Pool> pool = m_Link.SharedPool();
    if (block.OnDevice.empty())
    {
        way.Land(block.Source, block.Bytes, block.Offset, *block.Look);
    }
    else if (pool && !block.InFile)
    {
        m_Device.Copy(block.OnDevice, *pool, m_Arena.ExtentAt(block.Offset), block.Offset,
                      *block.Look, block.OwnOnDevice != nullptr);
    }
    else
    {
        // Sent at once: the next one is read into the same memory.
        way.Land(m_Device.Read(block.OnDevice), block.Bytes, block.Offset, *block.Look);
        way.Sync();
    }
    block.Is = Block::State::Landed;
}

void Session::Place(Block &block, const size_t pending)
{
    if (block.Is == Block::State::Placed)
    {
        return;
    }
    if (!Reserve(block, pending))
    {
        if (!m_File)
        {
            m_File = std::make_unique<SpillFile>(m_Parameters.SpillDirectory, m_Link.Share().Stream,
                                                 m_Step.Number, Rank());
        }
        block.InFile = true;
        block.Offset = m_File->Take(block.Bytes);
    }
    block.Is = Block::State::Placed;
}

/** Gives a block its place in the pool; false if it must be spilled. */
bool Session::Reserve(Block &block, const size_t pending)
{
    std::optional<size_t> offset = m_Arena.Take(block.Bytes);
    if (!offset && !m_Course.Spills())
    {
        m_Link.Wire().Send(Value::Map{
            {"op", "reserve"}, {"step", uint64_t{m_Step.Number}}, {"bytes", uint64_t{pending}}});
        const Value reply = *AwaitReply(std::nullopt);
        m_Course.GiveRoom(reply.StringAt("status"));
        AddExtents(reply);
        offset = m_Arena.Take(block.Bytes);
    }
    if (!offset && !m_Course.Spills())
    {
        throw std::runtime_error("bbflow: the agent gave less room than it was asked for");
    }
    block.Offset = offset.value_or(0);
    return offset.has_value();
}

void Session::PerformPuts()
{
    if (m_Keeps)
    {
        for (Block &block : m_Step.Blocks)
        {
            m_Held.Keep(block);
        }
        m_Device.Finish();
        return;
    }
    Persist([this] { LandWaiting(); });
    m_Step.Forget([this](const char *source) { return !m_Kept.Holds(source); });
}

void Session::LandWaiting()
{
    for (Block &block : m_Step.Blocks)
    {
        const bool waits = block.Is == Block::State::Waiting || block.Is == Block::State::Placed;
        if (block.Bytes > 0 && waits && !m_Course.IsDropped())
        {
            Land(block, m_Step.BytesThatAre(Block::State::Waiting));
        }
    }
    if (!m_Course.IsDropped())
    {
        Sync();
    }
}

bool Session::Commit(const std::function<Value::Array()> &attributes)
{
    if (m_Keeps && Hold(attributes))
    {
        return true;
    }
    Persist(
        [&]
        {
            LandWaiting();
            if (!m_Course.IsDropped())
            {
                SendCommit(m_Step.Number, attributes());
            }
        });
    const bool isCommitted = !m_Course.IsDropped();
    End();
    return isCommitted;
}

/** @param step the last that is committed
 *  @param held what there is of those before it that are committed with it */
void Session::SendCommit(const size_t step, const Value::Array &attributes, Value::Map held)
{
    if (m_File)
    {
        m_File->Finish();
    }
    StepContent content = m_Step.Describe(m_Arena, m_File ? m_File->Path() : "");
    const size_t layout = m_Layouts.NumberOf(m_Step.Blocks, content.Spots);
    Value::Map whole{{"op", "commit"},
                     {"step", uint64_t{step}},
                     {"layout", uint64_t{layout}},
                     {"sources", std::move(content.Sources)},
                     {"files", std::move(content.Files)},
                     {"values", std::move(content.Values)},
                     {"extremes", std::move(content.Extremes)},
                     {"attributes", attributes},
                     {"open_s", SecondsSince(m_Began)},
                     {"waited_s", m_WaitedSecs}};
    const bool isHeld = !held.empty();
    if (isHeld)
    {
        whole.emplace_back("held", std::move(held));
    }
    Value commit = std::move(whole);
    const size_t bytes = m_Step.BytesThatAre(Block::State::Landed);
    // What is folded here needs room long after: others may have it until then.
    const size_t aheadBytes = m_Link.HasOffers() && !isHeld ? bytes : 0;
    SendWithForms(commit, aheadBytes); // when this fails the node has not got all of it
    m_LastCommit = std::move(commit);
    m_Course.Commit(bytes, aheadBytes > 0, step - m_Step.Number);
    if (m_File)
    {
        // From its commit on the node knows of the file, and removes it.
        m_File->Keep();
        ++m_Report.Spilled;
    }
}

/** Sends a commit, with the forms of its layout if the node may not know them.
 *  @param aheadBytes what the next step will need, if the node is to offer room for it while the
 *  program computes; else 0 */
void Session::SendWithForms(const Value &commit, const size_t aheadBytes)
{
    Value::Map whole = std::get<Value::Map>(commit.Get());
    for (auto &[key, value] : whole)
    {
        if (key == "held")
        {
            Value::Map held = std::get<Value::Map>(value.Get());
            AddForms(held);
            value = std::move(held);
        }
    }
    AddForms(whole);
    if (aheadBytes > 0)
    {
        whole.emplace_back("ahead_bytes", uint64_t{aheadBytes});
    }
    m_Link.Wire().Send(whole); // if this fails, what was told counts no more (Restore)
}

/** Adds the forms of the layout that is named, if the node may not know them. */
void Session::AddForms(Value::Map &content)
{
    const auto isIt = [](const auto &item) { return item.first == "layout"; };
    const size_t layout = std::find_if(content.begin(), content.end(), isIt)->second.AsUnsigned();
    if (!m_Layouts.IsTold(layout))
    {
        content.emplace_back("forms", m_Layouts.Forms(layout, Rank()));
        m_Layouts.SetTold(layout);
    }
}

void Session::End()
{
    if (m_Course.IsDropped())
    {
        m_Link.ResetLanding();
    }
    m_Course.End();
    m_Step.Blocks.clear();
    m_Arena.Clear();
    m_Kept.Clear();
    m_File.reset();
    m_LostPools.clear();
}

void Session::Close(const size_t steps, const Value::Array &attributes)
{
    if (!m_Held.IsEmpty())
    {
        LandHeld({});
    }
    Persist(
        [&]
        {
            if (m_Course.IsAskedAhead())
            {
                m_Link.Wire().Reply(After(Channel::ReplySecs)); // the agent takes it back
                m_Course.TakeInOffer();
            }
            m_Link.Wire().Send(Value::Map{
                {"op", "close"}, {"steps", uint64_t{steps}}, {"attributes", attributes}});
            m_Link.Wire().Reply(After(Channel::ReplySecs));
        });
    m_Report.Print(m_Link.Share().Stream, Rank());
}

void Session::Abort()
{
    m_Device.Finish(); // what it writes is somebody else's room then
    m_Link.Wire().Send(Value::Map{{"op", "abort"}});
}

} // end namespace bbflow
