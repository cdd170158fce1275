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

/** How soon something that is missing is looked for again. */
constexpr double RetrySecs = 0.1;

std::string Waited(const Parameters &parameters)
{
    return "; waited OpenTimeoutSecs=" + std::to_string(parameters.OpenTimeoutSecs);
}

} // end empty namespace

StreamReader::StreamReader(const Parameters &parameters) : m_Parameters(parameters)
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
    std::vector<std::string> names;
    while (names.empty())
    {
        try
        {
            const Contact contact = ReadContact(m_Parameters.Contact);
            if (contact.Nodes.empty()) // as before the first one is there
            {
                throw std::runtime_error("bbflow: '" + m_Parameters.Contact + "' has no BB node");
            }
            const std::string stream = ShareOf(m_Parameters).Stream;
            for (const Node &node : contact.Nodes)
            {
                m_Nodes.emplace_back(node, contact.Key, stream, m_Parameters, deadline);
                names.push_back(node.Name);
            }
        }
        catch (const std::runtime_error &error)
        {
            if (IsOver(deadline))
            {
                throw std::runtime_error(error.what() + Waited(m_Parameters));
            }
            std::this_thread::sleep_for(std::chrono::duration<double>(RetrySecs));
        }
    }
    m_View = std::make_unique<ReadView>(std::move(names));
}

void StreamReader::AwaitStream(const Deadline &deadline)
{
    while (Await(-1, After(0.0)), !m_View->IsThere())
    {
        const bool areAllLost = std::all_of(m_Nodes.begin(), m_Nodes.end(),
                                            [](const StreamNode &node) { return node.IsLost(); });
        if (areAllLost)
        {
            throw std::runtime_error(m_Nodes.front().WhyLost() + Waited(m_Parameters));
        }
        if (IsOver(deadline))
        {
            throw std::runtime_error("bbflow: no writer has opened stream " +
                                     ShareOf(m_Parameters).Stream + " on the nodes of '" +
                                     m_Parameters.Contact + "'" + Waited(m_Parameters));
        }
        Sleep(deadline);
    }
}

Next StreamReader::Await(const int64_t after, const Deadline &deadline)
{
    while (true)
    {
        bool isNew = false;
        for (size_t node = 0; node < m_Nodes.size(); ++node)
        {
            isNew = TakeNews(node) || isNew;
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

bool StreamReader::TakeNews(const size_t number)
{
    StreamNode &node = m_Nodes[number];
    std::optional<News> news = node.TakeNews(m_View->Known(number));
    if (node.IsLost())
    {
        m_View->Lose(number);
    }
    if (!news)
    {
        return false;
    }
    m_View->Update(number, news->Reply, std::move(news->Steps));
    m_Newest = news->Reply.ArrayAt("attributes");
    if (node.WantsBase())
    {
        const Value::Array &base = news->Reply.ArrayAt("base");
        m_Base.insert(m_Base.end(), base.begin(), base.end());
    }
    return true;
}

void StreamReader::Sleep(const Deadline &deadline) const
{
    std::vector<pollfd> waiting;
    bool isBroken = false;
    for (const StreamNode &node : m_Nodes)
    {
        waiting.push_back({node.Descriptor(), POLLIN, 0}); // poll passes -1 over
        isBroken = isBroken || (node.Descriptor() < 0 && !node.IsLost());
    }
    const int mostMs = static_cast<int>(RetrySecs * 1000);
    const int leftMs = MillisecondsUntil(deadline);
    poll(waiting.data(), waiting.size(),
         isBroken && (leftMs < 0 || leftMs > mostMs) ? mostMs : leftMs);
}

std::map<std::string, StoredVariable> StreamReader::Contents(const int64_t step) const
{
    std::vector<const StepPart *> parts;
    for (size_t node = 0; node < m_Nodes.size(); ++node)
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
        for (size_t node = 0; node < m_Nodes.size(); ++node)
        {
            if (const StepPart *part = m_View->Part(node, number))
            {
                taken.insert(taken.end(), part->Attributes.begin(), part->Attributes.end());
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
    for (StreamNode &node : m_Nodes)
    {
        node.Pass(step);
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
    StreamNode &node = m_Nodes.at(block.Node);
    if (runs.Count() == 1)
    {
        node.Fetch(step, block.Offset + begin, bytes, target + runs.TargetBegin() * elementBytes);
        return;
    }
    std::vector<char> fetched(bytes);
    node.Fetch(step, block.Offset + begin, bytes, fetched.data());
    runs.Copy(fetched.data(), target, elementBytes);
}

const char *StreamReader::Mapped(const StoredBlock &block)
{
    if (block.File.empty())
    {
        return m_Nodes.at(block.Node).Mapped(block.Offset, block.Bytes);
    }
    std::unique_ptr<SpilledFile> &file = m_Spilled[block.File];
    if (!file)
    {
        file = std::make_unique<SpilledFile>(block.File);
    }
    return file->At(block.Offset, block.Bytes);
}

void StreamReader::Confirm(const int64_t step)
{
    for (size_t node = 0; node < m_Nodes.size(); ++node)
    {
        if (m_View->Part(node, step) != nullptr)
        {
            m_Nodes[node].Confirm(step);
        }
    }
}

} // end namespace bbflow
