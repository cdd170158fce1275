#pragma once

#include "Channel.h"
#include "Contact.h"
#include "MappedFile.h"
#include "StepPart.h"

#include <memory>
#include <optional>
#include <string>

namespace bbflow
{

/** What a node tells at once: a `watch` reply, and the steps that it brings. */
struct News
{
    Value Reply;
    std::vector<StepPart> Steps;
};

/** A reader's connections to one node: one waits for news, the other is for everything else. All
 * of its methods throw ConnectionLost if the node is gone. */
class ReaderLink
{
public:
    ReaderLink(const Node &node, const std::string &key, Transport transport,
               const Deadline &deadline);

    /** Asks for steps after `after` at the next change; not if it was asked already.
     *  @param change what the node said last; -1 for an answer at once */
    void AskForNews(const std::string &stream, int64_t after, int64_t change);

    /** The answer, if it is there. @throws Refused with the node's reason */
    std::optional<News> TakeNews();

    /** What poll(2) can wait for news with. */
    int Descriptor() const { return m_News.Descriptor(); }

    /** Whether the node has hung up; it does not wait. */
    bool IsBroken() const;

    /** Sends a request and gives the reply. @throws Refused with the node's reason */
    Value Request(const Value &message);

    /** Sends a request whose reply says nothing new; it is read with the next one. */
    void Tell(const Value &message);

    /** Where a part of the pool is mapped; nullptr if it isn't on this host, or TCP is asked for.
     *  @throws std::runtime_error if the pool is no longer the one that held steps */
    const char *InPool(size_t offset, size_t bytes) const;

    /** Gets a part of the pool over the connection; damaged bytes are asked for again. After an
     * error nothing else can be asked of this link.
     *  @throws std::runtime_error if they arrive damaged again and again */
    void Fetch(int64_t step, size_t offset, size_t bytes, char *target);

private:
    /** A part of what is fetched. */
    struct Part
    {
        size_t Offset;
        size_t Bytes;
        char *Target;
        int Tries;
    };

    Channel m_News;
    StepParts m_Steps;
    Channel m_Requests;
    std::unique_ptr<MappedFile> m_Pool;
    bool m_IsAsked = false;
    size_t m_Unread = 0; // replies to what was told

    Value Reply();
    void Ask(int64_t step, const Part &part);
    bool Receive(const Part &part);
};

} // end namespace bbflow
