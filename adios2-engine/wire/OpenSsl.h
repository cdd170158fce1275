#pragma once

#include <cstddef>

namespace bbflow
{

/** The functions of OpenSSL 3 that TLS needs, from the libssl.so.3 that the host has: a program
 *  without TLS doesn't need one. Their names and types are OpenSSL's. */
struct OpenSsl
{
    /** @throws std::invalid_argument if the host has no libssl.so.3 */
    static const OpenSsl &Load();

    void *(*TLS_client_method)();
    void *(*SSL_CTX_new)(const void *method);
    void (*SSL_CTX_free)(void *context);
    long (*SSL_CTX_ctrl)(void *context, int command, long number, void *pointer);
    int (*SSL_CTX_load_verify_locations)(void *context, const char *file, const char *directory);
    void (*SSL_CTX_set_verify)(void *context, int mode, void *callback);
    void *(*SSL_new)(void *context);
    void (*SSL_free)(void *ssl);
    void *(*SSL_get0_param)(void *ssl);
    int (*SSL_set1_host)(void *ssl, const char *name);
    void (*SSL_set_bio)(void *ssl, void *read, void *write);
    void (*SSL_set_connect_state)(void *ssl);
    int (*SSL_do_handshake)(void *ssl);
    int (*SSL_get_error)(const void *ssl, int result);
    long (*SSL_get_verify_result)(const void *ssl);
    int (*SSL_read)(void *ssl, void *bytes, int n);
    int (*SSL_write)(void *ssl, const void *bytes, int n);
    int (*X509_VERIFY_PARAM_set1_ip_asc)(void *parameters, const char *address);
    const char *(*X509_verify_cert_error_string)(long code);
    void *(*BIO_new)(const void *method);
    const void *(*BIO_s_mem)();
    int (*BIO_read)(void *bio, void *bytes, int n);
    int (*BIO_write)(void *bio, const void *bytes, int n);
    unsigned long (*ERR_get_error)();
    void (*ERR_clear_error)();
    void (*ERR_error_string_n)(unsigned long code, char *text, size_t size);

private:
    OpenSsl();
};

} // end namespace bbflow
