#include "MasterLink.h"

#include <iostream>

namespace bbflow
{

namespace
{

constexpr double RetrySecs = 0.05;

} // end empty namespace

void Patience::WaitFor(const Errno &error, const Caller &caller)
{
    if (error.Number() != EHOSTDOWN)
    {
        throw Errno(error);
    }
    if (caller.IsInterrupted)
    {
        throw Errno(EINTR);
    }
    if (!m_End)
    {
        m_End.emplace(After(m_Seconds));
    }
    if (IsOver(*m_End))
    {
        if (!error.Why().empty()) // the program is only told EIO
        {
            std::cerr << "bbflow-mount: " << error.Why() << std::endl;
        }
        throw Errno(EIO);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

MasterLink::MasterLink(MountedContact contact, const uint64_t number, const double patience,
                       LinkListener listener)
: m_Patience(patience),
  m_Session(std::move(contact), number, patience, std::move(listener), m_Ending)
{
    m_Listening = std::thread([this] { Listen(); });
    m_Pinging = std::thread([this] { Ping(); });
}

MasterLink::~MasterLink()
{
    m_Ending.Begin();
    try
    {
        m_Session.End();
    }
    catch (const std::exception &)
    {
        // It is gone: then the session ends by itself.
    }
    m_Pinging.join();
    m_Listening.join();
}

Value MasterLink::Ask(const Caller &caller, const Value::Map &request)
{
    Patience patience = NewPatience();
    while (true)
    {
        Value::Map asked = request;
        const size_t slot = m_Session.TakeSlot(asked);
        try
        {
            Value reply = AskAgainAndAgain(caller, std::move(asked));
            m_Session.LeaveSlot(slot, &reply);
            return reply;
        }
        catch (const Unanswered &)
        {
            m_Session.LeaveSlot(slot, nullptr);
            throw;
        }
        catch (const Errno &error)
        {
            m_Session.LeaveSlot(slot, nullptr); // refused
            patience.WaitFor(error, caller);
        }
        catch (...)
        {
            m_Session.LeaveSlot(slot, nullptr);
            throw;
        }
    }
}

Value MasterLink::AskAgainAndAgain(const Caller &caller, const Value &request)
{
    std::optional<Deadline> end; // of patience, once the master has gone away
    while (true)
    {
        uint64_t epoch = 0;
        const Deadline waited = After(m_Patience);
        try
        {
            return AskOnce(caller, request, epoch);
        }
        catch (const Errno &)
        {
            throw;
        }
        catch (const std::runtime_error &error)
        {
            m_Session.Lose(epoch);
            if (!end || (epoch != 0 && IsOver(waited))) // it was there for as long
            {
                end.emplace(After(m_Patience));
            }
            if (IsOver(*end) || m_Ending.IsBegun())
            {
                std::cerr << error.what() << std::endl;
                throw Unanswered(EIO);
            }
            if (caller.IsInterrupted)
            {
                throw Unanswered(EINTR);
            }
            m_Ending.WaitFor(RetrySecs);
        }
    }
}

Value MasterLink::AskOnce(const Caller &caller, const Value &request, uint64_t &epoch)
{
    std::unique_ptr<ServerChannel> channel = m_Session.Take(epoch);
    const auto sent = MasterSession::Clock::now();
    try
    {
        Value reply = m_Session.Exchange(*channel, request, &caller);
        m_Session.Renew(reply, sent);
        m_Session.GiveBack(std::move(channel), epoch);
        return reply;
    }
    catch (const Errno &error)
    {
        if (error.Number() != EINTR) // else its reply is still to come
        {
            m_Session.GiveBack(std::move(channel), epoch);
        }
        throw;
    }
}

void MasterLink::Tell(const Value &message)
{
    uint64_t epoch = 0;
    try
    {
        std::unique_ptr<ServerChannel> channel = m_Session.Take(epoch);
        channel->Send(message);
        m_Session.GiveBack(std::move(channel), epoch);
    }
    catch (const std::exception &)
    {
        m_Session.Lose(epoch);
    }
}

void MasterLink::Listen()
{
    while (!m_Ending.IsBegun())
    {
        try
        {
            ListenOnce();
        }
        catch (const std::exception &)
        {
            m_Ending.WaitFor(RetrySecs);
        }
    }
}

void MasterLink::ListenOnce()
{
    uint64_t epoch = 0;
    std::unique_ptr<ServerChannel> channel = m_Session.Take(epoch);
    try
    {
        m_Session.ListenOn(*channel);
        while (!m_Ending.IsBegun())
        {
            if (const std::optional<Value> message = channel->Receive(After(RetrySecs)))
            {
                Hear(*channel, *message);
            }
            m_Session.Listener().OnPause();
        }
    }
    catch (const std::exception &)
    {
        m_Session.Lose(epoch);
        throw;
    }
}

/** Takes in what the master says by itself. */
void MasterLink::Hear(ServerChannel &channel, const Value &message)
{
    if (message.StringAt("op") == "nodes")
    {
        m_Session.Listener().OnNodes(message);
        return;
    }
    const Forgotten what = ForgottenFrom(message);
    Kept().Forget(what);
    m_Session.Listener().OnForget(what);
    channel.Send(Value::Map{{"op", "forgot"}, {"seq", what.Seq}});
}

void MasterLink::Ping()
{
    const std::atomic<bool> never{false};
    const Caller nobody{0, 0, 0, never};
    while (!m_Ending.WaitFor(m_Session.LeaseSecs() / 3))
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

} // end namespace bbflow
