#include "Sha256.h"

#include <array>
#include <cstdint>

namespace bbflow
{

namespace
{

constexpr size_t BlockBytes = 64;

using State = std::array<uint32_t, 8>;

/** FIPS 180-4, 5.3.3 and 4.2.2: the first bits of the fractions of the first primes' square roots,
 * and of their cube roots. */
constexpr State Initial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<uint32_t, 64> Constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t Turn(const uint32_t x, const int bits) { return x >> bits | x << (32 - bits); }

/** The words of a block and those that follow from them (FIPS 180-4, 6.2.2, step 1). */
std::array<uint32_t, 64> Schedule(const std::string_view block)
{
    std::array<uint32_t, 64> w{};
    for (size_t i = 0; i < BlockBytes; ++i)
    {
        w[i / 4] = w[i / 4] << 8 | static_cast<uint8_t>(block[i]);
    }
    for (size_t t = 16; t < w.size(); ++t)
    {
        const uint32_t a = w[t - 15];
        const uint32_t b = w[t - 2];
        w[t] = w[t - 16] + (Turn(a, 7) ^ Turn(a, 18) ^ a >> 3) + w[t - 7] +
               (Turn(b, 17) ^ Turn(b, 19) ^ b >> 10);
    }
    return w;
}

/** Takes one block in (FIPS 180-4, 6.2.2, steps 2 to 4). */
void Absorb(State &hash, const std::string_view block)
{
    const std::array<uint32_t, 64> w = Schedule(block);
    auto [a, b, c, d, e, f, g, h] = hash;
    for (size_t t = 0; t < w.size(); ++t)
    {
        const uint32_t chosen = (e & f) ^ (~e & g);
        const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        const uint32_t t1 =
            h + (Turn(e, 6) ^ Turn(e, 11) ^ Turn(e, 25)) + chosen + Constants[t] + w[t];
        const uint32_t t2 = (Turn(a, 2) ^ Turn(a, 13) ^ Turn(a, 22)) + majority;
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const State last = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < hash.size(); ++i)
    {
        hash[i] += last[i];
    }
}

std::string BigEndian(const uint64_t value, const int bytes)
{
    std::string text;
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    {
        text.push_back(static_cast<char>(value >> shift));
    }
    return text;
}

} // end empty namespace

std::string Sha256(const std::string_view bytes)
{
    std::string padded(bytes);
    // FIPS 180-4, 5.1.1: a bit of 1, zeros up to a whole block, and in it the length in bits.
    padded.push_back('\x80');
    padded.resize((padded.size() + 8 + BlockBytes - 1) / BlockBytes * BlockBytes - 8);
    padded += BigEndian(uint64_t{bytes.size()} * 8, 8);
    State hash = Initial;
    for (size_t at = 0; at < padded.size(); at += BlockBytes)
    {
        Absorb(hash, std::string_view(padded).substr(at, BlockBytes));
    }
    std::string digest;
    for (const uint32_t word : hash)
    {
        digest += BigEndian(word, 4);
    }
    return digest;
}

std::string HmacSha256(const std::string_view key, const std::string_view text)
{
    std::string inner = key.size() > BlockBytes ? Sha256(key) : std::string(key);
    inner.resize(BlockBytes);
    std::string outer = inner;
    for (size_t i = 0; i < BlockBytes; ++i)
    {
        inner[i] = static_cast<char>(inner[i] ^ 0x36);
        outer[i] = static_cast<char>(outer[i] ^ 0x5c);
    }
    return Sha256(outer + Sha256(inner += text));
}

} // end namespace bbflow
