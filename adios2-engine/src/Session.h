#pragma once

#include "Arena.h"
#include "HeldSteps.h"
#include "KeptMemory.h"
#include "NodeLink.h"
#include "OpenStep.h"
#include "Report.h"
#include "SpillFile.h"
#include "StepCourse.h"
#include "ToldLayouts.h"

#include <functional>
#include <utility>
#include <vector>

namespace bbflow
{

/** What came of asking for a step. */
enum class Admission
{
    Granted,
    Discarded,
    NotReady
};

/** When a block's memory may be overwritten. */
enum class When
{
    /** When the call returns. */
    AtOnce,
    /** After PerformPuts or Commit. */
    Later,
    /** The same, and not before: until then the program fills its memory. */
    Filled
};

/** Blocks up to this size are landed within the Put, as BP5 does (its MinDeferredSize): Python's
 * scalars and expressions are temporaries that are gone when Put returns. */
constexpr size_t SmallBytes = size_t{4} << 20;

/** How often a connection may break within one call. */
constexpr int MostBreaks = 20;

/** A rank's stream, step by step, whatever happens to the node that it lands on (FORMAT.md,
 *  "Writer and agent"). Every call throws std::runtime_error if no node takes the stream any more.
 */
class Session
{
public:
    explicit Session(const Parameters &parameters);

    /** Asks for a step, or keeps waiting for the one asked for before; steps that are folded here
     *  need not be asked for. */
    Admission Begin(size_t step, const Deadline &deadline);

    /** Takes a block in. In a discarded step it is dropped. */
    void Put(Block block, When when);

    /** Lands all blocks that still wait. */
    void PerformPuts();

    /** Makes this rank's step final; false if the step was dropped, with its attributes.
     *  @param attributes gives them, and again when another node has taken over */
    bool Commit(const std::function<Value::Array()> &attributes);

    void Close(size_t steps, const Value::Array &attributes);
    void Abort();

    /** Whether another node has taken over, or the same one with nothing in it, since the last time
     *  that this was asked. */
    bool TakeNewNode() { return std::exchange(m_HasNewNode, false); }

    /** Rank in the stream. */
    size_t Rank() const { return m_Link.Rank(); }

private:
    const Parameters m_Parameters;
    NodeLink m_Link;
    OpenStep m_Step;
    Arena m_Arena;
    KeptMemory m_Kept;
    /** Ends before the pool that it writes. */
    DeviceQueue m_Device;
    std::unique_ptr<SpillFile> m_File;
    ToldLayouts m_Layouts;
    /** The last commit, in case that it must be sent again. */
    std::optional<Value> m_LastCommit;
    /** Where lost blocks are read before they are landed again. */
    std::vector<std::shared_ptr<Pool>> m_LostPools;
    Report m_Report;
    /** Empty unless the connection is broken. */
    std::string m_WhyBroken;
    StepCourse m_Course;
    double m_WaitedSecs = 0.0;
    std::chrono::steady_clock::time_point m_Began;
    bool m_HasNewNode = false;
    /** By which blocks are folded here; nothing if they land as they are. */
    std::optional<FoldPlan> m_Plan;
    /** What the node has said of it last: it holds once all that is held has landed. */
    std::optional<FoldPlan> m_NextPlan;
    HeldSteps m_Held;
    /** Before this step none is held: others need the room. */
    size_t m_HoldsFrom = 0;
    /** Whether the open step's blocks stay here until it is known what becomes of it. */
    bool m_Keeps = false;

    /** Does something that can be done again from its beginning when the connection breaks. */
    template <class Action>
    auto Persist(Action action);
    std::optional<Value> AwaitReply(const Deadline &deadline);

    Admission Admit(size_t step, size_t bytes, const Deadline &deadline);
    void Ask(size_t step, size_t bytes);
    std::optional<Value> TakeOffer(const Deadline &deadline);
    void AddExtents(const Value &reply);
    void TakePlan(const Value &plan);

    void LandNow(Block &block);
    void LandFromDevice(Block &block, When when);
    bool LandPastHost(Block &block);
    void PutFromDevice(When when);
    bool WaitsForRoom(const Block &block) const;
    void Sync();
    void LandWaiting();
    void LandKept();
    void Land(Block &block, size_t pending);
    void Place(Block &block, size_t pending);
    bool Reserve(Block &block, size_t pending);
    void KeepCopy(Block &block);
    void SendCommit(size_t step, const Value::Array &attributes, Value::Map held = {});
    void AddForms(Value::Map &content);
    void SendWithForms(const Value &commit, size_t aheadBytes);
    void End();

    void PutKept(When when);
    bool IsDue() const;
    bool MayHold(size_t step);
    bool Hold(const std::function<Value::Array()> &attributes);
    void LandHeld(const std::function<Value::Array()> &attributes);
    void LandWhole(size_t first, size_t last, const std::function<Value::Array()> &attributes,
                   const std::function<void(const Value::Array *)> &send);
    void SendHeld(const Value::Array *all);
    void SkipHeld(size_t through);

    void Restore();
    void LosePlaces(const std::shared_ptr<Pool> &before);
    void LandLost();
    void Skip();
};

template <class Action>
auto Session::Persist(Action action)
{
    for (int breaks = 0;; ++breaks)
    {
        try
        {
            if (!m_WhyBroken.empty())
            {
                Restore();
            }
            return action();
        }
        catch (const ConnectionLost &error)
        {
            m_WhyBroken = error.what();
            if (breaks == MostBreaks)
            {
                throw;
            }
        }
    }
}

} // end namespace bbflow
