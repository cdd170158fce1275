#include "Wakefulness.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr const char *Device = "/dev/cpu_dma_latency";
/** Microseconds that a processor may take to wake; with none, it waits awake. */
constexpr int32_t None = 0;
constexpr int32_t Any = -1;
/** After that long without a call, processors may sleep. */
constexpr std::chrono::milliseconds Quiet{50};

int Open()
{
    const int device = open(Device, O_WRONLY | O_CLOEXEC);
    if (device < 0)
    {
        throw std::runtime_error(std::string("bbflow: --keep-awake needs to write to ") + Device +
                                 ": " + std::strerror(errno));
    }
    return device;
}

} // end empty namespace

Wakefulness::Wakefulness() : m_Latency(Open()), m_Thread([this] { Run(); }) {}

Wakefulness::~Wakefulness()
{
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        m_IsOver = true;
    }
    m_Changed.notify_one();
    m_Thread.join();
    close(m_Latency);
}

void Wakefulness::Wake()
{
    {
        const std::lock_guard<std::mutex> lock(m_Mutex); // the thread waits, or looks again
    }
    m_Changed.notify_one();
}

void Wakefulness::Run()
{
    const auto allow = [this](const int32_t microseconds)
    { [[maybe_unused]] const ssize_t n = write(m_Latency, &microseconds, sizeof(microseconds)); };
    std::unique_lock<std::mutex> lock(m_Mutex);
    while (!m_IsOver)
    {
        m_Changed.wait(lock, [this] { return m_IsOver || m_IsCalled; });
        allow(None);
        while (!m_IsOver && m_IsCalled.exchange(false))
        {
            m_Changed.wait_for(lock, Quiet, [this] { return m_IsOver; });
        }
        allow(Any);
    }
}

} // end namespace bbflow
