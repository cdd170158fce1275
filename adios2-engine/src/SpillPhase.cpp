#include "SpillPhase.h"

namespace bbflow
{

namespace
{

/** A rank that dies holds others back no longer than this. */
constexpr double LeaseSecs = 60.0;

} // end empty namespace

SpillPhase::SpillPhase(const std::string &stream)
{
    bbflow_phase_begin(&m_Phase, nullptr, stream.c_str(), "pfs", LeaseSecs);
}

} // end namespace bbflow
