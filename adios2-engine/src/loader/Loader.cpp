/** What ADIOS2 opens as its plugin. It needs no library of ADIOS2, so that it can be opened in
 * every program, and opens the engine that was built for the ADIOS2 which calls. */

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

/** The arguments are whatever the version of ADIOS2 has: at most four, each as large as a pointer
 * or an object that is passed by its address. They are handed on as they come. */
using Create = void *(*)(void *io, void *name, int mode, void *comm);
using Destroy = void (*)(void *engine);

struct Engine
{
    Create Make;
    Destroy Unmake;
};

/** Where a library of ADIOS2 lies and what it is called: `libadios2_core.so.2.12`, or with a word
 * of the distribution's in front of `_core`. */
struct Core
{
    std::string Folder, Name, Version;
};

std::mutex Lock;
std::map<std::string, Engine> Engines; // by the core's path; guarded by Lock
std::map<void *, Destroy> Made;        // what each engine is ended with; guarded by Lock

std::string FileOf(const void *address)
{
    Dl_info found{};
    return dladdr(address, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
}

std::string FolderOf(const std::string &path)
{
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

/** The first two numbers behind `.so.`; empty if there are none. */
std::string VersionOf(const std::string &name)
{
    const size_t begin = name.find(".so.");
    std::istringstream numbers(begin == std::string::npos ? "" : name.substr(begin + 4));
    int major = 0, minor = 0;
    char dot = 0;
    return numbers >> major >> dot >> minor && dot == '.'
               ? std::to_string(major) + "." + std::to_string(minor)
               : "";
}

Core CoreAt(const std::string &path)
{
    char *resolved = realpath(path.c_str(), nullptr);
    const std::string real = resolved == nullptr ? path : resolved;
    std::free(resolved);
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::string version = VersionOf(name);
    return {FolderOf(real), name, version.empty() ? VersionOf(real) : version};
}

/** The loader's own folder, and those in which ADIOS2 looks for plugins. */
std::vector<std::string> Folders()
{
    std::vector<std::string> folders = {FolderOf(FileOf(reinterpret_cast<void *>(&CoreAt)))};
    const char *others = std::getenv("ADIOS2_PLUGIN_PATH");
    std::istringstream list(others == nullptr ? "" : others);
    for (std::string folder; std::getline(list, folder, ':');)
    {
        folders.push_back(folder);
    }
    return folders;
}

/** Behind the version of an engine for an ADIOS2 that has texts as before GCC 5; it loads there
 *  only. */
const std::string OldTexts = "_old_texts";

std::string EngineName(const std::string &version) { return "libbbflow_engine_" + version + ".so"; }

/** Versions of ADIOS2 that there are engines for. */
std::string VersionsIn(const std::vector<std::string> &folders)
{
    const std::string begin = "libbbflow_engine_", end = ".so";
    std::set<std::string> versions;
    for (const std::string &folder : folders)
    {
        DIR *directory = opendir(folder.c_str());
        while (const dirent *entry = directory == nullptr ? nullptr : readdir(directory))
        {
            const std::string name = entry->d_name;
            if (name.size() > begin.size() + end.size() &&
                name.compare(0, begin.size(), begin) == 0)
            {
                const std::string rest = name.substr(begin.size());
                versions.insert(rest.substr(0, std::min(rest.find(OldTexts), rest.find(end))));
            }
        }
        directory == nullptr ? 0 : closedir(directory);
    }
    std::string list;
    for (const std::string &version : versions)
    {
        list += (list.empty() ? "" : ", ") + version;
    }
    return list.empty() ? "none" : list;
}

[[noreturn]] void Refuse(const Core &core, const std::string &reason, const std::string &remedy)
{
    throw std::runtime_error("bbflow: the program has ADIOS2 " + core.Version + " (" + core.Folder +
                             "/" + core.Name + "), " + reason + ": " + remedy);
}

const std::string CoreWord = "_core.so";

/** What the library of ADIOS2's public C++ classes may be called; none if the core's name has
 *  nothing to go by. */
std::vector<std::string> PublicClasses(const Core &core)
{
    std::vector<std::string> names;
    const size_t at = core.Name.find(CoreWord);
    for (const char *binding : {"_cxx11.so", "_cxx.so"})
    {
        if (at != std::string::npos)
        {
            names.push_back(core.Folder + "/" +
                            std::string(core.Name).replace(at, CoreWord.size(), binding));
        }
    }
    return names;
}

/** The engine uses ADIOS2's public C++ classes; a program in C or Fortran doesn't have them.
 * With RTLD_GLOBAL an engine that names no library of ADIOS2's finds them where the program has
 * opened them for itself alone, as Python does: a release's, since distributions rename theirs. */
void OpenPublicClasses(const Core &core, int scope)
{
    dlopen((core.Folder + "/" + core.Name).c_str(), RTLD_NOW | RTLD_NOLOAD | scope);
    for (const std::string &path : PublicClasses(core))
    {
        if (dlopen(path.c_str(), RTLD_NOW | scope) != nullptr)
        {
            return; // else the engine's own needs find them, or say what is missing
        }
    }
}

/** Distributions have them in a package of their own. */
void RefuseWithoutPublicClasses(const Core &core)
{
    const std::vector<std::string> names = PublicClasses(core);
    const auto isThere = [](const std::string &path) { return access(path.c_str(), F_OK) == 0; };
    if (!names.empty() && std::none_of(names.begin(), names.end(), isThere))
    {
        Refuse(core, "but not its C++ library, " + names.front() + " (or _cxx)",
               "install that part of ADIOS2 too (on Debian 'apt search libadios2-.*c++' names it)");
    }
}

/** It stays until the process ends: streams may have to be ended at its exit. */
Engine OpenEngine(const Core &core)
{
    if (core.Version.empty())
    {
        throw std::runtime_error("bbflow: ADIOS2 is linked statically into " + core.Folder + "/" +
                                 core.Name +
                                 ", where no engine can reach it: link the program "
                                 "with ADIOS2's shared libraries");
    }
    const std::vector<std::string> folders = Folders();
    std::string why;
    for (const int scope : {RTLD_LOCAL, RTLD_GLOBAL})
    {
        OpenPublicClasses(core, scope);
        for (const std::string &folder : folders)
        {
            for (const std::string &version : {core.Version, core.Version + OldTexts})
            {
                const std::string path = folder + "/" + EngineName(version);
                void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
                if (library != nullptr)
                {
                    return {reinterpret_cast<Create>(dlsym(library, "EngineCreate")),
                            reinterpret_cast<Destroy>(dlsym(library, "EngineDestroy"))};
                }
                const std::string error = dlerror();
                why = why.empty() && error.find("No such file") == std::string::npos ? error : why;
            }
        }
        if (why.find("undefined symbol") == std::string::npos)
        {
            break; // what is opened for all stays so: only where it can help
        }
    }
    const std::string remedy = "run 'python -m bbflow_adios2 build --adios2 " + core.Folder + "'";
    if (!why.empty())
    {
        RefuseWithoutPublicClasses(core);
        Refuse(core, "but bbflow's engine for it can't be loaded (" + why + ")", remedy);
    }
    Refuse(core, "but bbflow's engine is built for " + VersionsIn(folders), remedy);
}

} // end empty namespace

extern "C"
{

    __attribute__((visibility("default"))) void *EngineCreate(void *io, void *name, int mode,
                                                              void *comm)
    {
        const std::string caller = FileOf(__builtin_return_address(0));
        Engine engine{};
        {
            const std::lock_guard<std::mutex> guard(Lock);
            auto known = Engines.find(caller);
            if (known == Engines.end())
            {
                known = Engines.emplace(caller, OpenEngine(CoreAt(caller))).first;
            }
            engine = known->second;
        }
        // Without the lock: an Open may wait for other ranks of this process.
        void *made = engine.Make(io, name, mode, comm);
        const std::lock_guard<std::mutex> guard(Lock);
        Made[made] = engine.Unmake;
        return made;
    }

    __attribute__((visibility("default"))) void EngineDestroy(void *engine)
    {
        Destroy unmake = nullptr;
        {
            const std::lock_guard<std::mutex> guard(Lock);
            const auto made = Made.find(engine);
            unmake = made == Made.end() ? nullptr : made->second;
            made == Made.end() ? Made.end() : Made.erase(made);
        }
        if (unmake != nullptr)
        {
            unmake(engine);
        }
    }

} // extern "C"
