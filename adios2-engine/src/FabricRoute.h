#pragma once

#include "Fabric.h"
#include "Value.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace bbflow
{

/** Writes blocks into what a node has granted, by libfabric (FORMAT.md, "Fabric"). */
class FabricRoute
{
public:
    /** Opens it, and tries whether it leads to the node.
     *  @param told the `fabric` of the node's reply
     *  @param alive descriptor of the connection to the node
     *  @param checks whether the node looks whether what has come is what was sent
     *  @param fromGpus whether it is to read a GPU's memory, where the provider can
     *  @throws FabricError if it doesn't */
    FabricRoute(const Value &told, int alive, bool checks, bool fromGpus);

    /** Takes the keys of the extents in a node's reply. */
    void TakeKeys(const Value &reply);

    /** Makes memory readable for the network until Finish. */
    void Lend(std::string_view memory);

    /** The same of a GPU's memory; false if the provider doesn't take it, which is said once: then
     * it takes none from then on. */
    bool Lend(std::string_view memory, const ofi::Owner &gpu);

    bool TakesGpus() const { return m_TakesGpus; }

    /** Begins to write to an offset of the pool, out of what was lent last.
     *  @throws FabricError if it fails */
    void Write(std::string_view piece, size_t offset);

    /** Returns when all has arrived.
     *  @throws FabricError if something of it failed */
    void Finish();

    bool HasChecks() const { return m_HasChecks; }

    /** Whether libfabric itself has failed; else the node is gone. */
    bool HasFailed() const { return m_HasFailed; }

private:
    struct Grant
    {
        size_t Offset, Bytes;
        uint64_t Base, Key;
    };
    Fabric m_Fabric;
    const int m_Alive;
    const bool m_HasChecks;
    std::vector<Grant> m_Grants;
    std::vector<Fabric::Region> m_Lent;
    bool m_HasFailed = false;
    bool m_TakesGpus;

    template <class Action>
    void Try(Action action);
};

} // end namespace bbflow
