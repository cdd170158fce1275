#pragma once

#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace bbflow
{

/** What a program gets as `errno` from its call. */
class Errno : public std::exception
{
public:
    /** @param why what a master says of it; nothing if there is no more to say */
    explicit Errno(const int number, std::string why = {}) : m_Number(number), m_Why(std::move(why))
    {
    }

    int Number() const { return m_Number; }
    const std::string &Why() const { return m_Why; }
    const char *what() const noexcept override { return std::strerror(m_Number); }

private:
    int m_Number;
    std::string m_Why;
};

/** The same where nobody knows what became of a request: its reply isn't waited for any longer. */
class Unanswered final : public Errno
{
public:
    using Errno::Errno;
};

/** Returns the result of a system call.
 *  @throws Errno if it failed */
template <class T>
T Checked(const T result)
{
    if (result < 0)
    {
        throw Errno(errno);
    }
    return result;
}

} // end namespace bbflow
