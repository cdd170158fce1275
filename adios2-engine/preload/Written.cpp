#include "Written.h"

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** The note in a folder. */
constexpr const char *NoteName = "bbflow-stream.txt", *NoteBegin = "stream: ";
/** What BP4 and BP5 have in a folder whose data can be read. */
constexpr const char *IndexName = "md.idx";

/** A name without a folder that could tell. They stay until the process ends. */
struct Known
{
    char *Path, *Stream;
    std::atomic<bool> IsGone;
    Known *Next;
};

std::atomic<Known *> First{nullptr};

/** Writes an absolute path; its last part need not be there, and may end in slashes. */
void Resolve(const char *file, char (&path)[PATH_MAX])
{
    char given[PATH_MAX], folder[PATH_MAX] = ".";
    std::snprintf(given, sizeof given, "%s", file);
    for (size_t end = std::strlen(given); end > 1 && given[end - 1] == '/';)
    {
        given[--end] = '\0';
    }
    char *slash = std::strrchr(given, '/');
    const char *name = slash == nullptr ? given : slash + 1;
    if (slash != nullptr)
    {
        *slash = '\0';
        std::snprintf(folder, sizeof folder, "%s", slash == given ? "/" : given);
    }
    char real[PATH_MAX];
    const char *parent = realpath(folder, real) == nullptr ? folder : real;
    if (std::snprintf(path, sizeof path, "%s/%s", parent, name) >= PATH_MAX)
    {
        path[0] = '\0';
    }
}

bool Join(char (&path)[PATH_MAX], const char *folder, const char *name)
{
    return std::snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX;
}

void MakeFolder(const char *path)
{
    char part[PATH_MAX];
    std::snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; *at != '\0'; ++at)
    {
        if (*at == '/')
        {
            *at = '\0';
            mkdir(part, 0777);
            *at = '/';
        }
    }
    mkdir(part, 0777);
}

/** Leaves a note in a folder; what is there from an earlier run stays. */
void WriteNote(const char *folder, const char *stream)
{
    char path[PATH_MAX], text[PATH_MAX];
    const int length =
        std::snprintf(text, sizeof text,
                      "%s%s\nbbflow selected this file: what was written went to the "
                      "stream, and isn't here.\n",
                      NoteBegin, stream);
    const int file = Join(path, folder, NoteName)
                         ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666)
                         : -1;
    if (file >= 0)
    {
        if (write(file, text, static_cast<size_t>(length)) != length)
        {
            unlink(path);
        }
        close(file);
    }
}

/** Reads the note, unless the folder's data are newer. */
bool ReadNote(const char *folder, char *stream, const size_t room)
{
    char path[PATH_MAX], text[PATH_MAX] = "";
    struct stat note, index;
    const int file =
        Join(path, folder, NoteName) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (file < 0)
    {
        return false;
    }
    const bool isRead = fstat(file, &note) == 0 && read(file, text, sizeof text - 1) > 0;
    close(file);
    const size_t begin = std::strlen(NoteBegin);
    if (!isRead || std::strncmp(text, NoteBegin, begin) != 0)
    {
        return false;
    }
    std::snprintf(stream, room, "%.*s", static_cast<int>(std::strcspn(text + begin, "\n")),
                  text + begin);
    const auto time = [](const struct stat &of)
    { return of.st_mtim.tv_sec * 1000000000LL + of.st_mtim.tv_nsec; };
    return !Join(path, folder, IndexName) || stat(path, &index) != 0 || time(index) <= time(note);
}

bool IsFolder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

Known *Find(const char *path)
{
    for (Known *known = First; known != nullptr; known = known->Next)
    {
        if (std::strcmp(known->Path, path) == 0)
        {
            return known;
        }
    }
    return nullptr;
}

void Remember(const char *path, const char *stream)
{
    if (Known *known = Find(path))
    {
        known->IsGone = false;
        return;
    }
    auto *known = static_cast<Known *>(std::calloc(1, sizeof(Known)));
    if (known == nullptr)
    {
        return;
    }
    known->Path = strdup(path);
    known->Stream = strdup(stream);
    if (known->Path == nullptr || known->Stream == nullptr)
    {
        return;
    }
    known->Next = First;
    while (!First.compare_exchange_weak(known->Next, known))
    {
    }
}

} // end empty namespace

void NoteWritten(const char *file, const char *stream, const bool isFolder)
{
    char path[PATH_MAX], noted[NAME_MAX + 1];
    Resolve(file, path);
    if (isFolder)
    {
        MakeFolder(path);
        WriteNote(path, stream);
    }
    if (!ReadNote(path, noted, sizeof noted))
    {
        Remember(path, stream);
    }
}

void ForgetWritten(const char *file)
{
    char path[PATH_MAX], note[PATH_MAX], stream[NAME_MAX + 1];
    Resolve(file, path);
    if (Known *known = Find(path))
    {
        known->IsGone = true;
    }
    if (ReadNote(path, stream, sizeof stream) && Join(note, path, NoteName))
    {
        unlink(note);
    }
}

bool IsWritten(const char *file, char *stream, const size_t room)
{
    char path[PATH_MAX];
    Resolve(file, path);
    if (ReadNote(path, stream, room))
    {
        return true;
    }
    const Known *known = Find(path);
    if (known == nullptr || known->IsGone || IsFolder(path))
    {
        return false;
    }
    std::snprintf(stream, room, "%s", known->Stream);
    return true;
}

} // end namespace bbflow
