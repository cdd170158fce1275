#pragma once

#include "Seal.h"

#include <memory>
#include <utility>

namespace bbflow
{

/** Against whoever is on the way: GMAC (NIST SP 800-38D) with AES-256, over what is numbered. */
class Mac final : public Seal
{
public:
    /** @param key the direction's own, 32 bytes: one key with one number twice would give it away
     *  @throws std::invalid_argument if the host has no OpenSSL */
    explicit Mac(const std::string &key);

    size_t Size() const override { return TagBytes; }
    std::string OfFrame(std::string_view payload) override { return Tag(0, m_Frames++, payload); }
    std::string OfRaw(std::string_view raw) override { return Tag(1, m_Raws++, raw); }

private:
    static constexpr size_t TagBytes = 16;

    std::unique_ptr<void, void (*)(void *)> m_Cipher;
    uint64_t m_Frames = 0;
    uint64_t m_Raws = 0;

    std::string Tag(uint32_t kind, uint64_t number, std::string_view content);
};

/** The seals of a connection, that of the peer's words and that of the node's.
 *  @param secret the contact file's 32 bytes
 *  @param nonces the peer's and the node's
 *  @throws std::invalid_argument if the host has no OpenSSL */
std::pair<std::unique_ptr<Seal>, std::unique_ptr<Seal>> SealsOf(const std::string &secret,
                                                                const std::string &nonces);

} // end namespace bbflow
