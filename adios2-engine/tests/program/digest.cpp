/** Prints a digest of bytes given in hexadecimal digits, one line for each pair of arguments:
 *  `digest KEY TEXT ...`: HMAC-SHA-256, SHA-256 where KEY is "-", and CRC-32C both ways where it is
 *  "crc". */

#include "Crc32c.h"
#include "Hex.h"
#include "Sha256.h"

#include <iostream>
#include <string>

int main(int argc, char **argv)
{
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
