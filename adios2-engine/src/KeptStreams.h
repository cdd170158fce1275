#pragma once

#include "OpenStream.h"

#include <memory>

namespace bbflow
{

/** Streams that outlive their files (parameter KeepOpen): they end with the process.
 * If that exits with status 0 they are closed, else aborted; a process that is killed aborts them
 * as any other stream. */
class KeptStreams
{
public:
    /** Returns the stream that parameters name; opens it the first time.
     *  @throws std::runtime_error if someone writes it already, if other ranks did before, or no BB
     *  node takes it */
    static std::unique_ptr<OpenStream> Take(const Parameters &parameters);

    /** Takes a stream back when its file has ended. */
    static void Keep(std::unique_ptr<OpenStream> stream);

    /** Whether the stream that parameters name continues from a file that was closed. */
    static bool Has(const Parameters &parameters);

    /** A stream that was taken has ended, and doesn't come back. */
    static void Forget(const Parameters &parameters);
};

} // end namespace bbflow
