#include "Tls.h"

#include "OpenSsl.h"

#include <algorithm>
#include <arpa/inet.h>

namespace bbflow
{

namespace
{

// OpenSSL's constants, which its application binary interface fixes.
constexpr int SetMinimumVersion = 123;
constexpr long Tls12 = 0x0303;
constexpr int VerifyPeer = 1;
constexpr int WantRead = 2;

/** So much is encrypted before it is sent: it stays in the second cache. */
constexpr size_t PieceBytes = size_t{256} << 10;

bool IsAddress(const std::string &host)
{
    unsigned char bytes[sizeof(in6_addr)];
    return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
           inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

} // end empty namespace

Tls::Tls(std::unique_ptr<Socket> socket, const std::string &authorities, const Deadline &deadline)
: m_Socket(std::move(socket)),
  m_Context(OpenSsl::Load().SSL_CTX_new(OpenSsl::Load().TLS_client_method()),
            OpenSsl::Load().SSL_CTX_free),
  m_Ssl(nullptr, OpenSsl::Load().SSL_free), m_Records(PieceBytes)
{
    const OpenSsl &ssl = OpenSsl::Load();
    UseAuthorities(authorities);
    m_Ssl.reset(ssl.SSL_new(m_Context.get()));
    m_In = ssl.BIO_new(ssl.BIO_s_mem());
    m_Out = ssl.BIO_new(ssl.BIO_s_mem());
    ssl.SSL_set_bio(m_Ssl.get(), m_In, m_Out);
    ssl.SSL_set_connect_state(m_Ssl.get());
    CheckHost(Socket::HostOf(Peer()));
    ShakeHands(deadline);
}

Tls::~Tls() = default;

void Tls::UseAuthorities(const std::string &file)
{
    const OpenSsl &ssl = OpenSsl::Load();
    ssl.SSL_CTX_ctrl(m_Context.get(), SetMinimumVersion, Tls12, nullptr);
    // By itself OpenSSL's client takes any certificate.
    ssl.SSL_CTX_set_verify(m_Context.get(), VerifyPeer, nullptr);
    if (ssl.SSL_CTX_load_verify_locations(m_Context.get(), file.c_str(), nullptr) != 1)
    {
        // For a moment it may be so, while the file is renewed or its file system doesn't answer.
        throw ConnectionLost("bbflow: can't read the certificates of authority '" + file +
                             "' that the contact file names in tls");
    }
}

void Tls::CheckHost(const std::string &host)
{
    const OpenSsl &ssl = OpenSsl::Load();
    const int set =
        IsAddress(host)
            ? ssl.X509_VERIFY_PARAM_set1_ip_asc(ssl.SSL_get0_param(m_Ssl.get()), host.c_str())
            : ssl.SSL_set1_host(m_Ssl.get(), host.c_str());
    if (set != 1)
    {
        ThrowRefused();
    }
}

void Tls::ShakeHands(const Deadline &deadline)
{
    const OpenSsl &ssl = OpenSsl::Load();
    while (true)
    {
        ssl.ERR_clear_error();
        const int done = ssl.SSL_do_handshake(m_Ssl.get());
        const int error = ssl.SSL_get_error(m_Ssl.get(), done);
        Flush();
        if (done == 1)
        {
            return;
        }
        if (error != WantRead)
        {
            ThrowRefused();
        }
        if (!Feed(deadline))
        {
            throw ConnectionLost("bbflow: " + Peer() + " doesn't answer TLS's handshake");
        }
    }
}

void Tls::Send(const std::string_view head, const std::string_view tail)
{
    Encrypt(head);
    for (size_t i = 0; i < tail.size(); i += PieceBytes)
    {
        Encrypt(tail.substr(i, PieceBytes));
        // Also when it has failed: what goes out then tells the node why.
        Flush();
    }
    Flush();
}

void Tls::Encrypt(const std::string_view bytes)
{
    const OpenSsl &ssl = OpenSsl::Load();
    for (size_t i = 0; i < bytes.size(); i += PieceBytes)
    {
        const auto n = static_cast<int>(std::min(PieceBytes, bytes.size() - i));
        if (ssl.SSL_write(m_Ssl.get(), bytes.data() + i, n) != n) // memory takes everything
        {
            throw ConnectionLost("bbflow: TLS to " + Peer() + " is broken");
        }
    }
}

size_t Tls::Receive(char *target, const size_t most, const Deadline &deadline)
{
    const OpenSsl &ssl = OpenSsl::Load();
    const auto room = static_cast<int>(std::min<size_t>(most, 1 << 30));
    while (true)
    {
        ssl.ERR_clear_error();
        const int n = ssl.SSL_read(m_Ssl.get(), target, room);
        if (n > 0)
        {
            return static_cast<size_t>(n);
        }
        if (ssl.SSL_get_error(m_Ssl.get(), n) != WantRead)
        {
            throw ConnectionLost("bbflow: the BB node's agent is gone: " + Peer() +
                                 " ended TLS; see the log of 'bbflow node'");
        }
        Flush(); // TLS may have an answer of its own
        if (!Feed(deadline))
        {
            return 0;
        }
    }
}

void Tls::Flush()
{
    int n = 0;
    while ((n = OpenSsl::Load().BIO_read(m_Out, m_Records.data(),
                                         static_cast<int>(m_Records.size()))) > 0)
    {
        m_Socket->Send(std::string_view(m_Records.data(), static_cast<size_t>(n)), {});
    }
}

bool Tls::Feed(const Deadline &deadline)
{
    char records[16384];
    const size_t n = m_Socket->Receive(records, sizeof(records), deadline);
    return n > 0 && OpenSsl::Load().BIO_write(m_In, records, static_cast<int>(n)) > 0;
}

void Tls::ThrowRefused() const
{
    const OpenSsl &ssl = OpenSsl::Load();
    const long verdict = ssl.SSL_get_verify_result(m_Ssl.get());
    char reason[256] = {};
    ssl.ERR_error_string_n(ssl.ERR_get_error(), reason, sizeof(reason));
    throw Refused("bbflow: the certificate of the BB node at " + Peer() + " isn't accepted: " +
                  (verdict != 0 ? ssl.X509_verify_cert_error_string(verdict) : reason));
}

} // end namespace bbflow
