#pragma once

#include "Arena.h"
#include "Channel.h"
#include "Parameters.h"
#include "Pool.h"

#include <memory>

namespace bbflow
{

/** What came of asking for a step. */
enum class Admission
{
    Granted,
    Discarded,
    NotReady
};

/** One rank's conversation with its node's agent (FORMAT.md, "Writer and agent"). */
class Session
{
public:
    /** Opens the stream; waits for the contact file and the agent as long as the parameters allow.
     *  @throws std::runtime_error if they don't come, or the agent refuses */
    explicit Session(const Parameters &parameters);

    /** Asks for a step, or goes on waiting for the one asked for before. */
    Admission Begin(size_t step, const Deadline &deadline);

    /** Places a block. If the step's extents are full it first waits for room for `pending` bytes.
     */
    char *Place(size_t bytes, size_t pending, size_t &offset);

    /** Makes this rank's step final. */
    void Commit(Value::Array blocks, Value::Array attributes);

    void Close(size_t steps);
    void Abort();

private:
    std::unique_ptr<Channel> m_Channel;
    std::unique_ptr<Pool> m_Pool;
    Arena m_Arena;
    size_t m_Step = 0;
    size_t m_ExpectedBytes = 0;
    bool m_Asked = false;
    double m_WaitedSecs = 0.0;

    void Connect(const Parameters &parameters);
    std::optional<Value> AwaitReply(const Deadline &deadline);
    void AddExtents(const Value &reply);
};

} // end namespace bbflow
