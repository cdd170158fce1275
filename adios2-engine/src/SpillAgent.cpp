#include "SpillAgent.h"

#include "Frame.h"
#include "SpillFile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** Number of the layout without blocks. */
constexpr int64_t NoBlocks = -1;

double SecondsSinceEpoch()
{
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

} // end empty namespace

SpillAgent::SpillAgent(const std::string &directory, const std::string &stream, const size_t rank)
: m_Stream(stream), m_Rank(uint64_t{rank}),
  m_Path(directory + "/" + SpillFile::NameOf(stream) + "." + std::to_string(rank)), m_File(-1)
{
    const std::string name = m_Path;
    m_Path += ".index";
    // Another run of this stream's name may have a file there, which is not ours to write to.
    for (size_t number = 1; !Open(); ++number)
    {
        m_Path = name + "-" + std::to_string(number) + ".index";
    }
}

bool SpillAgent::Open()
{
    m_File = open(m_Path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (m_File < 0 && errno != EEXIST)
    {
        throw std::runtime_error("bbflow: can't spill to " + m_Path + " (" + std::strerror(errno) +
                                 "): see SpillDirectory");
    }
    return m_File >= 0;
}

SpillAgent::~SpillAgent() { close(m_File); }

void SpillAgent::Send(const std::string_view head, std::string_view)
{
    std::string frame(head);
    const Value message = *TakeMessage(frame);
    const Value::Map reply = Answer(message.StringAt("op"), message);
    if (!reply.empty())
    {
        m_Replies += EncodeFrame(reply);
    }
}

Value::Map SpillAgent::Answer(const std::string &op, const Value &message)
{
    if (op == "open")
    {
        Append("open", {{"writers", *message.Find("writers")},
                        {"local_writers", *message.Find("local_writers")},
                        {"moved_from", *message.Find("moved_from")},
                        {"settled", *message.Find("settled")},
                        {"loss_timeout_s", *message.Find("loss_timeout_s")}});
        return {{"ok", true},
                {"pool", ""},
                {"capacity", 0},
                {"committed", *message.Find("settled")},
                {"extents", Value::Array{}},
                {"offer", ""}};
    }
    if (op == "begin")
    {
        m_BeganSecs = SecondsSinceEpoch();
        return {{"ok", true}, {"status", "spill"}, {"extents", Value::Array{}}};
    }
    if (op == "commit")
    {
        AppendCommit(message);
        return {};
    }
    if (op == "skip")
    {
        Append("discard", {{"step", *message.Find("step")}});
        AppendCommit(Value::Map{{"step", *message.Find("step")},
                                {"layout", NoBlocks},
                                {"sources", Value::Binary{}},
                                {"files", Value::Array{}},
                                {"values", Value::Array{}},
                                {"extremes", Value::Binary{}},
                                {"attributes", Value::Array{}}});
    }
    else if (op == "close")
    {
        Append("close", {{"attributes", *message.Find("attributes")}});
    }
    else if (op == "abort")
    {
        Append("abort", {});
        return {};
    }
    return {{"ok", true}};
}

void SpillAgent::AppendCommit(const Value &message)
{
    Value::Map commit;
    for (const char *key :
         {"step", "layout", "forms", "sources", "files", "values", "extremes", "attributes"})
    {
        if (const Value *value = message.Find(key))
        {
            commit.emplace_back(key, *value);
        }
    }
    commit.emplace_back("began_s", m_BeganSecs);
    commit.emplace_back("committed_s", SecondsSinceEpoch());
    Append("commit", std::move(commit));
}

void SpillAgent::Append(const char *record, Value::Map keys)
{
    Value::Map whole = {{"record", record}, {"stream", m_Stream}, {"rank", m_Rank}};
    std::move(keys.begin(), keys.end(), std::back_inserter(whole));
    const std::string frame = EncodeFrame(whole);
    if (write(m_File, frame.data(), frame.size()) != static_cast<ssize_t>(frame.size()))
    {
        throw std::runtime_error("bbflow: can't spill to " + m_Path + " (" + std::strerror(errno) +
                                 ")");
    }
}

size_t SpillAgent::Receive(char *target, const size_t most, const Deadline &)
{
    const size_t n = std::min(most, m_Replies.size());
    std::memcpy(target, m_Replies.data(), n);
    m_Replies.erase(0, n);
    return n;
}

} // end namespace bbflow
