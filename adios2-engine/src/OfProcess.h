#pragma once

#include <memory>
#include <stdexcept>
#include <unistd.h>
#include <utility>

namespace bbflow
{

/** What belongs to the process that made it. A fork gets a copy, whose connections are its
 * parent's: there it can't be used, and is left as it is. */
template <class T>
class OfProcess
{
public:
    template <class... Given>
    explicit OfProcess(Given &&...given)
    : m_Object(std::make_unique<T>(std::forward<Given>(given)...))
    {
    }

    ~OfProcess()
    {
        if (!IsOwn())
        {
            static_cast<void>(m_Object.release());
        }
    }
    OfProcess(const OfProcess &) = delete;
    OfProcess &operator=(const OfProcess &) = delete;

    bool IsOwn() const { return getpid() == m_Process; }

    /** @throws std::logic_error in a fork */
    T *operator->() const
    {
        if (!IsOwn())
        {
            throw std::logic_error(
                "bbflow: this process was forked from the one that has opened the "
                "stream: only that one writes or reads it");
        }
        return m_Object.get();
    }

private:
    const pid_t m_Process = getpid();
    std::unique_ptr<T> m_Object;
};

} // end namespace bbflow
