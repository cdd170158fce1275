/** What a Session does when the connection to its node broke. */

#include "Session.h"

#include <utility>

namespace bbflow
{

void Session::Restore()
{
    const std::shared_ptr<Pool> before = m_Link.SharedPool();
    const bool isBehindStep = m_IsOpen && m_IsDropped;
    const Value reply =
        m_Link.Restore(isBehindStep ? static_cast<int64_t>(m_Step.Number) : m_Settled, m_WhyBroken);
    m_IsAsked = false;
    m_Layouts.ForgetTold();
    if (!m_Link.IsSamePool())
    {
        m_Unconfirmed.reset(); // the lost node has it, or it is lost with the node
        m_HasNewNode = true;
        ++m_Report.Losses;
    }
    else if (m_Unconfirmed && reply.IntegerAt("committed") < m_Unconfirmed->IntegerAt("step"))
    {
        SendWithForms(*m_Unconfirmed);
    }
    if (m_IsOpen && !m_IsDropped)
    {
        RestoreStep(reply, before);
    }
    else
    {
        m_Link.ResetLanding();
    }
    m_WhyBroken.clear();
}

void Session::RestoreStep(const Value &reply, const std::shared_ptr<Pool> &before)
{
    if (reply.IntegerAt("committed") >= static_cast<int64_t>(m_Step.Number))
    {
        Drop(); // it was skipped, but the reply to that was lost
        m_Link.ResetLanding();
        return;
    }
    if (m_Link.IsSamePool() && m_Arena.IsAmong(Arena::ReadExtents(reply)))
    {
        AddExtents(reply);
        m_Link.ResumeLanding();
    }
    else
    {
        // In a pool that is still the same, these places may be another rank's by now.
        m_LostPools.push_back(m_Link.IsSamePool() ? nullptr : before);
        m_Step.LosePlaces(m_LostPools.back().get());
        m_Link.ResetLanding();
        m_Arena.Clear();
        m_MustBeginAgain = true;
    }
    LandLost();
}

void Session::LandLost()
{
    if (!m_Step.CanLandAgain())
    {
        Skip();
        return;
    }
    if (m_MustBeginAgain)
    {
        Ask(m_Step.Number, m_Step.BytesThatAre(Block::State::Lost));
        Admit(*AwaitReply(std::nullopt));
        m_MustBeginAgain = false;
    }
    for (Block &block : m_Step.Blocks)
    {
        const bool isLost = block.Is == Block::State::Lost || block.Is == Block::State::Placed;
        if (isLost && !m_IsDropped)
        {
            Land(block, m_Step.BytesThatAre(Block::State::Lost));
        }
    }
    if (!m_IsDropped)
    {
        m_Link.Way().Sync();
    }
}

void Session::Skip()
{
    m_Link.Wire().Send(Value::Map{{"op", "skip"}, {"step", uint64_t{m_Step.Number}}});
    m_Link.Wire().Reply(After(Channel::ReplySecs));
    Drop();
}

void Session::Drop()
{
    m_IsDropped = true;
    m_MustBeginAgain = false;
    ++m_Report.Skipped;
}

} // end namespace bbflow
