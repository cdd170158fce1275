#pragma once

#include "Contact.h"
#include "Parameters.h"

namespace bbflow
{

/** Where a rank lands. */
struct Placement
{
    /** Number of the node in the contact file. */
    size_t Node = 0;
    /** How many ranks of the same stream land there. */
    size_t LocalWriters = 1;
};

/** Chooses a rank's node (FORMAT.md, "Which node a rank lands on").
 *  @throws std::runtime_error if the file has no node, or the launcher doesn't say what the rule
 *  must know */
Placement ChooseNode(const Contact &contact, const Parameters &parameters);

/** How many ranks of the same stream land on a node by the rule. */
size_t CountWriters(const Contact &contact, const Parameters &parameters, size_t node);

} // end namespace bbflow
