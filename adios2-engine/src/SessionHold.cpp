/** What a Session does with steps that are folded in the rank's own memory. */

#include "Session.h"

#include "ValueAs.h"

#include <utility>

namespace bbflow
{

/** Takes in what was added last: its values stay here until the step ends. */
void Session::PutKept(const When when)
{
    Block &block = m_Step.Blocks.back();
    if (!block.OnDevice.empty())
    {
        try
        {
            m_Held.KeepFromDevice(*m_Plan, block);
            if (when == When::AtOnce)
            {
                m_Device.Finish();
            }
        }
        catch (const std::runtime_error &)
        {
            m_Step.Blocks.pop_back(); // one that can't be copied was never there
            throw;
        }
        return;
    }
    const bool mayBeSoon = block.Bytes <= SmallBytes && when != When::Filled;
    if (when == When::AtOnce || mayBeSoon)
    {
        m_Held.Keep(block);
    }
}

/** Whether the open step comes when the plan says. Ranks that don't Put the time can't know: the
 *  analysis looks at the steps' times, too. */
bool Session::IsDue() const
{
    for (auto block = m_Step.Blocks.rbegin(); block != m_Step.Blocks.rend(); ++block)
    {
        if (block->Form.Name == m_Plan->TimeName() && block->Bytes == 0)
        {
            const Value::Variant &told = block->Single.Get();
            const bool isNumber = std::holds_alternative<int64_t>(told) ||
                                  std::holds_alternative<uint64_t>(told) ||
                                  std::holds_alternative<double>(told);
            return isNumber && m_Plan->IsDue(m_Step.Number, ValueAs<double>(block->Single));
        }
    }
    return true;
}

/** Asks the node whether a step may be held: where others land theirs as they are, there may be no
 *  room before this rank lands, too, and it may be waiting for them then. If not, those up to the
 *  end of the landing aren't: all ranks begin the next one together. */
bool Session::MayHold(const size_t step)
{
    if (step < m_HoldsFrom)
    {
        return false;
    }
    const Value reply = Persist(
        [&]
        {
            if (m_Course.IsAskedAhead())
            {
                AwaitReply(std::nullopt); // the offer stands until others need it
                m_Course.TakeInOffer();
            }
            m_Link.Wire().Send(Value::Map{{"op", "hold"}, {"step", uint64_t{step}}});
            return *AwaitReply(std::nullopt);
        });
    if (reply.StringAt("status") == "land")
    {
        m_HoldsFrom = m_Plan->EndOf(step) + 1;
    }
    return step >= m_HoldsFrom;
}

/** Takes the open step in by the plan; false if it must land as it is, and was begun for that. */
bool Session::Hold(const std::function<Value::Array()> &attributes)
{
    m_Keeps = false;
    m_Device.Finish(); // the memory is the program's again
    const size_t step = m_Step.Number;
    const bool isDue = IsDue();
    const bool isKnown = isDue && m_Held.AreKnown(*m_Plan, m_Step.Blocks);
    if (isKnown)
    {
        HeldSteps::LeaveOut(*m_Plan, m_Step.Blocks);
    }
    bool isFolded = isKnown &&
                    m_Step.BytesThatAre(Block::State::Waiting) > 0 && // else nothing lands
                    MayHold(step);
    if (!m_Held.IsEmpty() && !(isFolded && m_Held.IsAlike(m_Step.Blocks)))
    {
        LandHeld(attributes);
        isFolded =
            isFolded && m_NextPlan; // the node frees states' room with what lands after the plan
    }
    if (isFolded)
    {
        m_Held.Add(*m_Plan, step, std::move(m_Step.Blocks), attributes());
        m_Step.Blocks.clear();
        if (m_Plan->EndsAt(step))
        {
            LandHeld(attributes);
        }
        return true;
    }
    if (!isDue)
    {
        // What it takes for granted doesn't hold: later steps may be in any span.
        m_NextPlan.reset();
    }
    Admit(step, m_Step.BytesThatAre(Block::State::Waiting), std::nullopt);
    if (m_Course.IsDropped())
    {
        m_Step.Blocks.clear();
    }
    m_Held.KeepSteady(*m_Plan, m_Step.Blocks);
    return false;
}

/** Lands what is held.
 *  @param attributes gives all of them, if another node has taken over; may be empty */
void Session::LandHeld(const std::function<Value::Array()> &attributes)
{
    OpenStep interrupted = std::exchange(m_Step, {});
    if (m_Held.AreSmaller())
    {
        while (!m_Held.IsEmpty())
        {
            const Value::Array own = m_Held.FirstAttributes();
            const size_t step = m_Held.First();
            m_Step.Blocks = m_Held.TakeFirst();
            LandWhole(step, step, attributes,
                      [&](const Value::Array *all) { SendCommit(step, all ? *all : own); });
        }
    }
    else
    {
        const size_t first = m_Held.First(), last = m_Held.Last();
        m_Step.Blocks = m_Held.Land();
        LandWhole(first, last, attributes, [&](const Value::Array *all) { SendHeld(all); });
    }
    m_Held.Clear();
    m_Step = std::move(interrupted);
}

/** Lands the open step's blocks as one step of the node's.
 *  @param first and last of the steps that are in it
 *  @param send commits them; gets all attributes, null if the first step's own are enough */
void Session::LandWhole(const size_t first, const size_t last,
                        const std::function<Value::Array()> &attributes,
                        const std::function<void(const Value::Array *)> &send)
{
    Admit(first, m_Step.BytesThatAre(Block::State::Waiting), std::nullopt);
    m_Began = m_Held.Began();
    std::optional<Value::Array> all;
    Persist(
        [&]
        {
            LandWaiting();
            if (m_HasNewNode && attributes) // it is told all with the first step there
            {
                all = attributes();
            }
            if (!m_Course.IsDropped())
            {
                send(all ? &*all : nullptr);
            }
        });
    const bool isDropped = m_Course.IsDropped();
    End();
    if (isDropped)
    {
        SkipHeld(last);
    }
}

/** @param all attributes that the first step brings instead of its own; may be null */
void Session::SendHeld(const Value::Array *all)
{
    const bool isOne = m_Held.First() == m_Held.Last();
    Value::Map held = isOne ? Value::Map{} : m_Held.Describe(m_Layouts, all);
    SendCommit(m_Held.Last(), isOne && all != nullptr ? *all : m_Held.Attributes(),
               std::move(held));
}

/** Releases the steps whose states were dropped with the first of them: without a step of theirs
 *  states count for nothing. */
void Session::SkipHeld(const size_t through)
{
    for (size_t step = static_cast<size_t>(m_Course.Settled()) + 1; step <= through; ++step)
    {
        Admit(step, 0, std::nullopt);
        if (!m_Course.IsDropped())
        {
            Persist(
                [&]
                {
                    if (!m_Course.IsDropped())
                    {
                        Skip();
                    }
                });
        }
        End();
    }
}

} // end namespace bbflow
