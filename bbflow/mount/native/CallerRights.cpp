#include "CallerRights.h"

#include <fstream>
#include <sstream>
#include <string>

namespace bbflow
{

namespace
{

/** The kernel sends the first group only; the others stand in /proc. */
Value::Array GroupsOf(const uint32_t pid)
{
    Value::Array groups;
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
    {
        if (line.rfind("Groups:", 0) == 0)
        {
            std::istringstream numbers(line.substr(7));
            for (uint64_t group = 0; numbers >> group;)
            {
                groups.emplace_back(group);
            }
            break;
        }
    }
    return groups;
}

} // end empty namespace

Value::Map By(const Caller &caller, Value::Map request)
{
    request.emplace_back("uid", uint64_t{caller.Uid});
    request.emplace_back("gid", uint64_t{caller.Gid});
    if (caller.Uid != 0) // root may anyway
    {
        request.emplace_back("groups", GroupsOf(caller.Pid));
    }
    return request;
}

} // end namespace bbflow
