#pragma once

#include "Fabric.h"

#include <mutex>

namespace bbflow
{

/** What one connection may write of the pool, or read. It has an endpoint and keys of its own:
 * when it ends, nothing that the other side still sends gets anywhere. */
class Gate
{
public:
    /** @param host name or address that it is reached by
     *  @throws FabricError if the provider can't */
    Gate(const std::string &provider, const std::string &host);

    std::string Address() const { return m_Fabric.Address(); }

    /** Where the other side tries whether it gets here. */
    const Fabric::Region &Scratch() const { return m_ScratchOpened; }

    /** Opens a part of the pool.
     *  @throws FabricError if it can't be registered */
    const Fabric::Region &Grant(void *memory, size_t bytes);

    /** Opens a part for reading alone.
     *  @throws FabricError if it can't be registered */
    const Fabric::Region &Show(void *memory, size_t bytes);

    /** Closes all parts. */
    void Revoke();

    /** What a thread waits for before it calls Progress; -1 if it must not wait. */
    int Descriptor();

    /** Drives the provider's progress, which the rank's requests may need. */
    void Progress();

private:
    std::mutex m_Lock;
    Fabric m_Fabric;
    char m_Scratch[64] = {};
    Fabric::Region m_ScratchOpened;
    std::vector<Fabric::Region> m_Opened;
};

} // end namespace bbflow
