/** Prints a digest of bytes given in hexadecimal digits, one line for each pair of arguments:
 *  `digest KEY TEXT ...`: HMAC-SHA-256, SHA-256 where KEY is "-", and CRC-32C both ways where it is
 *  "crc"; `digest seals NONCES SIDE TEXT ...`: those of a frame and of raw bytes, with the key
 * "ab…" and each side counting. */

#include "Crc32c.h"
#include "Hex.h"
#include "Mac.h"
#include "Sha256.h"

#include <iostream>
#include <string>

static int PrintSeals(const int argc, char **argv)
{
    const auto [peer, node] = bbflow::SealsOf(std::string(32, '\xab'), argv[2]);
    for (int i = 3; i + 1 < argc; i += 2)
    {
        const std::string text = bbflow::FromHex(argv[i + 1]);
        bbflow::Seal &seal = argv[i] == std::string("peer") ? *peer : *node;
        std::cout << bbflow::ToHex(seal.OfFrame(text) + seal.OfRaw(text)) << '\n';
    }
    return std::cout.flush() ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 2 && argv[1] == std::string("seals"))
    {
        return PrintSeals(argc, argv);
    }
    for (int i = 1; i + 1 < argc; i += 2)
    {
        const std::string key = argv[i];
        const std::string text = bbflow::FromHex(argv[i + 1]);
        if (key == "crc")
        {
            std::cout << bbflow::Crc32c(text) << ' ' << bbflow::PortableCrc32c(text) << '\n';
            continue;
        }
        const std::string digest =
            key == "-" ? bbflow::Sha256(text) : bbflow::HmacSha256(bbflow::FromHex(key), text);
        std::cout << bbflow::ToHex(digest) << '\n';
    }
    return std::cout.flush() ? 0 : 1;
}
