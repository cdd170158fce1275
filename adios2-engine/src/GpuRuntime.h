#pragma once

#include "Ofi.h"

#include <cstddef>
#include <memory>

namespace bbflow
{

/** A GPU's runtime that the program has loaded: CUDA's driver, which is there whenever CUDA is, or
 * HIP. It isn't loaded for us. Its functions give 0 where they succeed. */
class GpuRuntime
{
public:
    virtual ~GpuRuntime() = default;

    /** Whether there is one. */
    static bool IsHere();

    /** The one of memory that the CPU can't read; nullptr for all other memory. */
    static std::shared_ptr<const GpuRuntime> Of(const void *memory);

    virtual const char *Name() const = 0;

    /** What libfabric calls memory's GPU. */
    virtual ofi::Owner InFabric(const void *memory) const = 0;

    /** What streams on memory's GPU belong to: its context, or its device. */
    virtual void *HomeOf(const void *memory) const = 0;

    /** Copies rows, which lie `pitch` bytes from each other, into one piece, when a stream comes to
     * that.
     * @param isThere whether the target is a GPU's memory, too */
    virtual int CopyRows(void *target, const void *source, size_t pitch, size_t rowBytes,
                         size_t rows, bool isThere, void *stream) const = 0;

    int (*Copy)(void *target, const void *source, size_t bytes, void *stream);
    int (*OpenStream)(void **stream, unsigned flags);
    int (*CloseStream)(void *stream);
    int (*WaitForStream)(void *stream);
    /** Orders what is queued on a stream from now on after an event. */
    int (*LetWait)(void *stream, void *event, unsigned flags);
    int (*OpenEvent)(void **event, unsigned flags);
    int (*CloseEvent)(void *event);
    int (*Record)(void *event, void *stream);
    int (*WaitForEvent)(void *event);
    int (*Register)(void *memory, size_t bytes, unsigned flags);
    int (*Unregister)(void *memory);
    /** Where a GPU sees registered memory. */
    int (*OnDevice)(void **there, void *memory, unsigned flags);
    int (*Allocate)(void **there, size_t bytes);
    int (*Free)(void *there);
    /** Copies within a GPU's memory. */
    int (*CopyThere)(void *target, const void *source, size_t bytes, void *stream);

    int (*UnloadModule)(void *module);
    int (*FindKernel)(void **kernel, void *module, const char *name);
    int (*Launch)(void *kernel, unsigned blocksX, unsigned blocksY, unsigned blocksZ,
                  unsigned threadsX, unsigned threadsY, unsigned threadsZ, unsigned sharedBytes,
                  void *stream, void **arguments, void **more);
    /** Whether our kernels are built in for it, or can be built here. */
    virtual bool CanLaunch() const = 0;
    /** Loads them, at home. */
    virtual int LoadKernels(void **module) const = 0;

    static constexpr unsigned OnItsOwn = 1;     // a stream that waits for no other
    static constexpr unsigned WithoutTimes = 2; // an event
    static constexpr unsigned Everywhere =
        3; // memory that is registered and mapped for all contexts

    /** Works at home for as long as it lives: the thread may be at home elsewhere, or nowhere. */
    class Visit
    {
    public:
        Visit(const GpuRuntime &runtime, void *home) : m_Runtime(runtime)
        {
            m_Runtime.Enter(home, m_Before);
        }
        ~Visit() { m_Runtime.Leave(m_Before); }
        Visit(const Visit &) = delete;
        Visit &operator=(const Visit &) = delete;

    private:
        friend class GpuRuntime;
        const GpuRuntime &m_Runtime;
        struct Before
        {
            bool HasEntered = false, WasClean = true;
            int Device = 0;
        } m_Before;

    public:
        using State = Before;
    };

protected:
    /** @param names of the functions above, in their order */
    GpuRuntime(void *library, const char *const (&names)[19]);

    /** Whether it has all that is needed. */
    virtual bool IsWhole() const { return m_IsWhole; }
    virtual bool Has(const void *memory) const = 0;
    virtual void Enter(void *home, Visit::State &before) const = 0;
    virtual void Leave(Visit::State &before) const = 0;

    int (*LoadModule)(void **module, const void *image);

    template <class Function>
    void Find(void *library, const char *name, Function &function);

private:
    bool m_IsWhole = true;

    struct Here;
    static Here All();
    template <class Runtime>
    static std::shared_ptr<const GpuRuntime> Look(const char *beginning);
};

} // end namespace bbflow
