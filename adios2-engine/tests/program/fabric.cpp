/** Writes eight bytes by libfabric as whoever has an address and a key can: `fabric PROVIDER
 * ADDRESS BASE KEY`, the address in hexadecimal digits. */

#include "Fabric.h"

#include <exception>
#include <iostream>
#include <sys/socket.h>

int main(int, char **argv)
{
    std::string address;
    for (const char *digits = argv[2]; digits[0] != '\0'; digits += 2)
    {
        address += static_cast<char>(std::stoi(std::string(digits, 2), nullptr, 16));
    }
    int alive[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, alive);
    try
    {
        bbflow::Fabric fabric(argv[1], "127.0.0.1", address);
        const char bytes[] = "written!";
        const auto lent = fabric.Lend(bytes, 8);
        fabric.Write(lent, {bytes, 8}, std::stoull(argv[3]), std::stoull(argv[4]), alive[0]);
        fabric.Finish(alive[0]);
        std::cout << "written\n";
    }
    catch (const bbflow::FabricError &error)
    {
        std::cout << "refused: " << error.what() << "\n";
    }
}
