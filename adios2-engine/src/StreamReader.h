#pragma once

#include "ReadView.h"
#include "SpilledFile.h"
#include "StepContents.h"
#include "StreamNode.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace bbflow
{

/** A stream that is read from all of its nodes: waits for steps, holds them, gets their bytes. */
class StreamReader
{
public:
    /** Waits for the contact file, the nodes and the stream as long as the parameters allow.
     *  @throws std::runtime_error if they don't come, or a node refuses */
    explicit StreamReader(const Parameters &parameters);

    /** Waits for the step after another one; gives `Wait` if the deadline passes first. */
    Next Await(int64_t after, const Deadline &deadline);

    /** The variables of a complete step. */
    std::map<std::string, StoredVariable> Contents(int64_t step) const;

    /** Attributes that are new or changed since the last call, as they were at a complete step. */
    Value::Array TakeAttributes(int64_t step);

    /** The same at the stream's end. */
    const Value::Array &FinalAttributes() const { return m_Newest; }

    /** Releases the steps up to this one, here and, unless they are pinned, on the nodes. */
    void Pass(int64_t step);

    /** Copies runs of a step's block.
     *  @param target where the target array of the runs is */
    void Copy(int64_t step, const StoredBlock &block, const Runs &runs, size_t elementBytes,
              char *target);

    /** Makes sure that what was copied of a step has not changed meanwhile.
     *  @throws std::runtime_error if a node has let go of the step */
    void Confirm(int64_t step);

private:
    const Parameters m_Parameters;
    std::vector<StreamNode> m_Nodes;
    std::unique_ptr<ReadView> m_View;
    std::map<std::string, std::unique_ptr<SpilledFile>> m_Spilled; // of the current step
    Value::Array m_Base;   // attributes before the oldest step, not taken yet
    Value::Array m_Newest; // attributes as they are now
    int64_t m_Passed = -1;

    void ReadNodes(const Deadline &deadline);
    void AwaitStream(const Deadline &deadline);
    bool TakeNews(size_t node);
    void Sleep(const Deadline &deadline) const;
    const char *Mapped(const StoredBlock &block);
};

} // end namespace bbflow
