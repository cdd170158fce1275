#pragma once

/* How kernels are written for all their compilers: clang and HIP's for GPUs, and the tests' for the
 * CPU, where all threads have their turn in one. */
#if defined(__CUDA__) || defined(__HIP__)
#define BBFLOW_KERNEL extern "C" __attribute__((global))
#define BBFLOW_DEVICE __attribute__((device)) inline
#else
#define BBFLOW_KERNEL extern "C"
#define BBFLOW_DEVICE inline
extern "C" unsigned long long bbflow_thread; // whose turn it is
#endif

namespace bbflow
{

/** Number of a thread among all. */
template <class Task>
BBFLOW_DEVICE unsigned long long Thread()
{
#if defined(__NVPTX__)
    return __nvvm_read_ptx_sreg_ctaid_x() * Task::BlockThreads +
           static_cast<unsigned>(__nvvm_read_ptx_sreg_tid_x());
#elif defined(__AMDGCN__)
    return __builtin_amdgcn_workgroup_id_x() * Task::BlockThreads +
           __builtin_amdgcn_workitem_id_x();
#else
    return bbflow_thread;
#endif
}

} // end namespace bbflow
