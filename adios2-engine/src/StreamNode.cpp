#include "StreamNode.h"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

namespace bbflow
{

namespace
{

constexpr double ConnectSecs = 5.0;
constexpr auto RetryPause = std::chrono::milliseconds(100);

} // end empty namespace

StreamNode::StreamNode(Node node, std::string key, std::string stream, const Parameters &parameters,
                       const Deadline &giveUp)
: m_Node(std::move(node)), m_Key(std::move(key)), m_Stream(std::move(stream)),
  m_Parameters(parameters), m_GiveUp(giveUp)
{
}

std::optional<News> StreamNode::TakeNews(const int64_t known)
{
    try
    {
        Connect();
        if (!m_Link)
        {
            return std::nullopt;
        }
        m_Link->AskForNews(m_Stream, std::max(m_Passed, known), m_Change);
        std::optional<News> news = m_Link->TakeNews();
        if (!news)
        {
            return std::nullopt;
        }
        const Value &reply = news->Reply;
        m_Change = reply.BoolAt("more") ? -1 : reply.IntegerAt("change");
        if (m_IsJoined)
        {
            m_WantsBase = std::exchange(m_IsBaseDue, false);
            return news;
        }
        if (reply.StringAt("status") != "expected")
        {
            Join(); // steps may have gone before: ask again
        }
        m_Link->AskForNews(m_Stream, m_Passed, m_Change);
        return std::nullopt;
    }
    catch (const ConnectionLost &)
    {
        Break();
        return std::nullopt;
    }
}

void StreamNode::Connect()
{
    if (m_Link || m_IsLost)
    {
        return;
    }
    try
    {
        FindAgain();
        m_Link =
            std::make_unique<ReaderLink>(m_Node, m_Key, m_Parameters.Transport, After(ConnectSecs));
    }
    catch (const Refused &)
    {
        throw;
    }
    catch (const std::runtime_error &error)
    {
        m_WhyLost = error.what();
        m_IsLost = IsOver(m_GiveUp);
    }
}

void StreamNode::FindAgain()
{
    for (const Node &node : ReadContact(m_Parameters.Contact).Nodes)
    {
        if (node.Name == m_Node.Name)
        {
            m_Node = node; // one that was started again has another TCP port
        }
    }
}

void StreamNode::Join()
{
    const Value reply =
        m_Link->Request(Value::Map{{"op", "join"}, {"stream", m_Stream}, {"after", m_Passed}});
    m_IsJoined = true;
    m_Change = -1;
    m_Oldest = reply.Find("oldest")->AsSigned();
    m_IsBaseDue = m_Passed < 0 || m_Oldest > m_Passed + 1;
}

void StreamNode::AwaitJoined()
{
    while (!m_IsJoined && !m_IsLost)
    {
        try
        {
            Connect();
            if (m_Link)
            {
                Join();
                return;
            }
        }
        catch (const ConnectionLost &)
        {
            Break();
        }
        std::this_thread::sleep_for(RetryPause);
    }
}

void StreamNode::Break()
{
    m_Link.reset();
    m_IsJoined = false;
    m_Change = -1;
    m_GiveUp = After(m_Parameters.NodeLossTimeoutSecs);
}

void StreamNode::Pass(const int64_t step)
{
    m_Passed = step;
    try
    {
        if (m_IsJoined && !m_Parameters.Pin)
        {
            m_Link->Tell(Value::Map{{"op", "pass"}, {"step", step}});
        }
    }
    catch (const ConnectionLost &)
    {
        Break();
    }
}

const char *StreamNode::Mapped(const size_t offset, const size_t bytes) const
{
    return m_Link ? m_Link->InPool(offset, bytes) : nullptr;
}

void StreamNode::Fetch(const int64_t step, const size_t offset, const size_t bytes, char *target)
{
    while (true)
    {
        AwaitJoined();
        if (m_IsLost)
        {
            throw std::runtime_error(
                "bbflow: BB node " + m_Node.Name + " is gone, and with it a part of step " +
                std::to_string(step) +
                "; waited NodeLossTimeoutSecs=" + std::to_string(m_Parameters.NodeLossTimeoutSecs));
        }
        try
        {
            m_Link->Fetch(step, offset, bytes, target);
            return;
        }
        catch (const ConnectionLost &)
        {
            Break();
        }
        catch (const std::runtime_error &)
        {
            Break(); // replies may still be on their way
            throw;
        }
    }
}

void StreamNode::Confirm(const int64_t step)
{
    if (m_Link && m_Link->IsBroken())
    {
        Break();
    }
    if (m_IsJoined)
    {
        return;
    }
    AwaitJoined(); // an agent that is gone for good gives the room to no one
    if (m_IsJoined && m_Oldest > step)
    {
        throw std::runtime_error("bbflow: BB node " + m_Node.Name +
                                 " was started again and has let go of step " +
                                 std::to_string(step) + " while it was read");
    }
}

} // end namespace bbflow
