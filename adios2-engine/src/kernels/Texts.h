#pragma once

/** The kernels as they were built in, by CMake; for CUDA as PTX, empty where no clang made it. */
namespace bbflow::kernels
{

extern const char *const Ptx;
extern const char *const Source;
extern const char *const RangeTask, *const FoldTask,
                                        *const Thread; ///< the headers that the source includes

} // end namespace bbflow::kernels
