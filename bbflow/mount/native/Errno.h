#pragma once

#include <cerrno>
#include <cstring>
#include <exception>

namespace bbflow
{

/** What a program gets as `errno` from its call. */
class Errno : public std::exception
{
public:
    explicit Errno(const int number) : m_Number(number) {}

    int Number() const { return m_Number; }
    const char *what() const noexcept override { return std::strerror(m_Number); }

private:
    int m_Number;
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
