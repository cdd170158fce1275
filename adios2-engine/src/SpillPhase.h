#pragma once

#include <string>

#include <bbflow_phase.h>

namespace bbflow
{

/** Tells who else uses the parallel file system that this rank writes to it, where BBFLOW_PHASES
 *  names the directory for it, until End or the end of this object. */
class SpillPhase
{
public:
    explicit SpillPhase(const std::string &stream);
    ~SpillPhase() { End(); }
    SpillPhase(const SpillPhase &) = delete;
    SpillPhase &operator=(const SpillPhase &) = delete;

    void End() { bbflow_phase_end(&m_Phase); }

private:
    bbflow_phase m_Phase;
};

} // end namespace bbflow
