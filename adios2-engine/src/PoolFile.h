#pragma once

#include <string>
#include <sys/stat.h>

namespace bbflow
{

/** Whether a file is the pool that its node has made, by both names that it has then (FORMAT.md,
 *  `pool.CAPACITY`): who took one that was cut, or has the place of another, for it would find
 * zeros where values were.
 *  @param path where the node says that it is
 *  @param file what fstat(2) has said of it */
bool IsPoolAt(const std::string &path, const struct stat &file);

/** Whether a pool that holds steps has all its pages; one in memory that was cut, and made as long
 *  again, hasn't. */
bool HasPages(const std::string &path);

/** @throws std::runtime_error always: what a pool held is lost */
[[noreturn]] void ThrowPoolLost(const std::string &path);

} // end namespace bbflow
