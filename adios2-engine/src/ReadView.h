#pragma once

#include "StepPart.h"
#include "Value.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace bbflow
{

/** What a reader can do next. */
struct Next
{
    enum class Kind
    {
        /** `Step` is complete. */
        Ready,
        /** It is still being written. */
        Wait,
        /** The stream is closed: no step comes any more. */
        End,
        /** The stream was aborted, or nodes are gone that had a part of it. */
        Failure
    };
    Kind What;
    int64_t Step;
};

/** A stream over all nodes, as a reader sees it: made of `watch` replies, without sockets and
 * clocks. A step is complete when the parts of all nodes hold all ranks of the stream. */
class ReadView
{
public:
    explicit ReadView(std::vector<std::string> nodes);

    /** Takes a `watch` reply in. @param steps those that it brings */
    void Update(size_t node, const Value &reply, std::vector<StepPart> steps);

    /** A node that doesn't come back: its parts are gone. */
    void Lose(size_t node);

    /** Whether a rank has opened the stream on any node. */
    bool IsThere() const;

    /** Ranks that write the stream. */
    size_t Writers() const;

    /** What follows after a step; -1 asks for the first one. */
    Next After(int64_t step) const;

    /** A node's part of a step; nullptr if it has none. */
    const StepPart *Part(size_t node, int64_t step) const;

    /** Releases the steps up to this one. */
    void Forget(int64_t through);

    /** Highest step that the node has told of. */
    int64_t Known(size_t node) const;

private:
    struct Node
    {
        std::string Name;
        std::string Status = "expected";
        size_t Writers = 0;
        size_t LocalWriters = 0;
        int64_t Last = -1;  // highest step that is settled there and was told
        int64_t Known = -1; // highest step that was told
        bool IsLost = false;
        std::map<int64_t, StepPart> Steps;
        std::set<int64_t> Discarded;
        std::vector<std::pair<std::string, int64_t>> Moved; // from which node, from which step on
    };
    std::vector<Node> m_Nodes;

    bool IsComplete(int64_t step) const;
    bool IsDiscarded(int64_t step) const;
    size_t ExpectedOn(const Node &node, int64_t step) const;
    std::vector<const Node *> Behind(int64_t step) const;
    bool AreAllOpen() const;
    int64_t NextToldOf(int64_t step) const;
    Next WithoutStep(int64_t step) const;
};

} // end namespace bbflow
