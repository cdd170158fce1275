#include "StepCourse.h"

#include <utility>

namespace bbflow
{

bool StepCourse::Want() { return !std::exchange(m_IsAsked, true); }

void StepCourse::TakeInOffer()
{
    m_IsAskedAhead = false;
    m_Unconfirmed = -1; // requests are answered in order: the node has it
}

void StepCourse::TakeInRefusal()
{
    m_IsAsked = false;
    m_IsAskedAhead = false;
}

void StepCourse::Admit(const size_t step, const std::string_view status)
{
    m_IsAsked = false;
    m_Unconfirmed = -1; // as above
    m_IsOpen = true;
    m_Number = step;
    m_IsDropped = status == "discard";
    m_Spills = status == "spill";
}

void StepCourse::GiveRoom(const std::string_view status) { m_Spills = status == "spill"; }

void StepCourse::Commit(const size_t bytes, const bool asksAhead, const size_t further)
{
    m_Number += further;
    m_IsAskedAhead = asksAhead;
    m_Unconfirmed = static_cast<int64_t>(m_Number);
    m_ExpectedBytes = bytes;
}

void StepCourse::Drop()
{
    m_IsDropped = true;
    m_MustBeginAgain = false;
}

void StepCourse::End()
{
    m_Settled = static_cast<int64_t>(m_Number);
    m_IsDropped = false;
    m_IsOpen = false;
}

StepCourse::Restoring StepCourse::Restore(const int64_t committed, const bool samePool,
                                          const bool sameRoom)
{
    Restoring restoring;
    m_IsAsked = false;
    m_IsAskedAhead = false;
    restoring.IsNewNode = !samePool;
    if (!samePool)
    {
        m_Unconfirmed = -1; // the lost node has it, or it is lost with the node
    }
    // The commit or its reply went with the connection: the node says which, and it counts once.
    restoring.SendCommit = committed < m_Unconfirmed;
    if (!m_IsOpen || m_IsDropped)
    {
        return restoring;
    }
    if (committed >= static_cast<int64_t>(m_Number))
    {
        Drop();
        restoring.Step = Next::Drop;
        return restoring;
    }
    // In a pool that is still the same, places that aren't granted may be another rank's by now.
    restoring.Step = samePool && sameRoom ? Next::Resume : Next::LandAgain;
    m_MustBeginAgain = m_MustBeginAgain || restoring.Step == Next::LandAgain;
    return restoring;
}

void StepCourse::BeginAgain(const std::string_view status)
{
    m_IsDropped = status == "discard";
    m_Spills = status == "spill";
    m_MustBeginAgain = false;
}

int64_t StepCourse::Settled() const
{
    // No part of a dropped step will come: a node that waited for it would wait for ever.
    return m_IsOpen && m_IsDropped ? static_cast<int64_t>(m_Number) : m_Settled;
}

} // end namespace bbflow
