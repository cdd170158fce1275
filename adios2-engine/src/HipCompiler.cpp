#include "HipCompiler.h"

#include "LoadedObjects.h"
#include "kernels/Texts.h"

#include <optional>

namespace bbflow
{

HipCompiler::HipCompiler(void *hip)
{
    const std::optional<std::string> path = LoadedObject("libhiprtc.so", "");
    void *own = path ? dlopen(path->c_str(), RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    void *library = own ? own : hip;
    m_IsWhole = FindFunction(library, "hiprtcCreateProgram", m_Create) &&
                FindFunction(library, "hiprtcCompileProgram", m_Compile) &&
                FindFunction(library, "hiprtcGetCodeSize", m_GetSize) &&
                FindFunction(library, "hiprtcGetCode", m_GetCode) &&
                FindFunction(library, "hiprtcDestroyProgram", m_Destroy);
}

int HipCompiler::Compile(std::string &code) const
{
    constexpr int fine = 0;
    const char *const texts[] = {kernels::RangeTask, kernels::FoldTask, kernels::Thread};
    const char *const names[] = {"RangeTask.h", "FoldTask.h", "Thread.h"};
    const char *const words[] = {"-std=c++17", "-O3", "-ffp-contract=off"};
    void *program = nullptr;
    int status = m_Create(&program, kernels::Source, "Kernels.cpp", 3, texts, names);
    if (status != fine)
    {
        return status;
    }
    size_t bytes = 0;
    status = m_Compile(program, 3, words);
    status = status == fine ? m_GetSize(program, &bytes) : status;
    if (status == fine)
    {
        code.resize(bytes);
        status = m_GetCode(program, code.data());
    }
    m_Destroy(&program);
    return status;
}

} // end namespace bbflow
