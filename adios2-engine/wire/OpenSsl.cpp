#include "OpenSsl.h"

#include <dlfcn.h>
#include <stdexcept>
#include <string>

namespace bbflow
{

namespace
{

template <class Function>
void Find(void *library, const char *name, Function &function)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr)
    {
        throw std::invalid_argument("bbflow: libssl.so.3 of this host lacks " + std::string(name));
    }
}

} // end empty namespace

OpenSsl::OpenSsl()
{
    void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL); // stays loaded
    if (library == nullptr)
    {
        throw std::invalid_argument(std::string("bbflow: the BB nodes speak TLS, which needs "
                                                "OpenSSL's libssl.so.3 on this host: ") +
                                    dlerror());
    }
#define find(NAME) Find(library, #NAME, NAME);
    find(TLS_client_method) find(SSL_CTX_new) find(SSL_CTX_free) find(SSL_CTX_ctrl)
        find(SSL_CTX_load_verify_locations) find(SSL_CTX_set_verify) find(SSL_new) find(SSL_free)
            find(SSL_get0_param) find(SSL_set1_host) find(SSL_set_bio) find(SSL_set_connect_state)
                find(SSL_do_handshake) find(SSL_get_error) find(SSL_get_verify_result)
                    find(SSL_read) find(SSL_write) find(X509_VERIFY_PARAM_set1_ip_asc)
                        find(X509_verify_cert_error_string) find(BIO_new) find(BIO_s_mem)
                            find(BIO_read) find(BIO_write) find(ERR_get_error) find(ERR_clear_error)
                                find(ERR_error_string_n)
#undef find
}

const OpenSsl &OpenSsl::Load()
{
    static const OpenSsl functions;
    return functions;
}

} // end namespace bbflow
