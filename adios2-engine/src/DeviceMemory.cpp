#include "DeviceMemory.h"

#include "LoadedObjects.h"

#include <cstdint>
#include <dlfcn.h>
#include <link.h>
#include <mutex>
#include <stdexcept>
#include <string>

namespace bbflow
{

namespace
{

constexpr int Fine = 0;

template <class F>
void Find(void *library, const char *name, F &function)
{
    function = reinterpret_cast<F>(dlsym(library, name));
}

/** A library that the program has loaded, or nullptr: it isn't loaded for us. */
void *Loaded(const std::string &beginning)
{
    const std::optional<std::string> path = LoadedObject(beginning, "");
    return path ? dlopen(path->c_str(), RTLD_LAZY | RTLD_NOLOAD) : nullptr;
}

/** CUDA's driver, which is there whenever CUDA is, its runtime library linked statically or not. */
struct Cuda
{
    using Address = uintptr_t; // CUdeviceptr
    int (*GetAttribute)(void *value, int attribute, Address address) = nullptr;
    int (*Copy)(void *target, Address source, size_t bytes) = nullptr;
    int (*Push)(void *context) = nullptr;
    int (*Pop)(void **context) = nullptr;
    int (*Register)(void *memory, size_t bytes, unsigned flags) = nullptr;
    int (*Unregister)(void *memory) = nullptr;

    explicit Cuda(void *library)
    {
        Find(library, "cuPointerGetAttribute", GetAttribute);
        Find(library, "cuMemcpyDtoH_v2", Copy);
        Find(library, "cuCtxPushCurrent_v2", Push);
        Find(library, "cuCtxPopCurrent_v2", Pop);
        Find(library, "cuMemHostRegister_v2", Register);
        Find(library, "cuMemHostUnregister", Unregister);
    }

    bool IsWhole() const { return GetAttribute && Copy && Push && Pop; }

    bool Has(const void *memory) const
    {
        constexpr int memoryType = 2, isManaged = 8; // CU_POINTER_ATTRIBUTE_…
        constexpr unsigned device = 2;               // CU_MEMORYTYPE_DEVICE
        const auto address = reinterpret_cast<Address>(memory);
        unsigned type = 0, managed = 0;
        return GetAttribute(&type, memoryType, address) == Fine && type == device &&
               (GetAttribute(&managed, isManaged, address) != Fine || (managed & 0xff) == 0);
    }

    /** Calls something in the context that the memory is of: this thread may have none. */
    template <class F>
    int In(const void *source, F call) const
    {
        constexpr int contextOf = 1; // CU_POINTER_ATTRIBUTE_CONTEXT
        void *context = nullptr;
        const bool isPushed =
            GetAttribute(&context, contextOf, reinterpret_cast<Address>(source)) == Fine &&
            context != nullptr && Push(context) == Fine;
        const int status = call();
        if (isPushed)
        {
            Pop(&context);
        }
        return status;
    }

    int CopyFrom(void *target, const void *source, const size_t bytes) const
    {
        return In(source, [&] { return Copy(target, reinterpret_cast<Address>(source), bytes); });
    }

    bool Lock(void *memory, const size_t bytes, const void *source) const
    {
        constexpr unsigned inAllContexts = 1; // CU_MEMHOSTREGISTER_PORTABLE
        return Register && Unregister &&
               In(source, [&] { return Register(memory, bytes, inAllContexts); }) == Fine;
    }

    void Unlock(void *memory) const
    {
        In(memory, [&] { return Unregister(memory); });
    }
};

struct Hip
{
    /** hipPointerAttribute_t; what its first number means has changed, the others have not. */
    struct Attributes
    {
        int Type, Device;
        void *DevicePointer, *HostPointer;
        int IsManaged;
        unsigned Flags;
        char Later[64];
    };

    int (*GetAttributes)(Attributes *attributes, const void *memory) = nullptr;
    int (*Copy)(void *target, const void *source, size_t bytes, int kind) = nullptr;
    int (*Register)(void *memory, size_t bytes, unsigned flags) = nullptr;
    int (*Unregister)(void *memory) = nullptr;
    int (*PeekAtLastError)() = nullptr;
    int (*GetLastError)() = nullptr;

    explicit Hip(void *library)
    {
        Find(library, "hipPointerGetAttributes", GetAttributes);
        Find(library, "hipMemcpy", Copy);
        Find(library, "hipHostRegister", Register);
        Find(library, "hipHostUnregister", Unregister);
        Find(library, "hipPeekAtLastError", PeekAtLastError);
        Find(library, "hipGetLastError", GetLastError);
    }

    bool IsWhole() const { return GetAttributes && Copy && PeekAtLastError && GetLastError; }

    bool Has(const void *memory) const
    {
        const bool isClean = PeekAtLastError() == Fine;
        Attributes attributes{};
        if (GetAttributes(&attributes, memory) != Fine)
        {
            isClean ? GetLastError() : Fine; // ordinary memory: not an error of the program's
            return false;
        }
        return attributes.DevicePointer != nullptr && attributes.HostPointer == nullptr &&
               attributes.IsManaged == 0;
    }

    int CopyFrom(void *target, const void *source, const size_t bytes) const
    {
        constexpr int deviceToHost = 2; // hipMemcpyDeviceToHost
        return Copy(target, source, bytes, deviceToHost);
    }

    bool Lock(void *memory, const size_t bytes) const
    {
        constexpr unsigned inAllContexts = 1; // hipHostRegisterPortable
        const bool isClean = PeekAtLastError() == Fine;
        const bool isLocked =
            Register && Unregister && Register(memory, bytes, inAllContexts) == Fine;
        if (!isLocked && isClean)
        {
            GetLastError(); // it is copied all the same: not an error of the program's
        }
        return isLocked;
    }

    void Unlock(void *memory) const { Unregister(memory); }
};

struct Runtimes
{
    std::optional<bbflow::Cuda> Cuda;
    std::optional<bbflow::Hip> Hip;
};

template <class T>
std::optional<T> Open(const std::string &beginning)
{
    void *library = Loaded(beginning);
    std::optional<T> runtime;
    if (library != nullptr && T(library).IsWhole())
    {
        runtime.emplace(library);
    }
    return runtime;
}

int CountLoads(dl_phdr_info *object, size_t, void *count)
{
    *static_cast<unsigned long long *>(count) = object->dlpi_adds;
    return 1;
}

/** Looks for them again only when the process has loaded something: every Put asks. */
Runtimes Here()
{
    static std::mutex lock;
    static unsigned long long loads = 0;
    static Runtimes runtimes;
    unsigned long long now = 0;
    dl_iterate_phdr(CountLoads, &now);
    const std::lock_guard<std::mutex> guard(lock);
    if (now != loads)
    {
        runtimes = {Open<Cuda>("libcuda.so"), Open<Hip>("libamdhip64.so")};
        loads = now;
    }
    return runtimes;
}

} // end empty namespace

bool HasDevices()
{
    const Runtimes here = Here();
    return here.Cuda || here.Hip;
}

bool IsOnDevice(const void *memory)
{
    const Runtimes here = Here();
    return (here.Cuda && here.Cuda->Has(memory)) || (here.Hip && here.Hip->Has(memory));
}

DeviceCopy::~DeviceCopy() { Free(); }

const void *DeviceCopy::Of(const void *source, const size_t bytes)
{
    if (bytes > m_Bytes)
    {
        Grow(source, bytes);
    }
    const Runtimes here = Here();
    const bool isCuda = here.Cuda && here.Cuda->Has(source);
    const int status = isCuda     ? here.Cuda->CopyFrom(m_Memory.get(), source, bytes)
                       : here.Hip ? here.Hip->CopyFrom(m_Memory.get(), source, bytes)
                                  : -1;
    if (status != Fine)
    {
        throw std::runtime_error(std::string("bbflow: ") + (isCuda ? "CUDA" : "HIP") +
                                 " can't copy " + std::to_string(bytes) +
                                 " bytes from the GPU's memory (error " + std::to_string(status) +
                                 "): Put them from the host's");
    }
    return m_Memory.get();
}

void DeviceCopy::Grow(const void *source, const size_t bytes)
{
    Free();
    m_Memory.reset(new char[bytes]);
    m_Bytes = bytes;
    const Runtimes here = Here();
    m_IsLocked = here.Cuda && here.Cuda->Has(source)
                     ? here.Cuda->Lock(m_Memory.get(), bytes, source)
                 : here.Hip ? here.Hip->Lock(m_Memory.get(), bytes)
                            : false;
}

void DeviceCopy::Free()
{
    const Runtimes here = Here();
    if (m_IsLocked && here.Cuda)
    {
        here.Cuda->Unlock(m_Memory.get());
    }
    else if (m_IsLocked && here.Hip)
    {
        here.Hip->Unlock(m_Memory.get());
    }
    m_Memory.reset();
    m_Bytes = 0;
    m_IsLocked = false;
}

} // end namespace bbflow
