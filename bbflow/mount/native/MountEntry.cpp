#include "MountEntry.h"

#include "Errno.h"
#include "HeldDirectory.h"

#include <fstream>
#include <functional>
#include <sstream>
#include <sys/mount.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** How often a mount is looked for whose path changes. */
constexpr int DetachTries = 10;

/** Returns a path as it is: the table has blanks and line breaks as octal numbers. */
std::string Plain(const std::string &escaped)
{
    std::string plain;
    for (size_t at = 0; at < escaped.size(); ++at)
    {
        if (escaped[at] == '\\' && at + 3 < escaped.size())
        {
            plain += static_cast<char>(std::stoi(escaped.substr(at + 1, 3), nullptr, 8));
            at += 3;
        }
        else
        {
            plain += escaped[at];
        }
    }
    return plain;
}

MountEntry EntryFrom(const std::string &line)
{
    MountEntry entry;
    std::istringstream words(line);
    std::string parent, root, word;
    words >> entry.Number >> parent >> entry.Device >> root >> entry.Point;
    while (words >> word && word != "-")
    {
    }
    words >> entry.Type;
    entry.Point = Plain(entry.Point);
    return entry;
}

std::optional<MountEntry> Find(const std::function<bool(const MountEntry &)> &isIt)
{
    std::ifstream table(MountTable);
    for (std::string line; std::getline(table, line);)
    {
        const MountEntry entry = EntryFrom(line);
        if (isIt(entry))
        {
            return entry;
        }
    }
    return std::nullopt;
}

} // end empty namespace

std::optional<MountEntry> EntryOf(const int directory)
{
    std::ifstream facts("/proc/self/fdinfo/" + std::to_string(directory));
    std::string word, number;
    while (facts >> word && word != "mnt_id:")
    {
    }
    facts >> number;
    return Find([&](const MountEntry &entry) { return entry.Number == number; });
}

std::optional<MountEntry> EntryNow(const MountEntry &entry)
{
    return Find([&](const MountEntry &other) { return other.Is(entry); });
}

void DetachEntry(const MountEntry &entry)
{
    for (int left = DetachTries; left > 0; --left)
    {
        const std::optional<MountEntry> now = EntryNow(entry);
        if (!now)
        {
            return;
        }
        int place = -1;
        try
        {
            place = OpenPlace(now->Point);
        }
        catch (const Errno &)
        {
            if (left == 1)
            {
                throw;
            }
            continue; // it was moved meanwhile
        }
        const std::optional<MountEntry> there = EntryOf(place);
        const bool isIt = there && there->Is(entry);
        // By the descriptor that was looked at: the path may lead elsewhere by now.
        const bool isDone =
            isIt && umount2(("/proc/self/fd/" + std::to_string(place)).c_str(), MNT_DETACH) == 0;
        const int error = isIt ? errno : ESTALE;
        close(place);
        if (isDone)
        {
            return;
        }
        if (left == 1)
        {
            throw Errno(error);
        }
    }
}

} // end namespace bbflow
