#pragma once

#include "Channel.h"
#include "FabricRoute.h"
#include "Scan.h"

#include <cstddef>
#include <string_view>

namespace bbflow
{

/** A way by which blocks get to their places. */
class Landing
{
public:
    virtual ~Landing() = default;

    /** Brings a block to its place; `scan` sees all of it.
     *  @throws ConnectionLost if the node can't be reached any more */
    virtual void Land(const char *source, size_t bytes, size_t offset, Scan &scan) = 0;

    /** Whether it takes a GPU's memory, past the host's. */
    virtual bool TakesGpus() const { return false; }

    /** Brings a block of a GPU's memory to its place, at once; false if it doesn't take it.
     *  @throws ConnectionLost as Land does */
    virtual bool LandFromGpu(std::string_view, size_t, const ofi::Owner &) { return false; }

    /** Returns when everything that was landed has arrived whole.
     *  @throws ConnectionLost if the node can't be reached any more */
    virtual void Sync() = 0;

    /** Continues over another connection to the same pool: what was not synced is sent again.
     *  @param route by libfabric, if there is one
     *  @throws ConnectionLost if the node can't be reached any more */
    virtual void GoOn(Channel &channel, FabricRoute *route) = 0;

    /** Whether a block's memory must stay as it is until Sync. */
    virtual bool NeedsMemory() const = 0;
};

} // end namespace bbflow
