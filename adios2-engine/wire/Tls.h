#pragma once

#include "Socket.h"

#include <memory>
#include <vector>

namespace bbflow
{

/** TLS (RFC 8446) over a socket. Its records go through memory, so that waiting and sending stay
 *  the socket's business, with its deadlines and without signals. */
class Tls final : public Wire
{
public:
    /** Shakes hands and checks the node's certificate.
     *  @param authorities PEM file of those who may have signed it
     *  @throws Refused if the certificate isn't accepted
     *  @throws ConnectionLost if the other side hangs up or is silent, or the file can't be read
     *  @throws std::invalid_argument if the host has no OpenSSL */
    Tls(std::unique_ptr<Socket> socket, const std::string &authorities, const Deadline &deadline);
    ~Tls() override;

    void Send(std::string_view head, std::string_view tail) override;
    size_t Receive(char *target, size_t most, const Deadline &deadline) override;
    const std::string &Peer() const override { return m_Socket->Peer(); }
    int Descriptor() const override { return m_Socket->Descriptor(); }

private:
    using Handle = std::unique_ptr<void, void (*)(void *)>;

    std::unique_ptr<Socket> m_Socket;
    Handle m_Context;
    Handle m_Ssl;
    /** What came in from the socket, and what must go out to it; the SSL owns them. */
    void *m_In;
    void *m_Out;
    std::vector<char> m_Records;

    void UseAuthorities(const std::string &file);
    void CheckHost(const std::string &host);
    void ShakeHands(const Deadline &deadline);
    void Encrypt(std::string_view bytes);
    void Flush();
    bool Feed(const Deadline &deadline);
    [[noreturn]] void ThrowRefused() const;
};

} // end namespace bbflow
