#pragma once

#include <cstddef>

namespace bbflow
{

/** Whether the program has a runtime for GPUs that can be asked: CUDA's driver or HIP. */
bool HasDevices();

/** Whether memory is a GPU's, where the CPU can't read it. */
bool IsOnDevice(const void *memory);

/** Copies a GPU's memory into the host's, by the runtime that the program has loaded.
 *  @throws std::runtime_error if the runtime can't */
void CopyFromDevice(void *target, const void *source, size_t bytes);

} // end namespace bbflow
