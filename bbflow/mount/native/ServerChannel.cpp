#include "ServerChannel.h"

#include <algorithm>
#include <utility>

namespace bbflow
{

namespace
{

/** A signal counts for a call that has waited for this long; a shorter one just ends. */
constexpr double InterruptSecs = 0.5;
/** A server that doesn't reply is looked at after this time at the latest. */
constexpr double SilenceSecs = 10.0;

} // end empty namespace

ServerChannel::ServerChannel(Node server, std::string key, const double patience,
                             const Deadline &deadline)
: Channel(ConnectTo(server, key, Transport::Auto, deadline)), m_Server(std::move(server)),
  m_Key(std::move(key)), m_SilenceSecs(std::min(SilenceSecs, patience))
{
}

std::optional<Value> ServerChannel::Await(const std::function<bool()> &isLeft)
{
    for (Deadline silence = After(m_SilenceSecs);;)
    {
        if (std::optional<Value> reply = Receive(After(InterruptSecs)))
        {
            return reply;
        }
        if (isLeft())
        {
            return std::nullopt;
        }
        if (IsOver(silence))
        {
            ConnectTo(m_Server, m_Key, Transport::Auto, After(ConnectSecs));
            silence = After(m_SilenceSecs);
        }
    }
}

} // end namespace bbflow
