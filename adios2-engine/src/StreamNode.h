#pragma once

#include "Parameters.h"
#include "ReaderLink.h"

#include <memory>
#include <optional>
#include <string>

namespace bbflow
{

/** One node of a stream that is read. When the connection breaks it is made again, until
 * NodeLossTimeoutSecs have gone by and the node is lost. */
class StreamNode
{
public:
    /** Doesn't connect yet.
     *  @param giveUp until when it tries for the first time */
    StreamNode(Node node, std::string key, std::string stream, const Parameters &parameters,
               const Deadline &giveUp);

    /** What the node has told since the last call, without waiting. The stream is joined as soon as
     * the node knows it, and nothing is given before that.
     *  @param known highest step whose blocks are known
     *  @throws Refused with the node's reason */
    std::optional<News> TakeNews(int64_t known);

    /** Whether the attributes before the oldest step must be taken from the news just given. */
    bool WantsBase() const { return m_WantsBase; }

    /** What poll(2) can wait for news with; -1 while there is no connection. */
    int Descriptor() const { return m_Link ? m_Link->Descriptor() : -1; }

    bool IsLost() const { return m_IsLost; }
    const std::string &Name() const { return m_Node.Name; }

    /** Why it could not be reached when it was tried last. */
    const std::string &WhyLost() const { return m_WhyLost; }

    /** Releases the steps up to this one, on the node only if they are not pinned. */
    void Pass(int64_t step);

    /** Where a part of the pool is mapped; nullptr if it must be fetched. */
    const char *Mapped(size_t offset, size_t bytes) const;

    /** Gets a part of the pool over the connection.
     *  @throws std::runtime_error if the node is lost */
    void Fetch(int64_t step, size_t offset, size_t bytes, char *target);

    /** Makes sure that the node has held a step until now: an agent that was started again knows
     * nothing of its readers.
     *  @throws std::runtime_error if it has let go of the step */
    void Confirm(int64_t step);

private:
    Node m_Node;
    const std::string m_Key;
    const std::string m_Stream;
    const Parameters &m_Parameters;
    std::unique_ptr<ReaderLink> m_Link;
    Deadline m_GiveUp;
    bool m_IsLost = false;
    bool m_IsJoined = false;
    bool m_IsBaseDue = false;
    bool m_WantsBase = false;
    int64_t m_Change = -1; // what the node's last news were of
    int64_t m_Oldest = 0;  // first step that it had when it was joined
    int64_t m_Passed = -1;
    std::string m_WhyLost;

    void Connect();
    void FindAgain();
    void Join();
    void AwaitJoined();
    void Break();
};

} // end namespace bbflow
