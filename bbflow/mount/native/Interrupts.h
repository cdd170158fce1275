#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace bbflow
{

/** The requests that are being served, so that a signal reaches the one that it is for. */
class Interrupts
{
public:
    /** A request, as long as it is served. */
    class Scope
    {
    public:
        Scope(Interrupts &all, uint64_t unique);
        ~Scope();
        Scope(const Scope &) = delete;
        Scope &operator=(const Scope &) = delete;

        std::atomic<bool> IsInterrupted{false};

    private:
        Interrupts &m_All;
        const uint64_t m_Unique;
    };

    /** Marks a request; false if it isn't served now. */
    bool Interrupt(uint64_t unique);

private:
    std::mutex m_Mutex;
    std::unordered_map<uint64_t, Scope *> m_Served;
};

} // end namespace bbflow
