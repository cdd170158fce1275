#pragma once

#include "Value.h"
#include "Wire.h"

#include <cstddef>
#include <string>

namespace bbflow
{

/** Stands in for the agent when a writer rank has no node left: every step is spilled, and what an
 *  agent would write into its index goes into a file of the rank's own (FORMAT.md, "Spill
 *  directory"). */
class SpillAgent final : public Wire
{
public:
    /** @throws std::runtime_error if the index can't be made */
    SpillAgent(const std::string &directory, const std::string &stream, size_t rank);
    ~SpillAgent() override;
    SpillAgent(const SpillAgent &) = delete;
    SpillAgent &operator=(const SpillAgent &) = delete;

    /** Takes a request in.
     *  @throws std::runtime_error if the file system takes no more */
    void Send(std::string_view head, std::string_view tail) override;
    size_t Receive(char *target, size_t most, const Deadline &deadline) override;
    const std::string &Peer() const override { return m_Path; }
    int Descriptor() const override { return m_File; }

private:
    const Value m_Stream;
    const Value m_Rank;
    std::string m_Path;
    int m_File;
    std::string m_Replies;
    double m_BeganSecs = 0.0;

    /** Makes the index; gives false if a file of its name is there already. */
    bool Open();
    Value::Map Answer(const std::string &op, const Value &message);
    void AppendCommit(const Value &message);
    void Append(const char *record, Value::Map keys);
};

} // end namespace bbflow
