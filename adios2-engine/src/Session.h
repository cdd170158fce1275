#pragma once

#include "Arena.h"
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

/** A rank's stream, step by step, whatever happens to the node that it lands on (FORMAT.md,
 *  "Writer and agent"). Every call throws std::runtime_error if no node takes the stream any more.
 */
class Session
{
public:
    explicit Session(const Parameters &parameters);

    /** Asks for a step, or goes on waiting for the one asked for before. */
    Admission Begin(size_t step, const Deadline &deadline);

    /** Takes a block in. In a discarded step it is dropped. */
    void Put(Block block, When when);

    /** Lands all blocks that still wait. */
    void PerformPuts();

    /** Makes this rank's step final; false if the step was dropped, with its attributes.
     *  @param attributes gives them, once more when another node has taken over */
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

    template <class Action>
    auto Persist(Action action);
    std::optional<Value> AwaitReply(const Deadline &deadline);

    void Ask(size_t step, size_t bytes);
    std::optional<Value> TakeOffer(const Deadline &deadline);
    void AddExtents(const Value &reply);

    void LandNow(Block &block);
    void LandFromDevice(Block &block, When when);
    void PutFromDevice(When when);
    bool WaitsForRoom(const Block &block) const;
    void Sync();
    void LandWaiting();
    void LandKept();
    void Land(Block &block, size_t pending);
    void Place(Block &block, size_t pending);
    bool Reserve(Block &block, size_t pending);
    void KeepCopy(Block &block);
    void SendCommit(const Value::Array &attributes);
    void SendWithForms(const Value &commit, size_t aheadBytes);
    void End();

    void Restore();
    void LosePlaces(const std::shared_ptr<Pool> &before);
    void LandLost();
    void Skip();
};

} // end namespace bbflow
