#pragma once

#include "Gate.h"

#include <memory>
#include <thread>
#include <vector>

namespace bbflow
{

/** All gates of a node, and the thread that drives their providers: those that are software
 * receive with it, and all of them take in who connects. */
class Gates
{
public:
    Gates();
    ~Gates();
    Gates(const Gates &) = delete;
    Gates &operator=(const Gates &) = delete;

    /** Takes what the constructor of Gate takes. */
    Gate &Open(const std::string &provider, const std::string &host);
    void Close(Gate &gate);

private:
    std::mutex m_Lock;
    std::vector<std::shared_ptr<Gate>> m_Gates; // guarded by m_Lock
    bool m_IsOver = false;                      // the same
    const int m_Wakeup;
    std::thread m_Thread;

    void Run();
    std::vector<std::shared_ptr<Gate>> All();
    void Wake() const;
};

} // end namespace bbflow
