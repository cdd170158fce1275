#include "LoadedObjects.h"

#include <link.h>

namespace bbflow
{

namespace
{

struct Search
{
    const std::string &Beginning;
    const std::string &Piece;
    std::optional<std::string> Found;
};

int Look(dl_phdr_info *object, size_t, void *data)
{
    auto &search = *static_cast<Search *>(data);
    const std::string path = object->dlpi_name;
    const std::string name = path.substr(path.rfind('/') + 1);
    if (name.compare(0, search.Beginning.size(), search.Beginning) == 0 &&
        name.find(search.Piece, search.Beginning.size()) != std::string::npos)
    {
        search.Found = path;
    }
    return search.Found ? 1 : 0;
}

} // end empty namespace

std::optional<std::string> LoadedObject(const std::string &beginning, const std::string &piece)
{
    Search search{beginning, piece, std::nullopt};
    dl_iterate_phdr(Look, &search);
    return search.Found;
}

} // end namespace bbflow
