#include "MasterLink.h"

#include "Errno.h"
#include "ValueAs.h"

#include <algorithm>
#include <iostream>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr double ConnectSecs = 10.0;
constexpr double RetrySecs = 0.05;
/** A signal counts for a call that has waited for so long; a shorter one just ends. */
constexpr double InterruptSecs = 0.5;

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

/** @throws Errno if the reply is a refusal */
Value Accepted(Value reply)
{
    if (!reply.BoolAt("ok"))
    {
        const Value *number = reply.Find("errno");
        throw Errno(number != nullptr ? static_cast<int>(number->AsUnsigned()) : EIO);
    }
    return reply;
}

} // end empty namespace

MasterLink::MasterLink(std::string contact, const uint64_t number, const double patience,
                       LinkListener listener)
: m_Contact(std::move(contact)), m_Number(number), m_Patience(patience),
  m_Listener(std::move(listener))
{
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        BeginFirst();
    }
    m_Listening = std::thread([this] { Listen(); });
    m_Pinging = std::thread([this] { Ping(); });
}

MasterLink::~MasterLink()
{
    m_IsEnding = true;
    m_EndChanged.notify_all();
    try
    {
        const std::atomic<bool> never{false};
        const std::lock_guard<std::mutex> lock(m_Mutex);
        if (m_IsUp && !m_Idle.empty())
        {
            Exchange(*m_Idle.back(), Value::Map{{"op", "bye"}}, nullptr);
        }
    }
    catch (const std::exception &)
    {
        // It is gone: then the session ends by itself.
    }
    m_Pinging.join();
    m_Listening.join();
}

std::unique_ptr<Channel> MasterLink::Connect(const Deadline &deadline) const
{
    const bbflow::Contact contact = ReadContact(m_Contact);
    const Node master = MasterIn(contact, m_Number, m_Contact);
    return std::make_unique<Channel>(ConnectTo(master, contact.Key, Transport::Auto, deadline));
}

/** Makes the session; a subtree's master may just be starting, once a directory leads there. */
void MasterLink::BeginFirst()
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
        WaitForEnd(RetrySecs);
    }
}

/** Makes the session, or comes back to it; with m_Mutex locked. */
void MasterLink::Begin(const Deadline &deadline)
{
    std::unique_ptr<Channel> channel = Connect(deadline);
    const auto sent = Clock::now();
    bool isNew = true;
    const Value reply = AskForSession(*channel, isNew);
    m_Session = reply.StringAt("session");
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

Value MasterLink::AskForSession(Channel &channel, bool &isNew)
{
    Value::Map request = {{"op", "session"},
                          {"host", HostName()},
                          {"pid", int64_t{getpid()}},
                          {"uid", uint64_t{getuid()}},
                          {"gid", uint64_t{getgid()}}};
    if (!m_Session.empty())
    {
        Value::Map resume = request;
        Held held = m_Listener.Holding();
        for (size_t slot = 0; slot < m_Slots.size(); ++slot)
        {
            if (m_Slots[slot].IsBusy)
            {
                held.Slots.push_back(Value::Array{uint64_t{slot}, m_Slots[slot].Number});
            }
        }
        Value::Map room;
        for (const auto &[node, bytes] : held.Room)
        {
            room.emplace_back(node, bytes);
        }
        resume.emplace_back("resume", m_Session);
        resume.emplace_back("slots", held.Slots);
        resume.emplace_back("handles", held.Handles);
        resume.emplace_back("room", room);
        try
        {
            Value reply = Exchange(channel, resume, nullptr);
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

Value MasterLink::Exchange(Channel &channel, const Value &request, const Caller *caller) const
{
    channel.Send(request);
    while (true)
    {
        if (std::optional<Value> reply = channel.Receive(After(InterruptSecs)))
        {
            return Accepted(std::move(*reply));
        }
        if (m_IsEnding || (caller != nullptr && caller->IsInterrupted))
        {
            throw Errno(EINTR);
        }
    }
}

std::unique_ptr<Channel> MasterLink::Take(uint64_t &epoch, const Deadline &deadline)
{
    std::string session;
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        if (!m_IsUp)
        {
            Begin(deadline);
        }
        epoch = m_Epoch;
        if (!m_Idle.empty())
        {
            std::unique_ptr<Channel> channel = std::move(m_Idle.back());
            m_Idle.pop_back();
            return channel;
        }
        session = m_Session;
    }
    std::unique_ptr<Channel> channel = Connect(deadline);
    try
    {
        Exchange(*channel, Value::Map{{"op", "join"}, {"session", session}, {"listen", false}},
                 nullptr);
    }
    catch (const Errno &)
    {
        throw ConnectionLost("bbflow: the master doesn't know the session");
    }
    return channel;
}

void MasterLink::GiveBack(std::unique_ptr<Channel> channel, const uint64_t epoch)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (m_IsUp && epoch == m_Epoch)
    {
        m_Idle.push_back(std::move(channel));
    }
}

void MasterLink::Lose(const uint64_t epoch)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (epoch == m_Epoch || epoch == 0)
    {
        m_IsUp = false;
        m_Idle.clear();
    }
}

void MasterLink::Renew(const Value &reply, const Clock::time_point sent)
{
    if (reply.BoolAt("ok"))
    {
        m_Kept.SetLease(sent + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(m_LeaseSecs)));
    }
}

/** Gives a request a slot that no other one has now, and a number there. */
size_t MasterLink::TakeSlot(Value::Map &request)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
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

/** What a reply gives becomes the session's in one step with the end of its request: else a
 *  session that comes back just then would name neither, and the master would take it back. */
void MasterLink::LeaveSlot(const size_t slot, const Value *reply, const bool isAbandoned)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (reply != nullptr)
    {
        m_Listener.OnReply(*reply);
    }
    m_Slots[slot].IsBusy = false;
    m_Slots[slot].IsAbandoned = isAbandoned;
}

Value MasterLink::Ask(const Caller &caller, Value::Map request)
{
    const size_t slot = TakeSlot(request);
    try
    {
        Value reply = AskAgainAndAgain(caller, std::move(request));
        LeaveSlot(slot, &reply, false);
        return reply;
    }
    catch (...)
    {
        LeaveSlot(slot, nullptr, true); // a refusal, or a reply that nobody waits for any more
        throw;
    }
}

Value MasterLink::AskAgainAndAgain(const Caller &caller, const Value &request)
{
    const Deadline patience = After(m_Patience);
    while (true)
    {
        uint64_t epoch = 0;
        try
        {
            std::unique_ptr<Channel> channel = Take(epoch, After(ConnectSecs));
            const auto sent = Clock::now();
            try
            {
                Value reply = Exchange(*channel, request, &caller);
                Renew(reply, sent);
                GiveBack(std::move(channel), epoch);
                return reply;
            }
            catch (const Errno &error)
            {
                if (error.Number() != EINTR) // else its reply is still to come
                {
                    GiveBack(std::move(channel), epoch);
                }
                throw;
            }
        }
        catch (const Errno &)
        {
            throw;
        }
        catch (const std::runtime_error &error)
        {
            Lose(epoch);
            if (IsOver(patience) || m_IsEnding)
            {
                std::cerr << error.what() << std::endl;
                throw Errno(EIO);
            }
            if (caller.IsInterrupted)
            {
                throw Errno(EINTR);
            }
            WaitForEnd(RetrySecs);
        }
    }
}

void MasterLink::Tell(const Value &message)
{
    uint64_t epoch = 0;
    try
    {
        std::unique_ptr<Channel> channel = Take(epoch, After(ConnectSecs));
        channel->Send(message);
        GiveBack(std::move(channel), epoch);
    }
    catch (const std::exception &)
    {
        Lose(epoch);
    }
}

void MasterLink::Listen()
{
    while (!m_IsEnding)
    {
        try
        {
            ListenOnce();
        }
        catch (const std::exception &)
        {
            WaitForEnd(RetrySecs);
        }
    }
}

void MasterLink::ListenOnce()
{
    uint64_t epoch = 0;
    std::unique_ptr<Channel> channel = Take(epoch, After(ConnectSecs));
    try
    {
        Exchange(*channel, Value::Map{{"op", "join"}, {"session", m_Session}, {"listen", true}},
                 nullptr);
        while (!m_IsEnding)
        {
            const std::optional<Value> message = channel->Receive(After(RetrySecs));
            if (message && message->StringAt("op") == "nodes")
            {
                m_Listener.OnNodes(*message);
            }
            else if (message)
            {
                const Forgotten what = ForgottenFrom(*message);
                m_Kept.Forget(what);
                m_Listener.OnForget(what);
                channel->Send(Value::Map{{"op", "forgot"}, {"seq", what.Seq}});
            }
        }
    }
    catch (const std::exception &)
    {
        Lose(epoch);
        throw;
    }
}

void MasterLink::Ping()
{
    const std::atomic<bool> never{false};
    const Caller nobody{0, 0, 0, never};
    while (!WaitForEnd(m_LeaseSecs / 3))
    {
        try
        {
            Ask(nobody, {{"op", "ping"}});
        }
        catch (const Errno &)
        {
            continue; // it stays away: nothing that is kept counts meanwhile
        }
    }
}

bool MasterLink::WaitForEnd(const double seconds)
{
    std::unique_lock<std::mutex> lock(m_EndMutex);
    return m_EndChanged.wait_for(lock, std::chrono::duration<double>(seconds),
                                 [this] { return m_IsEnding.load(); });
}

} // end namespace bbflow
