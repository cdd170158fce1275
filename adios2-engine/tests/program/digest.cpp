/** Prints a digest of bytes given in hexadecimal digits, one line for each pair of arguments:
 *  `digest KEY TEXT ...`: HMAC-SHA-256, or SHA-256 where KEY is "-". */

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
        const std::string digest =
            key == "-" ? bbflow::Sha256(text) : bbflow::HmacSha256(bbflow::FromHex(key), text);
        std::cout << bbflow::ToHex(digest) << '\n';
    }
    return std::cout.flush() ? 0 : 1;
}
