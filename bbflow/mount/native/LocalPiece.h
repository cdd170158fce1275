#pragma once

#include "Ionode.h"

namespace bbflow
{

/** A piece in a directory of this host. */
class LocalPiece final : public PieceFile
{
public:
    /** @param descriptor is closed with it */
    explicit LocalPiece(const int descriptor) : m_Descriptor(descriptor) {}
    ~LocalPiece() override;
    LocalPiece(const LocalPiece &) = delete;
    LocalPiece &operator=(const LocalPiece &) = delete;

    size_t Read(const Caller &caller, char *target, size_t most, uint64_t offset) override;
    void Write(const Caller &caller, std::string_view bytes, uint64_t offset) override;
    void Cut(const Caller &caller, uint64_t bytes) override;
    int Descriptor() const override { return m_Descriptor; }

private:
    const int m_Descriptor;
};

/** Copies the first bytes of a file into an empty one. @throws Errno if it fails */
void CopyBytes(int from, int to, uint64_t bytes);

} // end namespace bbflow
