#pragma once

#include <cstddef>
#include <string>

namespace bbflow
{

/** HIP's runtime compiler, which is in HIP's library, or in one of its own that is loaded. */
class HipCompiler
{
public:
    /** @param hip HIP's library */
    explicit HipCompiler(void *hip);

    bool IsHere() const { return m_IsWhole; }

    /** Compiles our kernels for the GPU that the thread is at.
     *  @param code gets what can be loaded
     *  @return 0, or the compiler's error */
    int Compile(std::string &code) const;

private:
    bool m_IsWhole;
    int (*m_Create)(void **program, const char *source, const char *name, int headers,
                    const char *const *texts, const char *const *names);
    int (*m_Compile)(void *program, int options, const char *const *words);
    int (*m_GetSize)(void *program, size_t *bytes);
    int (*m_GetCode)(void *program, char *code);
    int (*m_Destroy)(void **program);
};

} // end namespace bbflow
