#include "MasterSession.h"

#include "Errno.h"
#include "ValueAs.h"

#include <iostream>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr double RetrySecs = 0.05;

Node MasterIn(const Contact &contact, const uint64_t number, const std::string &path)
{
    for (const Master &master : contact.Masters)
    {
        if (master.Number == number)
        {
            return master;
        }
    }
    throw ConnectionLost("bbflow: " + path + " names no master of files with the number " +
                         std::to_string(number) +
                         ": start the nodes with --files, or wait until they are up");
}

/** Returns where a master is, as the contact file says; where it was before, while that is removed
 *  or says nothing. */
Node PlaceOf(const MountedContact &contact, const uint64_t number,
             const std::optional<Node> &before)
{
    try
    {
        return MasterIn(contact.Read(), number, contact.Path());
    }
    catch (const Refused &)
    {
        throw;
    }
    catch (const std::runtime_error &)
    {
        if (!before)
        {
            throw;
        }
        return *before;
    }
}

/** @throws Errno if the reply is a refusal; what EIO doesn't tell a program stands in the log */
Value Accepted(Value reply)
{
    if (!reply.BoolAt("ok"))
    {
        const Value *number = reply.Find("errno");
        const int error = number != nullptr ? static_cast<int>(number->AsUnsigned()) : EIO;
        const Value *why = reply.Find("error");
        const std::string text = why != nullptr ? std::string(why->Text()) : "";
        if (error == EIO && !text.empty())
        {
            std::cerr << "bbflow-mount: " << text << std::endl;
        }
        throw Errno(error, text);
    }
    return reply;
}

} // end empty namespace

size_t RequestSlots::Take(Value::Map &request)
{
    const auto free =
        std::find_if(m_Slots.begin(), m_Slots.end(), [](const Slot &slot) { return !slot.IsBusy; });
    const auto place = static_cast<size_t>(free - m_Slots.begin());
    if (free == m_Slots.end())
    {
        m_Slots.emplace_back();
    }
    Slot &slot = m_Slots[place];
    request.emplace_back("slot", uint64_t{place});
    request.emplace_back("number", ++slot.Number);
    if (slot.IsAbandoned)
    {
        request.emplace_back("abandoned", true);
    }
    slot.IsBusy = true;
    slot.IsAbandoned = false;
    return place;
}

void RequestSlots::Leave(const size_t slot, const bool isAbandoned)
{
    m_Slots[slot].IsBusy = false;
    m_Slots[slot].IsAbandoned = isAbandoned;
}

Value::Array RequestSlots::UnderWay() const
{
    Value::Array found;
    for (size_t slot = 0; slot < m_Slots.size(); ++slot)
    {
        if (m_Slots[slot].IsBusy)
        {
            found.push_back(Value::Array{uint64_t{slot}, m_Slots[slot].Number});
        }
    }
    return found;
}

MasterSession::MasterSession(MountedContact contact, const uint64_t number, const double patience,
                             LinkListener listener, Ending &ending)
: m_Contact(std::move(contact)), m_Number(number), m_Patience(patience),
  m_Listener(std::move(listener)), m_Ending(ending)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    BeginFirst();
}

void MasterSession::End()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (m_IsUp && !m_Idle.empty())
    {
        Exchange(*m_Idle.back(), Value::Map{{"op", "bye"}}, nullptr);
    }
}

std::unique_ptr<ServerChannel> MasterSession::Connect(const std::optional<Node> &before,
                                                      const Deadline &deadline) const
{
    const Node place = PlaceOf(m_Contact, m_Number, before);
    try
    {
        return std::make_unique<ServerChannel>(place, m_Contact.Key(), m_Patience, deadline);
    }
    catch (const std::invalid_argument &error)
    {
        throw ConnectionLost(error.what()); // it may be started again with another way to it
    }
}

/** Makes the session; a subtree's master may just be starting, once a directory leads there. */
void MasterSession::BeginFirst()
{
    const Deadline deadline = After(ConnectSecs);
    while (true)
    {
        try
        {
            Begin(deadline);
            return;
        }
        catch (const ConnectionLost &)
        {
            if (m_Number == 0 || IsOver(deadline))
            {
                throw;
            }
        }
        m_Ending.WaitFor(RetrySecs);
    }
}

/** Makes the session, or comes back to it; with m_Mutex locked. */
void MasterSession::Begin(const Deadline &deadline)
{
    std::unique_ptr<ServerChannel> channel = Connect(m_Place, deadline);
    const auto sent = Clock::now();
    bool isNew = true;
    const Value reply = AskForSession(*channel, isNew);
    m_Name = reply.StringAt("session");
    m_Place = channel->Server();
    m_LeaseSecs = ValueAs<double>(*reply.Find("lease_s"));
    m_Options = reply;
    ++m_Epoch;
    m_Idle.clear();
    m_Kept.Restart(reply.UnsignedAt("seq"));
    m_Listener.OnSession(reply, isNew);
    m_IsUp = true;
    m_Idle.push_back(std::move(channel));
    Renew(reply, sent);
}

Value MasterSession::AskForSession(ServerChannel &channel, bool &isNew)
{
    const Value::Map request = {{"op", "session"},
                                {"host", HostName()},
                                {"pid", int64_t{getpid()}},
                                {"uid", uint64_t{getuid()}},
                                {"gid", uint64_t{getgid()}}};
    if (!m_Name.empty())
    {
        try
        {
            Value reply = Exchange(channel, Resuming(request), nullptr);
            isNew = false;
            return reply;
        }
        catch (const Errno &error)
        {
            if (error.Number() != ESTALE)
            {
                throw ConnectionLost(std::string("bbflow: the master doesn't take the session "
                                                 "back: ") +
                                     error.what());
            }
        }
        ++m_Generation;
        std::cerr << "bbflow-mount: the session with " << channel.Peer()
                  << " was over: files that were open give EIO" << std::endl;
    }
    return Exchange(channel, request, nullptr);
}

/** Adds what the session has to a request, by which it comes back. */
Value::Map MasterSession::Resuming(Value::Map request) const
{
    const Held held = m_Listener.Holding();
    Value::Map room;
    for (const auto &[node, bytes] : held.Room)
    {
        room.emplace_back(node, bytes);
    }
    request.emplace_back("resume", m_Name);
    request.emplace_back("slots", m_Slots.UnderWay());
    request.emplace_back("handles", held.Handles);
    request.emplace_back("room", room);
    return request;
}

Value MasterSession::Exchange(ServerChannel &channel, const Value &request,
                              const Caller *caller) const
{
    channel.Send(request);
    std::optional<Value> reply = channel.Await(
        [&] { return m_Ending.IsBegun() || (caller != nullptr && caller->IsInterrupted); });
    if (!reply)
    {
        throw Unanswered(EINTR);
    }
    return Accepted(std::move(*reply));
}

std::unique_ptr<ServerChannel> MasterSession::Take(uint64_t &epoch)
{
    const Deadline deadline = After(ConnectSecs);
    std::string name;
    std::optional<Node> place;
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        if (!m_IsUp)
        {
            Begin(deadline);
        }
        epoch = m_Epoch;
        if (!m_Idle.empty())
        {
            std::unique_ptr<ServerChannel> channel = std::move(m_Idle.back());
            m_Idle.pop_back();
            return channel;
        }
        name = m_Name;
        place = m_Place;
    }
    std::unique_ptr<ServerChannel> channel = Connect(place, deadline);
    try
    {
        Join(*channel, name, false);
    }
    catch (const Errno &)
    {
        throw ConnectionLost("bbflow: the master doesn't know the session");
    }
    return channel;
}

void MasterSession::Join(ServerChannel &channel, const std::string &name, const bool listens) const
{
    Exchange(channel, Value::Map{{"op", "join"}, {"session", name}, {"listen", listens}}, nullptr);
}

void MasterSession::ListenOn(ServerChannel &channel)
{
    std::string name;
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        name = m_Name;
    }
    Join(channel, name, true);
}

void MasterSession::GiveBack(std::unique_ptr<ServerChannel> channel, const uint64_t epoch)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    // One of a session that was lost meanwhile may have a reply to come.
    if (m_IsUp && epoch == m_Epoch)
    {
        m_Idle.push_back(std::move(channel));
    }
}

void MasterSession::Lose(const uint64_t epoch)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    // Many calls see the same break: the first ends the session, and no other one its successor.
    if (epoch == m_Epoch || epoch == 0)
    {
        m_IsUp = false;
        m_Idle.clear();
    }
}

void MasterSession::Renew(const Value &reply, const Clock::time_point sent)
{
    if (reply.BoolAt("ok"))
    {
        m_Kept.SetLease(sent + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(m_LeaseSecs - KernelSecs())));
    }
}

size_t MasterSession::TakeSlot(Value::Map &request)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    return m_Slots.Take(request);
}

/** What a reply gives becomes the session's in one step with the end of its request: else a
 *  session that comes back just then would name neither, and the master would take it back. */
void MasterSession::LeaveSlot(const size_t slot, const Value *reply)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (reply != nullptr)
    {
        m_Listener.OnReply(*reply);
    }
    m_Slots.Leave(slot, reply == nullptr);
}

} // end namespace bbflow
