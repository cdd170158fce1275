#pragma once

#include "Landing.h"

#include <vector>

namespace bbflow
{

/** Lands blocks in a node's pool over a connection, in pieces with a checksum each. */
class TcpLanding final : public Landing
{
public:
    explicit TcpLanding(Channel &channel) : m_Channel(&channel) {}

    void Land(const char *source, size_t bytes, size_t offset, Scan &scan) override;
    void Sync() override;
    void GoOn(Channel &channel) override;
    bool NeedsMemory() const override { return true; }
    const char *At(size_t) const override { return nullptr; }

private:
    struct Piece
    {
        std::string_view Bytes;
        size_t Offset;
    };
    Channel *m_Channel;
    std::vector<Piece> m_Unsynced;

    void Send(const Piece &piece);
    std::vector<Piece> BadOnes(const Value &reply) const;
};

} // end namespace bbflow
