#pragma once

#include <cstddef>

namespace bbflow
{

class Core;

/** For the name of a stream, where it is told to a person. */
constexpr size_t NameRoom = 256;

/** What the rules say about an Open. */
struct Ruling
{
    /** Which rule fits, from 0; -1 if none does. */
    int Rule = -1;
    /** Whether the rule's stream ends with this file. */
    bool IsLast = false;
    /** Where the steps go; empty if the rule doesn't say it. */
    char Stream[NameRoom] = "";

    bool IsSelected() const { return Rule >= 0; }
};

/** Applies what `bbflow run` says about which IOs land (FORMAT.md, "Selection from outside"): if a
 * rule fits, its parameters are set.
 *  @param object the adios2::core::IO
 *  @param io its name; null if it is unknown
 *  @param file as the program gives it to Open */
Ruling ApplyRules(const Core &core, void *object, const char *io, const char *file);

/** An Open has succeeded: if it was of a stream's last file, its rule fits nothing from now on. */
void NoteOpened(const Ruling &ruling);

} // end namespace bbflow
