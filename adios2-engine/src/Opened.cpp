#include "Opened.h"

#include "LoadedObjects.h"
#include "Opening.h"

#include <dlfcn.h>
#include <stdexcept>

namespace bbflow
{

Opened AskPreloaded()
{
    using Ask = decltype(&bbflow_current_opening);
    const auto ask = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "bbflow_current_opening"));
    const bbflow_opening *opening = ask == nullptr ? nullptr : ask();
    if (opening == nullptr)
    {
        return {};
    }
    if (opening->version != OpeningVersion)
    {
        throw std::runtime_error("bbflow: the preloaded library is of another version than the "
                                 "engine: see LD_PRELOAD, and start the program with the bbflow "
                                 "whose engine it has");
    }
    Opened opened;
    opened.File = opening->file == nullptr ? "" : opening->file;
    opened.WrittenTo = opening->written_to == nullptr ? "" : opening->written_to;
    if (opening->size > 0)
    {
        opened.Place = RankOf{opening->rank, opening->size};
        if (opening->hosts != nullptr)
        {
            opened.Hosts.assign(opening->hosts, opening->hosts + opening->size);
        }
    }
    if (opening->column_major >= 0)
    {
        opened.IsColumnMajor = opening->column_major == 1;
    }
    return opened;
}

bool HasMpi() { return LoadedObject("libadios2", "_core_mpi").has_value(); }

} // end namespace bbflow
