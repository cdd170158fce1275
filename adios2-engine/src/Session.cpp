#include "Session.h"

#include "Placement.h"
#include "StreamShare.h"

#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr auto RetryInterval = std::chrono::milliseconds(50);
constexpr double ReplySecs = 60.0;

/** Gives the reply if the agent agreed. @throws std::runtime_error with the agent's reason if not
 */
Value Checked(Value reply)
{
    if (!reply.BoolAt("ok"))
    {
        throw std::runtime_error("bbflow: " + reply.StringAt("error"));
    }
    return reply;
}

} // end empty namespace

Session::Session(const Parameters &parameters)
{
    if (parameters.Contact.empty())
    {
        throw std::runtime_error(
            "bbflow: no contact file is given: set the parameter Contact or the "
            "environment's BBFLOW_CONTACT, or start the program with 'bbflow run'");
    }
    const Deadline deadline = After(parameters.OpenTimeoutSecs);
    while (!m_Channel)
    {
        try
        {
            Connect(parameters);
        }
        catch (const std::runtime_error &error)
        {
            if (std::chrono::steady_clock::now() >= *deadline)
            {
                throw std::runtime_error(std::string(error.what()) + "; waited OpenTimeoutSecs=" +
                                         std::to_string(parameters.OpenTimeoutSecs));
            }
            std::this_thread::sleep_for(RetryInterval);
        }
    }
    const auto reply = m_Channel->Receive(After(ReplySecs));
    if (!reply)
    {
        throw std::runtime_error("bbflow: the BB node's agent doesn't answer");
    }
    const Value opened = Checked(*reply);
    m_Pool = std::make_unique<Pool>(opened.StringAt("pool"), opened.UnsignedAt("capacity"));
}

void Session::Connect(const Parameters &parameters)
{
    const Contact contact = ReadContact(parameters.Contact);
    const Placement placement = ChooseNode(contact, parameters);
    const Node &node = contact.Nodes[placement.Node];
    const StreamShare share = ShareOf(parameters);
    auto channel = std::make_unique<Channel>(
        ConnectTo(node, contact.Key, parameters.Transport, After(parameters.OpenTimeoutSecs)));
    channel->Send(Value::Map{{"op", "open"},
                             {"stream", share.Stream},
                             {"rank", uint64_t{parameters.Place.Rank - share.FirstRank}},
                             {"writers", uint64_t{share.Ranks}},
                             {"local_writers", uint64_t{placement.LocalWriters}},
                             {"policy", parameters.QueueFullPolicy},
                             {"transport", "shm"},
                             {"host", HostName()},
                             {"pid", int64_t{getpid()}},
                             {"open_timeout_s", parameters.OpenTimeoutSecs},
                             {"loss_timeout_s", parameters.NodeLossTimeoutSecs},
                             {"settled", -1},
                             {"resume", false},
                             {"moved_from", ""}});
    m_Channel = std::move(channel);
}

Admission Session::Begin(const size_t step, const Deadline &deadline)
{
    if (!m_Asked)
    {
        m_Channel->Send(Value::Map{
            {"op", "begin"}, {"step", uint64_t{step}}, {"bytes", uint64_t{m_ExpectedBytes}}});
        m_Asked = true;
        m_Step = step;
        m_Arena.Clear();
    }
    const std::optional<Value> reply = AwaitReply(deadline);
    if (!reply)
    {
        return Admission::NotReady;
    }
    m_Asked = false;
    AddExtents(Checked(*reply));
    return reply->StringAt("status") == "discard" ? Admission::Discarded : Admission::Granted;
}

char *Session::Place(const size_t bytes, const size_t pending, size_t &offset)
{
    std::optional<size_t> place = m_Arena.Take(bytes);
    if (!place)
    {
        m_Channel->Send(Value::Map{
            {"op", "reserve"}, {"step", uint64_t{m_Step}}, {"bytes", uint64_t{pending}}});
        AddExtents(Checked(*AwaitReply(std::nullopt)));
        place = m_Arena.Take(bytes);
    }
    offset = place.value();
    return m_Pool->At(offset);
}

void Session::Commit(Value::Array blocks, Value::Array attributes)
{
    m_ExpectedBytes = m_Arena.Used();
    m_Channel->Send(Value::Map{{"op", "commit"},
                               {"step", uint64_t{m_Step}},
                               {"blocks", std::move(blocks)},
                               {"attributes", std::move(attributes)},
                               {"waited_s", m_WaitedSecs}});
}

void Session::Close(const size_t steps)
{
    m_Channel->Send(Value::Map{{"op", "close"}, {"steps", uint64_t{steps}}});
    const std::optional<Value> reply = m_Channel->Receive(After(ReplySecs));
    if (!reply)
    {
        throw std::runtime_error("bbflow: the BB node's agent doesn't answer");
    }
    Checked(*reply);
}

void Session::Abort() { m_Channel->Send(Value::Map{{"op", "abort"}}); }

std::optional<Value> Session::AwaitReply(const Deadline &deadline)
{
    const auto start = std::chrono::steady_clock::now();
    std::optional<Value> reply = m_Channel->Receive(deadline);
    m_WaitedSecs += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return reply;
}

void Session::AddExtents(const Value &reply)
{
    for (const Value &extent : reply.ArrayAt("extents"))
    {
        const auto &pair = std::get<Value::Array>(extent.Get());
        const size_t offset = pair.at(0).AsUnsigned();
        const size_t size = pair.at(1).AsUnsigned();
        if (offset > m_Pool->Capacity() || size > m_Pool->Capacity() - offset)
        {
            throw std::runtime_error("bbflow: the agent gave an extent outside of its pool");
        }
        m_Arena.Add(offset, size);
    }
}

} // end namespace bbflow
