#include "OpenNumber.h"
#include "Reader.h"
#include "Writer.h"

#include <iostream>
#include <memory>
#include <stdexcept>

namespace
{

/** ADIOS2 takes any PluginName where PluginLibrary is right: a wrong one is likely a mistake. */
void WarnOfName(const std::string &name, const bbflow::Parameters &parameters)
{
    if (name != "bbflow" && parameters.Place.Rank == 0)
    {
        std::cerr << "bbflow: stream '" + parameters.Stream + "': the engine's PluginName is '" +
                         name + "', which counts for nothing: it should be 'bbflow'\n"
                  << std::flush;
    }
}

template <class T>
adios2::plugin::PluginEngineInterface *Make(adios2::IO io, const std::string &name,
                                            const adios2::Mode mode)
{
    bbflow::Parameters parameters = bbflow::ReadParameters(io.Parameters(), io.Name());
    bbflow::OpenNumber number(parameters.Stream, mode != adios2::Mode::Write);
    parameters.Stream = number.Fill();
    auto engine = std::make_unique<T>(io, name, mode, parameters);
    number.Count();
    WarnOfName(name, parameters);
    return engine.release();
}

} // end empty namespace

/** What ADIOS2 looks for in a plugin's library. */
extern "C"
{

    __attribute__((visibility("default"))) adios2::plugin::PluginEngineInterface *
    EngineCreate(adios2::IO io, const std::string &name, const adios2::Mode mode)
    {
        switch (mode)
        {
        case adios2::Mode::Write:
            return Make<bbflow::Writer>(io, name, mode);
        case adios2::Mode::Read:
        case adios2::Mode::ReadRandomAccess:
            return Make<bbflow::Reader>(io, name, mode);
        default:
            throw std::invalid_argument("bbflow: open " + io.Name() +
                                        " with Mode::Write or Mode::Read: a stream's steps can't "
                                        "be changed");
        }
    }

    __attribute__((visibility("default"))) void
    EngineDestroy(adios2::plugin::PluginEngineInterface *engine)
    {
        delete engine;
    }

} // extern "C"
