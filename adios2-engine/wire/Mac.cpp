#include "Mac.h"

#include "Library.h"
#include "Sha256.h"

namespace bbflow
{

namespace
{

/** Those of libcrypto's functions that make a tag: the same ones since OpenSSL 1.1. */
struct Crypto
{
    static const Crypto &Load()
    {
        static const Crypto functions;
        return functions;
    }

    void *(*EVP_CIPHER_CTX_new)();
    void (*EVP_CIPHER_CTX_free)(void *context);
    int (*EVP_CIPHER_CTX_ctrl)(void *context, int command, int number, void *pointer);
    const void *(*EVP_aes_256_gcm)();
    int (*EVP_EncryptInit_ex)(void *context, const void *cipher, void *engine,
                              const unsigned char *key, const unsigned char *nonce);
    int (*EVP_EncryptUpdate)(void *context, unsigned char *out, int *outSize,
                             const unsigned char *in, int inSize);
    int (*EVP_EncryptFinal_ex)(void *context, unsigned char *out, int *outSize);

private:
    Crypto()
    {
        const Library library({"libcrypto.so.3", "libcrypto.so.1.1"},
                              "what goes to BB nodes of other hosts");
        library.Find("EVP_CIPHER_CTX_new", EVP_CIPHER_CTX_new);
        library.Find("EVP_CIPHER_CTX_free", EVP_CIPHER_CTX_free);
        library.Find("EVP_CIPHER_CTX_ctrl", EVP_CIPHER_CTX_ctrl);
        library.Find("EVP_aes_256_gcm", EVP_aes_256_gcm);
        library.Find("EVP_EncryptInit_ex", EVP_EncryptInit_ex);
        library.Find("EVP_EncryptUpdate", EVP_EncryptUpdate);
        library.Find("EVP_EncryptFinal_ex", EVP_EncryptFinal_ex);
    }
};

constexpr int GetTag = 0x10; // EVP_CTRL_AEAD_GET_TAG

void PutLittleEndian(unsigned char *bytes, const uint64_t value, const size_t size)
{
    for (size_t i = 0; i < size; ++i)
    {
        bytes[i] = static_cast<unsigned char>(value >> (8 * i));
    }
}

const unsigned char *Unsigned(const std::string_view bytes)
{
    return reinterpret_cast<const unsigned char *>(bytes.data());
}

void Check(const int result)
{
    if (result != 1)
    {
        throw std::runtime_error("bbflow: OpenSSL of this host makes no AES-256-GCM");
    }
}

} // end empty namespace

Mac::Mac(const std::string &key)
: m_Cipher(Crypto::Load().EVP_CIPHER_CTX_new(), Crypto::Load().EVP_CIPHER_CTX_free)
{
    const Crypto &crypto = Crypto::Load();
    Check(crypto.EVP_EncryptInit_ex(m_Cipher.get(), crypto.EVP_aes_256_gcm(), nullptr,
                                    Unsigned(key), nullptr));
}

std::string Mac::Tag(const uint32_t kind, const uint64_t number, const std::string_view content)
{
    const Crypto &crypto = Crypto::Load();
    unsigned char nonce[12];
    // Frames and raw bytes are counted apart, so the kind is what keeps each nonce the only one.
    PutLittleEndian(nonce, kind, 4);
    PutLittleEndian(nonce + 4, number, 8);
    unsigned char tag[TagBytes];
    int size = 0;
    Check(crypto.EVP_EncryptInit_ex(m_Cipher.get(), nullptr, nullptr, nullptr, nonce));
    if (!content.empty()) // 64 MiB at most
    {
        Check(crypto.EVP_EncryptUpdate(m_Cipher.get(), nullptr, &size, Unsigned(content),
                                       static_cast<int>(content.size())));
    }
    Check(crypto.EVP_EncryptFinal_ex(m_Cipher.get(), tag, &size));
    Check(crypto.EVP_CIPHER_CTX_ctrl(m_Cipher.get(), GetTag, TagBytes, tag));
    return {reinterpret_cast<const char *>(tag), TagBytes};
}

std::pair<std::unique_ptr<Seal>, std::unique_ptr<Seal>> SealsOf(const std::string &secret,
                                                                const std::string &nonces)
{
    // HKDF-SHA-256 (RFC 5869): a key for each direction, which no other connection has.
    const std::string drawn = HmacSha256(nonces, secret);
    const auto sealOf = [&](const std::string &side)
    {
        const std::string info = "bbflow " + std::to_string(FormatVersion) + " " + side + '\x01';
        return std::make_unique<Mac>(HmacSha256(drawn, info));
    };
    return {sealOf("peer"), sealOf("node")};
}

} // end namespace bbflow
