#pragma once

#include "Channel.h"

#include <string>

namespace bbflow
{

/** Proves to a node, and makes it prove, the knowledge of the contact file's key (FORMAT.md,
 *  "Handshake").
 *  @param key its hexadecimal digits
 *  @param isSealed whether what follows the proofs is sealed, as it is over TCP
 *  @throws ConnectionLost if the node hangs up or is silent
 *  @throws Refused if the secret or the version is not the node's */
void ShakeHands(Channel &channel, const std::string &key, bool isSealed);

} // end namespace bbflow
