#include "OpenNumber.h"

#include <map>
#include <mutex>
#include <utility>

namespace bbflow
{

namespace
{

std::mutex Lock;
std::map<std::pair<std::string, bool>, size_t> Opened; // guarded by Lock

} // end empty namespace

OpenNumber::OpenNumber(std::string name, const bool reads) : m_Name(std::move(name)), m_Reads(reads)
{
}

std::string OpenNumber::Fill() const
{
    const std::string placeholder = "{open}";
    const std::lock_guard<std::mutex> guard(Lock);
    const std::string number = std::to_string(Opened[{m_Name, m_Reads}] + 1);
    std::string filled = m_Name;
    for (size_t at = filled.find(placeholder); at != std::string::npos;
         at = filled.find(placeholder, at))
    {
        filled.replace(at, placeholder.size(), number);
    }
    return filled;
}

void OpenNumber::Count()
{
    const std::lock_guard<std::mutex> guard(Lock);
    ++Opened[{m_Name, m_Reads}];
}

} // end namespace bbflow
