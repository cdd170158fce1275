/** What a Session does when the connection to its node broke. */

#include "Session.h"

#include <utility>

namespace bbflow
{

void Session::Restore()
{
    m_Device.Finish(); // from then on no block depends on the program's memory, nor anybody's room
    const std::shared_ptr<Pool> before = m_Link.SharedPool();
    if (before)
    {
        before->Unregister(); // an agent that is started again may have left its pages to files
    }
    const Value reply = m_Link.Restore(m_Course.Settled(), m_WhyBroken);
    const bool isSameRoom = m_Arena.IsAmong(Arena::ReadExtents(reply));
    const StepCourse::Restoring restoring =
        m_Course.Restore(reply.IntegerAt("committed"), m_Link.IsSamePool(), isSameRoom);
    m_Layouts.ForgetTold();
    const Value *const plan = reply.Find("plan");
    TakePlan(plan == nullptr ? Value() : *plan);
    m_HasNewNode = m_HasNewNode || restoring.IsNewNode;
    m_Report.Losses += restoring.IsNewNode ? 1 : 0;
    if (restoring.SendCommit)
    {
        SendWithForms(*m_LastCommit, 0);
    }
    switch (restoring.Step)
    {
    case StepCourse::Next::Drop:
        ++m_Report.Skipped;
        [[fallthrough]];
    case StepCourse::Next::Nothing:
        m_Link.ResetLanding();
        break;
    case StepCourse::Next::Resume:
        AddExtents(reply);
        m_Link.ResumeLanding();
        LandLost();
        break;
    case StepCourse::Next::LandAgain:
        LosePlaces(before);
        LandLost();
        break;
    }
    m_WhyBroken.clear();
}

void Session::LosePlaces(const std::shared_ptr<Pool> &before)
{
    m_LostPools.push_back(m_Link.IsSamePool() ? nullptr : before);
    m_Step.LosePlaces(m_LostPools.back().get());
    m_Link.ResetLanding();
    m_Arena.Clear();
}

void Session::LandLost()
{
    if (!m_Step.CanLandAgain())
    {
        Skip();
        return;
    }
    if (m_Course.MustBeginAgain())
    {
        Ask(m_Step.Number, m_Step.BytesThatAre(Block::State::Lost));
        const Value reply = *AwaitReply(std::nullopt);
        AddExtents(reply);
        m_Course.BeginAgain(reply.StringAt("status"));
        m_Report.Discarded += m_Course.IsDropped() ? 1 : 0;
    }
    for (Block &block : m_Step.Blocks)
    {
        const bool isLost = block.Is == Block::State::Lost || block.Is == Block::State::Placed;
        if (isLost && !m_Course.IsDropped())
        {
            Land(block, m_Step.BytesThatAre(Block::State::Lost));
        }
    }
    if (!m_Course.IsDropped())
    {
        Sync();
    }
}

void Session::Skip()
{
    m_Link.Wire().Send(Value::Map{{"op", "skip"}, {"step", uint64_t{m_Step.Number}}});
    m_Link.Wire().Reply(After(Channel::ReplySecs));
    m_Course.Drop();
    ++m_Report.Skipped;
}

} // end namespace bbflow
