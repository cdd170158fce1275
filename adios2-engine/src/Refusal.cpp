#include "Refusal.h"

#include "OpenNumber.h"
#include "Placement.h"
#include "StreamShare.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <strings.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** How long a node may take: the program waits meanwhile. */
constexpr double NodeSecs = 5.0;
/** A node takes no longer text. */
constexpr size_t LongestWhy = 1024;

/** Whether it is told for the first time. */
bool IsNew(const std::string &stream)
{
    static std::mutex lock;
    static std::set<std::string> told;
    const std::lock_guard<std::mutex> guard(lock);
    return told.insert(stream).second;
}

/** Whether a node has taken it: one that knows the stream, the rank's own first. */
bool TellNode(const Parameters &parameters, const std::string &why)
{
    const Contact contact = ReadContact(parameters.Contact);
    const StreamShare share = ShareOf(parameters);
    const size_t nodes = contact.Nodes.size(), first = ChooseNode(contact, parameters).Node;
    for (size_t next = first; next < first + nodes; ++next)
    {
        try
        {
            Channel channel = ConnectTo(contact.Nodes[next % nodes], contact.Key,
                                        parameters.Transport, After(NodeSecs));
            channel.Send(Value::Map{{"op", "refuse"},
                                    {"stream", share.Stream},
                                    {"rank", uint64_t{parameters.Place.Rank - share.FirstRank}},
                                    {"why", why}});
            channel.Reply(After(NodeSecs));
            return true;
        }
        catch (const std::exception &)
        {
            // It doesn't know the stream, or is gone.
        }
    }
    return false;
}

void TellRun(const std::string &stream, std::string why)
{
    std::replace_if(
        why.begin(), why.end(), [](const unsigned char sign) { return std::iscntrl(sign) != 0; },
        ' ');
    const std::string line = "refused\t" + stream + "\t" + why + "\n";
    const char *path = std::getenv("BBFLOW_OPENS");
    // One write to the end for a line: all ranks of the host share the file.
    const int file = path == nullptr ? -1 : open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file >= 0)
    {
        static_cast<void>(write(file, line.data(), line.size()) != 0);
        close(file);
    }
}

} // end empty namespace

void TellRefusal(const Parameters &parameters, const std::string &said) noexcept
{
    try
    {
        const std::string own = "bbflow: ";
        const size_t begin = said.compare(0, own.size(), own) == 0 ? own.size() : 0;
        const std::string why = said.substr(begin, LongestWhy);
        const std::string stream = ShareOf(parameters).Stream;
        if (!IsNew(stream))
        {
            return;
        }
        bool isTold = false;
        try
        {
            isTold = TellNode(parameters, why);
        }
        catch (const std::exception &)
        {
            // There is no contact file.
        }
        if (!isTold)
        {
            TellRun(stream, why);
        }
    }
    catch (const std::exception &)
    {
        // There is no memory left; the program learns of the refusal itself.
    }
}

Parameters GuessParameters(const std::map<std::string, std::string> &given,
                           const std::string &ioName, const Opened &opened)
{
    Parameters parameters;
    try
    {
        parameters = ReadParameters(given, ioName, opened);
    }
    catch (const std::exception &)
    {
        parameters = ReadParameters({}, ioName, Opened{});
        for (const auto &[name, text] : given)
        {
            const auto is = [&](const char *known) { return strcasecmp(name.c_str(), known) == 0; };
            parameters.Stream = is("Stream") ? text : parameters.Stream;
            parameters.Contact = is("Contact") ? text : parameters.Contact;
        }
    }
    parameters.Stream = OpenNumber(parameters.Stream, false).Fill();
    return parameters;
}

} // end namespace bbflow
