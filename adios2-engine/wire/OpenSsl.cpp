#include "OpenSsl.h"

#include "Library.h"

namespace bbflow
{

OpenSsl::OpenSsl()
{
    const Library library({"libssl.so.3"}, "TLS, which the BB nodes speak,");
#define find(NAME) library.Find(#NAME, NAME);
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
