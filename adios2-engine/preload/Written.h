#pragma once

#include <cstddef>

namespace bbflow
{

/** What the program was made to believe that it writes: files that were selected, and so are none.
 * Where it expects a folder there is one, with a note in it that goes with it when it is renamed.
 */

/** An Open to write was selected; all ranks may say so.
 *  @param file as the program calls it
 *  @param stream where the steps go
 *  @param isFolder whether the program's own engine would make a folder */
void NoteWritten(const char *file, const char *stream, bool isFolder);

/** The program writes a file of that name by itself. */
void ForgetWritten(const char *file);

/** Whether what was written last under a name is in a stream, and in no file.
 *  @param stream gets its name */
bool IsWritten(const char *file, char *stream, size_t room);

} // end namespace bbflow
