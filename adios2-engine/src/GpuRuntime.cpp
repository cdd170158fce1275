#include "GpuRuntime.h"

#include "HipCompiler.h"
#include "LoadedObjects.h"
#include "kernels/Texts.h"

#include <cstdint>
#include <link.h>
#include <mutex>
#include <string>

namespace bbflow
{

namespace
{

constexpr int Fine = 0;

int CountLoads(dl_phdr_info *object, size_t, void *count)
{
    *static_cast<unsigned long long *>(count) = object->dlpi_adds;
    return 1;
}

} // end empty namespace

template <class Function>
void GpuRuntime::Find(void *library, const char *name, Function &function)
{
    m_IsWhole = FindFunction(library, name, function) && m_IsWhole;
}

GpuRuntime::GpuRuntime(void *library, const char *const (&names)[19])
{
    const char *const *name = names;
    Find(library, *name++, Copy);
    Find(library, *name++, OpenStream);
    Find(library, *name++, CloseStream);
    Find(library, *name++, WaitForStream);
    Find(library, *name++, LetWait);
    Find(library, *name++, OpenEvent);
    Find(library, *name++, CloseEvent);
    Find(library, *name++, Record);
    Find(library, *name++, WaitForEvent);
    Find(library, *name++, Register);
    Find(library, *name++, Unregister);
    Find(library, *name++, OnDevice);
    Find(library, *name++, Allocate);
    Find(library, *name++, Free);
    Find(library, *name++, CopyThere);
    Find(library, *name++, LoadModule);
    Find(library, *name++, UnloadModule);
    Find(library, *name++, FindKernel);
    Find(library, *name++, Launch);
}

namespace
{

class Cuda final : public GpuRuntime
{
public:
    explicit Cuda(void *library)
    : GpuRuntime(library,
                 {"cuMemcpyDtoHAsync_v2", "cuStreamCreate", "cuStreamDestroy_v2",
                  "cuStreamSynchronize", "cuStreamWaitEvent", "cuEventCreate", "cuEventDestroy_v2",
                  "cuEventRecord", "cuEventSynchronize", "cuMemHostRegister_v2",
                  "cuMemHostUnregister", "cuMemHostGetDevicePointer_v2", "cuMemAlloc_v2",
                  "cuMemFree_v2", "cuMemcpyDtoDAsync_v2", "cuModuleLoadData", "cuModuleUnload",
                  "cuModuleGetFunction", "cuLaunchKernel"})
    {
        Find(library, "cuPointerGetAttribute", m_GetAttribute);
        Find(library, "cuMemcpy2DAsync_v2", m_Copy2D);
        Find(library, "cuCtxGetCurrent", m_GetCurrent);
        Find(library, "cuCtxPushCurrent_v2", m_Push);
        Find(library, "cuCtxPopCurrent_v2", m_Pop);
    }

    const char *Name() const override { return "CUDA"; }

    bool Has(const void *memory) const override
    {
        constexpr int memoryType = 2, isManaged = 8; // CU_POINTER_ATTRIBUTE_…
        constexpr unsigned device = 2;               // CU_MEMORYTYPE_DEVICE
        const auto address = reinterpret_cast<Address>(memory);
        unsigned type = 0, managed = 0;
        return m_GetAttribute(&type, memoryType, address) == Fine && type == device &&
               (m_GetAttribute(&managed, isManaged, address) != Fine || (managed & 0xff) == 0);
    }

    ofi::Owner InFabric(const void *memory) const override
    {
        constexpr int ordinal = 9; // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        int number = 0;
        m_GetAttribute(&number, ordinal, reinterpret_cast<Address>(memory));
        return {ofi::Owner::Cuda, number};
    }

    void *HomeOf(const void *memory) const override
    {
        constexpr int contextOf = 1; // CU_POINTER_ATTRIBUTE_CONTEXT
        void *context = nullptr;
        const auto address = reinterpret_cast<Address>(memory);
        if (m_GetAttribute(&context, contextOf, address) != Fine || context == nullptr)
        {
            m_GetCurrent(&context); // memory of pools has none of its own
        }
        return context;
    }

    int CopyRows(void *target, const void *source, const size_t pitch, const size_t rowBytes,
                 const size_t rows, const bool isThere, void *stream) const override
    {
        Rows copy{};
        copy.Source.Type = 2; // CU_MEMORYTYPE_DEVICE
        copy.Source.Device = reinterpret_cast<Address>(source);
        copy.Source.Pitch = pitch;
        copy.Target.Type = isThere ? 2 : 1; // CU_MEMORYTYPE_HOST
        copy.Target.Host = isThere ? nullptr : target;
        copy.Target.Device = isThere ? reinterpret_cast<Address>(target) : 0;
        copy.Target.Pitch = rowBytes;
        copy.RowBytes = rowBytes;
        copy.Count = rows;
        return m_Copy2D(&copy, stream);
    }

    void Enter(void *home, Visit::State &before) const override
    {
        before.HasEntered = home != nullptr && m_Push(home) == Fine;
    }

    void Leave(Visit::State &before) const override
    {
        void *own = nullptr;
        before.HasEntered ? m_Pop(&own) : Fine;
    }

    bool CanLaunch() const override { return *kernels::Ptx != '\0'; }

    int LoadKernels(void **module) const override { return LoadModule(module, kernels::Ptx); }

private:
    using Address = uintptr_t; // CUdeviceptr
    struct Side
    {
        size_t X, Y;
        int Type;
        void *Host;
        Address Device;
        void *Array;
        size_t Pitch;
    };
    /** CUDA_MEMCPY2D */
    struct Rows
    {
        Side Source, Target;
        size_t RowBytes, Count;
    };
    int (*m_GetAttribute)(void *value, int attribute, Address address);
    int (*m_Copy2D)(const Rows *rows, void *stream);
    int (*m_GetCurrent)(void **context);
    int (*m_Push)(void *context);
    int (*m_Pop)(void **context);
};

class Hip final : public GpuRuntime
{
public:
    explicit Hip(void *library)
    : GpuRuntime(library, {"hipMemcpyDtoHAsync", "hipStreamCreateWithFlags", "hipStreamDestroy",
                           "hipStreamSynchronize", "hipStreamWaitEvent", "hipEventCreateWithFlags",
                           "hipEventDestroy", "hipEventRecord", "hipEventSynchronize",
                           "hipHostRegister", "hipHostUnregister", "hipHostGetDevicePointer",
                           "hipMalloc", "hipFree", "hipMemcpyDtoDAsync", "hipModuleLoadData",
                           "hipModuleUnload", "hipModuleGetFunction", "hipModuleLaunchKernel"}),
      m_Compiler(library)
    {
        Find(library, "hipPointerGetAttributes", m_GetAttributes);
        Find(library, "hipMemcpy2DAsync", m_Copy2D);
        Find(library, "hipGetDevice", m_GetDevice);
        Find(library, "hipSetDevice", m_SetDevice);
        Find(library, "hipPeekAtLastError", m_PeekAtLastError);
        Find(library, "hipGetLastError", m_GetLastError);
    }

    const char *Name() const override { return "HIP"; }

    bool Has(const void *memory) const override
    {
        Attributes found{};
        return Ask(memory, found) && found.DevicePointer != nullptr &&
               found.HostPointer == nullptr && found.IsManaged == 0;
    }

    /** ROCr finds the GPU by the address. */
    ofi::Owner InFabric(const void *) const override { return {ofi::Owner::Rocr, 0}; }

    /** A device's number, and one. */
    void *HomeOf(const void *memory) const override
    {
        Attributes found{};
        return Ask(memory, found) ? reinterpret_cast<void *>(intptr_t{found.Device} + 1) : nullptr;
    }

    int CopyRows(void *target, const void *source, const size_t pitch, const size_t rowBytes,
                 const size_t rows, const bool isThere, void *stream) const override
    {
        const int way = isThere ? 3 : 2; // hipMemcpyDeviceToDevice, hipMemcpyDeviceToHost
        return m_Copy2D(target, rowBytes, source, pitch, rowBytes, rows, way, stream);
    }

    void Enter(void *home, Visit::State &before) const override
    {
        before.WasClean = m_PeekAtLastError() == Fine;
        const auto device = static_cast<int>(reinterpret_cast<intptr_t>(home) - 1);
        before.HasEntered =
            home != nullptr && m_GetDevice(&before.Device) == Fine && m_SetDevice(device) == Fine;
    }

    void Leave(Visit::State &before) const override
    {
        before.HasEntered ? m_SetDevice(before.Device) : Fine;
        if (before.WasClean && m_PeekAtLastError() != Fine)
        {
            m_GetLastError(); // it is told by what is thrown: not an error of the program's
        }
    }

    bool CanLaunch() const override { return m_Compiler.IsHere(); }

    int LoadKernels(void **module) const override
    {
        std::string code;
        const int status = m_Compiler.Compile(code);
        return status == Fine ? LoadModule(module, code.data()) : status;
    }

private:
    const HipCompiler m_Compiler;
    /** hipPointerAttribute_t; what its first number means has changed, the others have not. */
    struct Attributes
    {
        int Type, Device;
        void *DevicePointer, *HostPointer;
        int IsManaged;
        unsigned Flags;
        char Later[64];
    };
    int (*m_GetAttributes)(Attributes *attributes, const void *memory);
    int (*m_Copy2D)(void *target, size_t targetPitch, const void *source, size_t pitch,
                    size_t rowBytes, size_t rows, int kind, void *stream);
    int (*m_GetDevice)(int *device);
    int (*m_SetDevice)(int device);
    int (*m_PeekAtLastError)();
    int (*m_GetLastError)();

    bool Ask(const void *memory, Attributes &found) const
    {
        const bool isClean = m_PeekAtLastError() == Fine;
        const bool isThere = m_GetAttributes(&found, memory) == Fine;
        if (!isThere && isClean)
        {
            m_GetLastError(); // ordinary memory: not an error of the program's
        }
        return isThere;
    }
};

} // end empty namespace

struct GpuRuntime::Here
{
    std::shared_ptr<const GpuRuntime> Cuda, Hip;
};

template <class Runtime>
std::shared_ptr<const GpuRuntime> GpuRuntime::Look(const char *beginning)
{
    const std::optional<std::string> path = LoadedObject(beginning, "");
    void *library = path ? dlopen(path->c_str(), RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    std::shared_ptr<const GpuRuntime> runtime;
    if (library != nullptr)
    {
        runtime = std::make_shared<const Runtime>(library);
    }
    return runtime && runtime->IsWhole() ? runtime : nullptr;
}

/** Looks for them again only when the process has loaded something: every Put asks. */
GpuRuntime::Here GpuRuntime::All()
{
    static std::mutex lock;
    static unsigned long long loads = 0;
    static Here here;
    unsigned long long now = 0;
    dl_iterate_phdr(CountLoads, &now);
    const std::lock_guard<std::mutex> guard(lock);
    if (now != loads)
    {
        here = {Look<Cuda>("libcuda.so"), Look<Hip>("libamdhip64.so")};
        loads = now;
    }
    return here;
}

bool GpuRuntime::IsHere()
{
    const Here here = All();
    return here.Cuda || here.Hip;
}

std::shared_ptr<const GpuRuntime> GpuRuntime::Of(const void *memory)
{
    const Here here = All();
    return here.Cuda && here.Cuda->Has(memory) ? here.Cuda
           : here.Hip && here.Hip->Has(memory) ? here.Hip
                                               : nullptr;
}

} // end namespace bbflow
