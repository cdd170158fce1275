#pragma once

namespace bbflow
{

class Core;

/** Applies what `bbflow run` says about which IOs land (FORMAT.md, "Selection from outside").
 *  @param object the adios2::core::IO
 *  @param io its name; null if it is unknown
 *  @param file as the program gives it to Open
 *  @return whether a rule fits; then the rule's parameters are set */
bool ApplyRules(const Core &core, void *object, const char *io, const char *file);

} // end namespace bbflow
