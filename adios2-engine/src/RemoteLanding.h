#pragma once

#include "FabricRoute.h"
#include "Landing.h"

#include <vector>

namespace bbflow
{

/** Lands blocks in the pool of a node on another host, in pieces with a checksum each: over the
 *  connection, or by libfabric beside it. */
class RemoteLanding final : public Landing
{
public:
    /** @param route by libfabric; nullptr: over the connection */
    RemoteLanding(Channel &channel, FabricRoute *route) : m_Channel(&channel), m_Route(route) {}

    void Land(const char *source, size_t bytes, size_t offset, Scan &scan) override;
    bool TakesGpus() const override { return m_Route && m_Route->TakesGpus(); }
    bool LandFromGpu(std::string_view block, size_t offset, const ofi::Owner &gpu) override;
    void Sync() override;
    void GoOn(Channel &channel, FabricRoute *route) override;
    bool NeedsMemory() const override { return true; }

private:
    struct Piece
    {
        std::string_view Bytes;
        size_t Offset;
        /** Its seal, if it goes by libfabric. */
        std::string Check = {};
    };
    Channel *m_Channel;
    FabricRoute *m_Route;
    std::vector<Piece> m_Unsynced;

    void Send(Piece &piece);
    void SendAgain(Piece &piece);
    void FinishWrites();
    std::vector<size_t> BadOnes(const Value &reply) const;
};

} // end namespace bbflow
