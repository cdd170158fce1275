#pragma once

#include "Ionode.h"

namespace bbflow
{

/** A piece on another host, read and written by messages. */
class RemotePiece final : public PieceFile
{
public:
    RemotePiece(std::shared_ptr<Ionode> node, std::string key)
    : m_Node(std::move(node)), m_Key(std::move(key))
    {
    }

    size_t Read(const Caller &caller, char *target, size_t most, uint64_t offset) override;
    void Write(const Caller &caller, std::string_view bytes, uint64_t offset) override;
    void Cut(const Caller &caller, uint64_t bytes) override;

private:
    const std::shared_ptr<Ionode> m_Node;
    const std::string m_Key;
};

} // end namespace bbflow
