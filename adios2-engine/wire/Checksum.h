#pragma once

#include "Seal.h"

namespace bbflow
{

/** Against damage: for a Unix socket, whose other end the kernel vouches for, and for what lies in
 * a file. */
class Checksum final : public Seal
{
public:
    size_t Size() const override { return 4; }
    std::string OfFrame(std::string_view payload) override;
    std::string OfRaw(std::string_view raw) override;
};

} // end namespace bbflow
