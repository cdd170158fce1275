#include "FuseSession.h"
#include "MountWatch.h"
#include "NodeFiles.h"

#include <csignal>
#include <cstdlib>
#include <getopt.h>
#include <iostream>
#include <memory>
#include <sys/prctl.h>
#include <unistd.h>

namespace
{

using namespace bbflow;

struct Options
{
    MountOptions Mount;
    SessionOptions Session;
    /** Whose files are shown. */
    std::string Contact;
    double PatienceSecs = 60.0;
    /** Whether a mount is to be ended instead. */
    bool Unmounts = false;
};

/** Several requests of the largest size at a time. */
constexpr size_t ReadAheadBytes = size_t{4} << 20;

constexpr const char *Usage =
    "usage: bbflow-mount [--allow-other] [--read-only] [--no-passthrough] [--keep-awake]\n"
    "                    [--patience SECONDS] --contact FILE DIR\n"
    "       bbflow-mount --unmount DIR\n";

Options ReadOptions(const int count, char **words)
{
    enum
    {
        AllowOther = 1,
        ReadOnly,
        NoPassthrough,
        KeepAwake,
        PatienceOption,
        ContactOption,
        Unmount
    };
    static const option known[] = {{"allow-other", no_argument, nullptr, AllowOther},
                                   {"read-only", no_argument, nullptr, ReadOnly},
                                   {"no-passthrough", no_argument, nullptr, NoPassthrough},
                                   {"keep-awake", no_argument, nullptr, KeepAwake},
                                   {"patience", required_argument, nullptr, PatienceOption},
                                   {"contact", required_argument, nullptr, ContactOption},
                                   {"unmount", no_argument, nullptr, Unmount},
                                   {nullptr, 0, nullptr, 0}};
    Options options;
    for (int word = 0; (word = getopt_long(count, words, "", known, nullptr)) != -1;)
    {
        switch (word)
        {
        case AllowOther:
            options.Mount.MayOthers = true;
            break;
        case ReadOnly:
            options.Mount.IsReadOnly = true;
            break;
        case NoPassthrough:
            options.Session.MayPassThrough = false;
            break;
        case KeepAwake:
            options.Session.KeepsAwake = true;
            break;
        case PatienceOption:
            options.PatienceSecs = std::stod(optarg);
            break;
        case ContactOption:
            options.Contact = optarg;
            break;
        case Unmount:
            options.Unmounts = true;
            break;
        default:
            throw std::invalid_argument(Usage);
        }
    }
    if (optind != count - 1 || options.Unmounts != options.Contact.empty())
    {
        throw std::invalid_argument(Usage);
    }
    options.Mount.Directory = words[optind];
    return options;
}

/** The signals that end the mount; no thread but one may get them. */
sigset_t BlockSignals()
{
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
    {
        sigaddset(&signals, number);
    }
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    return signals;
}

void Serve(const Options &options)
{
    const sigset_t signals = BlockSignals(); // before any thread is there
    NodeFiles files(options.Contact, options.PatienceSecs);
    Mounting mounting(options.Mount);
    FuseSession session(mounting.Device(), files, options.Session);
    const std::shared_ptr<void> ending(nullptr, [&files](void *) { files.Kernel().Take(nullptr); });
    session.Begin();
    mounting.ReadAhead(ReadAheadBytes);
    files.Kernel().Take(&session);
    {
        const MountWatch watch(mounting, session, signals);
        std::cerr << "bbflow-mount: ready on " << options.Mount.Directory << std::endl;
        session.Run();
    }
    mounting.Forget();
}

} // end empty namespace

int main(const int count, char **words)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); // it knows the contact file's key
    try
    {
        const Options options = ReadOptions(count, words);
        if (options.Unmounts)
        {
            UnmountAt(options.Mount.Directory);
        }
        else
        {
            Serve(options);
        }
        return 0;
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << std::endl;
        return 1;
    }
}
