#pragma once

#include <array>
#include <csignal>

namespace bbflow
{

/** Puts the process's handlers of signals back when it goes: a library of the host may set its own
 *  where it is loaded or asked. Those of libfabric's providers for PSM and shared memory end the
 *  process by exit(), a simulation's or a node's before it has ended in order. */
class KeptSignals
{
public:
    KeptSignals()
    {
        for (int number = 1; number < NSIG; ++number)
        {
            m_IsKnown[number] = sigaction(number, nullptr, &m_Handlers[number]) == 0;
        }
    }
    ~KeptSignals()
    {
        for (int number = 1; number < NSIG; ++number)
        {
            if (m_IsKnown[number])
            {
                sigaction(number, &m_Handlers[number], nullptr);
            }
        }
    }
    KeptSignals(const KeptSignals &) = delete;
    KeptSignals &operator=(const KeptSignals &) = delete;

private:
    std::array<struct sigaction, NSIG> m_Handlers;
    std::array<bool, NSIG> m_IsKnown{};
};

} // end namespace bbflow
