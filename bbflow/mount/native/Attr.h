#pragma once

#include "Entry.h"
#include "Value.h"

namespace bbflow
{

/** What a master says of a file (bbflow/files/FORMAT.md, `attr`). */
struct Attr
{
    Entry File;
    uint64_t Version = 0;
};

/** @throws std::runtime_error if it is none */
Attr AttrFrom(const Value &attr);

/** The root of a master's subtree. */
inline FileId RootOf(const uint64_t master) { return (master << 48) + 1; }

/** The number of the master that knows a file. */
inline uint64_t MasterOf(const FileId id) { return id >> 48; }

} // end namespace bbflow
