#pragma once

#include "FabricRoute.h"
#include "Landing.h"
#include "Parameters.h"
#include "Placement.h"
#include "Pool.h"
#include "StreamShare.h"

#include <memory>
#include <optional>

namespace bbflow
{

/** A writer rank's connection to its BB node. When it breaks it is made again, or made to another
 *  node (FORMAT.md, "Writer and agent"). */
class NodeLink
{
public:
    /** Opens the stream; waits for the contact file and the agent as long as the parameters allow.
     *  @throws std::runtime_error if they don't come, or the agent refuses */
    explicit NodeLink(const Parameters &parameters);

    /** Opens the stream again: on the same node if it comes back within NodeLossTimeoutSecs, else
     *  on the next one that takes it, else in the SpillDirectory without any node.
     *  @param settled last step that this rank has behind it; -1 if there is none
     *  @param why the connection broke
     *  @return what the node replied
     *  @throws std::runtime_error if no node takes it */
    Value Restore(int64_t settled, const std::string &why);

    /** Whether the last Restore found the node and the pool that were there before. */
    bool IsSamePool() const { return m_IsSamePool; }

    /** Starts the landing afresh: what it has not synced no longer counts. */
    void ResetLanding();

    /** Takes the keys of the extents that a reply grants, where they are written by libfabric. */
    void TakeKeys(const Value &reply);

    /** Sends again over the new connection what the landing has not synced. */
    void ResumeLanding();

    /** Whether the node offers room for a step before it is begun. */
    bool HasOffers() const { return !m_Offer.empty(); }

    /** Takes what the node has offered; false if it has withdrawn it. */
    bool TakeOffer() const;

    Channel &Wire() { return *m_Channel; }
    Landing &BlockLanding() { return *m_Landing; }

    /** The pool, as long as someone reads lost blocks out of it; nullptr over TCP. */
    std::shared_ptr<Pool> SharedPool() const { return m_Pool; }
    size_t Capacity() const { return m_Capacity; }
    const StreamShare &Share() const { return m_Share; }

    /** This process' rank in the stream. */
    size_t Rank() const { return m_Parameters.Place.Rank - m_Share.FirstRank; }

private:
    const Parameters m_Parameters;
    const StreamShare m_Share;
    std::unique_ptr<Channel> m_Channel;
    /** By libfabric beside the connection; nullptr without. */
    std::unique_ptr<FabricRoute> m_Route;
    /** The providers of libfabric that the node is told of. */
    std::optional<Value::Array> m_Providers;
    int m_RouteFailures = 0;
    std::shared_ptr<Pool> m_Pool;
    std::unique_ptr<Landing> m_Landing;
    size_t m_Capacity = 0;
    /** The link that stands for an offer: who moves it away first has the room. */
    std::string m_Offer;
    std::string m_NodeName;
    /** The node that was asked last to open the stream; its reply may have been lost. */
    std::string m_AskedNode;
    bool m_IsSamePool = false;

    Value Open(const Contact &contact, size_t number, int64_t settled, const std::string &movedFrom,
               const Deadline &deadline);
    Value Ask(Channel &channel, Value::Map open) const;
    Value SpillAlone(int64_t settled, const std::string &lost);
    void UsePool(const Value &reply, bool isShared);
    bool MayUseFabric(const Node &node);
    void FindProviders();
    bool OpenRoute(const std::string &node, const Value &reply);
    void LeaveFabric(const std::string &why);
    void TellWay(const std::string &way) const;
    Value MoveOn(int64_t settled, const std::string &why, const std::string &missed);
};

} // end namespace bbflow
