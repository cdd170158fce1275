/** A plugin whose Open fails with what the preloaded library tells of it. */

#include "Opening.h"

#include <adios2.h>

#include <dlfcn.h>
#include <sstream>
#include <stdexcept>

extern "C" __attribute__((visibility("default"))) void *
EngineCreate(adios2::IO io, const std::string &, const adios2::Mode)
{
    const auto ask = reinterpret_cast<decltype(&bbflow_current_opening)>(
        dlsym(RTLD_DEFAULT, "bbflow_current_opening"));
    const bbflow_opening *opening = ask == nullptr ? nullptr : ask();
    std::ostringstream told;
    told << "told: ";
    if (opening != nullptr)
    {
        told << opening->version << " " << opening->io << " " << opening->file << " "
             << opening->mode << " " << opening->rank << "/" << opening->size << " "
             << (opening->hosts == nullptr ? "" : "on hosts ") << opening->language << " "
             << opening->column_major << " " << io.EngineType();
    }
    throw std::runtime_error(told.str() + " :end");
}

extern "C" __attribute__((visibility("default"))) void EngineDestroy(void *) {}
