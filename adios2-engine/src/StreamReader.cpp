#include "StreamReader.h"

#include "StreamShare.h"

#include <algorithm>
#include <poll.h>
#include <stdexcept>
#include <thread>

namespace bbflow
{

namespace
{

constexpr double RetrySecs = 0.1;
constexpr double ConnectSecs = 5.0;

void RetryPause()
{
    std::this_thread::sleep_for(std::chrono::duration<double>(RetrySecs));
}

} // end empty namespace

StreamReader::StreamReader(const Parameters &parameters)
: m_Parameters(parameters), m_Stream(ShareOf(parameters).Stream)
{
    if (parameters.Contact.empty())
    {
        throw std::runtime_error("bbflow: no contact file is given: set the parameter Contact or "
                                 "the environment's BBFLOW_CONTACT");
    }
    const Deadline deadline = After(parameters.OpenTimeoutSecs);
    ReadNodes(deadline);
    AwaitStream(deadline);
}

void StreamReader::ReadNodes(const Deadline &deadline)
{
    while (m_Members.empty())
    {
        try
        {
            const Contact contact = ReadContact(m_Parameters.Contact);
            m_Key = contact.Key;
            for (const Node &node : contact.Nodes)
            {
                m_Members.push_back({node, nullptr, deadline});
            }
        }
        catch (const std::runtime_error &error)
        {
            if (IsOver(deadline))
            {
                throw std::runtime_error(std::string(error.what()) + "; waited OpenTimeoutSecs=" +
                                         std::to_string(m_Parameters.OpenTimeoutSecs));
            }
            RetryPause();
        }
    }
    std::vector<std::string> names;
    for (const Member &member : m_Members)
    {
        names.push_back(member.Node.Name);
    }
    m_View = std::make_unique<ReadView>(std::move(names));
}

void StreamReader::AwaitStream(const Deadline &deadline)
{
    Await(-1, After(0.0));
    while (!m_View->IsThere())
    {
        const bool isAnyLeft = std::any_of(m_Members.begin(), m_Members.end(),
                                           [](const Member &member) { return !member.IsLost; });
        if (IsOver(deadline) || !isAnyLeft)
        {
            throw std::runtime_error(
                (isAnyLeft ? "bbflow: nobody has opened stream " + m_Stream + " on the nodes of '" +
                                 m_Parameters.Contact + "'"
                           : m_WhyLost) +
                "; waited OpenTimeoutSecs=" + std::to_string(m_Parameters.OpenTimeoutSecs));
        }
        Sleep(deadline);
        Await(-1, After(0.0));
    }
}

Next StreamReader::Await(const int64_t after, const Deadline &deadline)
{
    while (true)
    {
        bool isNew = false;
        for (size_t node = 0; node < m_Members.size(); ++node)
        {
            isNew = HasNews(node) || isNew;
        }
        const Next next = m_View->After(after);
        if (next.What != Next::Kind::Wait || (IsOver(deadline) && !isNew))
        {
            return next;
        }
        if (!isNew)
        {
            Sleep(deadline);
        }
    }
}

bool StreamReader::HasNews(const size_t node)
{
    Member &member = m_Members[node];
    bool isNew = false;
    try
    {
        if (!member.Link)
        {
            Mend(node);
        }
        if (member.Link)
        {
            const int64_t known = std::max(m_Passed, m_View->Known(node));
            member.Link->AskForNews(m_Stream, known, member.Change);
            if (const std::optional<Value> news = member.Link->TakeNews())
            {
                isNew = true;
                TakeIn(node, *news);
            }
        }
    }
    catch (const ConnectionLost &)
    {
        Break(member);
    }
    return isNew;
}

void StreamReader::TakeIn(const size_t node, const Value &news)
{
    Member &member = m_Members[node];
    if (!member.IsJoined && news.StringAt("status") != "expected")
    {
        Join(member); // what is kept may have changed before: ask again
        return;
    }
    member.Change = news.Find("change")->AsSigned();
    if (m_View->Update(node, news, NewsLimit))
    {
        member.Change = -1;
    }
    if (!member.IsJoined)
    {
        return;
    }
    m_Newest = news.ArrayAt("attributes");
    if (member.WantsBase)
    {
        const Value::Array &base = news.ArrayAt("base");
        m_Base.insert(m_Base.end(), base.begin(), base.end());
        member.WantsBase = false;
    }
}

void StreamReader::Join(Member &member)
{
    const Value reply = member.Link->Request(
        Value::Map{{"op", "join"}, {"stream", m_Stream}, {"after", m_Passed}});
    member.IsJoined = true;
    member.Change = -1;
    member.Oldest = reply.Find("oldest")->AsSigned();
    member.WantsBase = m_Passed < 0 || member.Oldest > m_Passed + 1;
}

void StreamReader::Sleep(const Deadline &deadline) const
{
    std::vector<pollfd> waiting;
    bool isBroken = false;
    for (const Member &member : m_Members)
    {
        if (member.Link)
        {
            waiting.push_back({member.Link->Descriptor(), POLLIN, 0});
        }
        isBroken = isBroken || (!member.Link && !member.IsLost);
    }
    const int mostMs = static_cast<int>(RetrySecs * 1000);
    const int leftMs = MillisecondsUntil(deadline);
    poll(waiting.data(), waiting.size(),
         isBroken && (leftMs < 0 || leftMs > mostMs) ? mostMs : leftMs);
}

void StreamReader::Break(Member &member)
{
    member.Link.reset();
    member.IsJoined = false;
    member.Change = -1;
    member.GiveUp = After(m_Parameters.NodeLossTimeoutSecs);
}

void StreamReader::Mend(const size_t node)
{
    Member &member = m_Members[node];
    if (member.IsLost)
    {
        return;
    }
    try
    {
        FindAgain(member);
        member.Link = std::make_unique<ReaderLink>(member.Node, m_Key, m_Parameters.Transport,
                                                 After(ConnectSecs));
    }
    catch (const Refused &)
    {
        throw;
    }
    catch (const std::runtime_error &error)
    {
        if (IsOver(member.GiveUp))
        {
            m_WhyLost = error.what();
            member.IsLost = true;
            m_View->Lose(node);
        }
    }
}

void StreamReader::FindAgain(Member &member) const
{
    for (const Node &node : ReadContact(m_Parameters.Contact).Nodes)
    {
        if (node.Name == member.Node.Name)
        {
            member.Node = node; // one that was started again has another TCP port
        }
    }
}

std::map<std::string, StoredVariable> StreamReader::Contents(const int64_t step) const
{
    std::vector<const Value *> parts;
    for (size_t node = 0; node < m_Members.size(); ++node)
    {
        parts.push_back(m_View->Part(node, step));
    }
    return ReadStep(parts, m_View->Writers());
}

Value::Array StreamReader::TakeAttributes(const int64_t step)
{
    Value::Array taken = std::move(m_Base);
    m_Base.clear();
    for (int64_t number = m_Passed + 1; number <= step; ++number)
    {
        for (size_t node = 0; node < m_Members.size(); ++node)
        {
            if (const Value *part = m_View->Part(node, number))
            {
                const Value::Array &changed = part->ArrayAt("attributes");
                taken.insert(taken.end(), changed.begin(), changed.end());
            }
        }
    }
    return taken;
}

void StreamReader::Pass(const int64_t step)
{
    m_Passed = step;
    m_Spilled.clear();
    m_View->Forget(step);
    for (Member &member : m_Members)
    {
        try
        {
            if (member.Link && member.IsJoined && !m_Parameters.Pin)
            {
                member.Link->Tell(Value::Map{{"op", "pass"}, {"step", step}});
            }
        }
        catch (const ConnectionLost &)
        {
            Break(member);
        }
    }
}

void StreamReader::Copy(const int64_t step, const StoredBlock &block, const Runs &runs,
                        const size_t elementBytes, char *target)
{
    const size_t begin = runs.SourceBegin() * elementBytes;
    if (const char *mapped = Mapped(block))
    {
        runs.Copy(mapped + begin, target, elementBytes);
        return;
    }
    const size_t bytes = runs.SourceEnd() * elementBytes - begin;
    if (runs.Count() == 1)
    {
        Fetch(step, block, begin, bytes, target + runs.TargetBegin() * elementBytes);
        return;
    }
    std::vector<char> fetched(bytes);
    Fetch(step, block, begin, bytes, fetched.data());
    runs.Copy(fetched.data(), target, elementBytes);
}

const char *StreamReader::Mapped(const StoredBlock &block)
{
    if (!block.File.empty())
    {
        std::unique_ptr<MappedFile> &file = m_Spilled[block.File];
        if (!file)
        {
            file = std::make_unique<MappedFile>(block.File);
        }
        return file->At(block.Offset, block.Bytes);
    }
    const std::unique_ptr<ReaderLink> &link = m_Members.at(block.Node).Link;
    return link && link->Pool() ? link->Pool()->At(block.Offset, block.Bytes) : nullptr;
}

void StreamReader::Fetch(const int64_t step, const StoredBlock &block, const size_t begin,
                         const size_t bytes, char *target)
{
    while (true)
    {
        Member &member = m_Members.at(block.Node);
        AwaitLink(block.Node);
        if (member.IsLost)
        {
            throw std::runtime_error("bbflow: BB node " + member.Node.Name +
                                     " is gone, and with it a part of step " +
                                     std::to_string(step) + "; waited NodeLossTimeoutSecs=" +
                                     std::to_string(m_Parameters.NodeLossTimeoutSecs));
        }
        try
        {
            member.Link->Fetch(step, block.Offset + begin, bytes, target);
            return;
        }
        catch (const ConnectionLost &)
        {
            Break(member);
        }
    }
}

void StreamReader::AwaitLink(const size_t node)
{
    Member &member = m_Members.at(node);
    while (!member.IsJoined && !member.IsLost)
    {
        try
        {
            if (!member.Link)
            {
                Mend(node);
            }
            if (member.Link)
            {
                Join(member);
                return;
            }
        }
        catch (const ConnectionLost &)
        {
            Break(member);
        }
        RetryPause();
    }
}

void StreamReader::Confirm(const int64_t step)
{
    for (size_t node = 0; node < m_Members.size(); ++node)
    {
        Member &member = m_Members[node];
        const bool isRead = m_View->Part(node, step) != nullptr;
        if (isRead && member.Link && member.Link->IsBroken())
        {
            Break(member);
        }
        if (isRead && !member.IsJoined)
        {
            AwaitLink(node); // an agent that is gone for good gives the room to nobody
            if (member.Oldest > step)
            {
                throw std::runtime_error("bbflow: BB node " + member.Node.Name +
                                         " was started again and has let go of step " +
                                         std::to_string(step) + " while it was read");
            }
        }
    }
}

} // end namespace bbflow
